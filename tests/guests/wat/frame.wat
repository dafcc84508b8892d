;; A whole plugin around the module of one guest: it lends the host's functions to the module, and exports the module's
;; functions as the contracts `auxiliary-file-validator` and `template-filters`.
;;
;; The test puts the guest's text in the place of `@guest@`. For each of `@libc@`, `@configure@`, `@validate@`,
;; `@declarations@`, `@call@` and `@post@` it puts the guest's module if that has it, else the honest one below.
(component
  (import "haptic:plugin/types@1.0.0" (instance $types
    (type $verdict' (enum "valid" "warning" "error"))
    (export "verdict" (type $verdict (eq $verdict')))
    (type $finding' (record (field "path" string) (field "line" u32) (field "column" u32) (field "message" string)))
    (export "finding" (type $finding (eq $finding')))
    (type $report' (record
      (field "verdict" $verdict) (field "warnings" (list $finding)) (field "errors" (list $finding))))
    (export "report" (type (eq $report')))
    (type $plugin-error' (record (field "message" string)))
    (export "plugin-error" (type (eq $plugin-error')))))
  (alias export $types "report" (type $report))
  (alias export $types "plugin-error" (type $plugin-error))

  (import "haptic:plugin/files@1.0.0" (instance $files
    (export "file" (type $file (sub resource)))
    (export "[method]file.path" (func (param "self" (borrow $file)) (result string)))
    (export "[method]file.read-all" (func (param "self" (borrow $file)) (result (list u8))))))
  (alias export $files "file" (type $file))

  (import "haptic:plugin/logging@1.0.0" (instance $logging
    (type $level' (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level')))
    (export "log" (func (param "level" $level) (param "message" string)))))

  (import "wasi:io/poll@0.2.6" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
    (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
  (alias export $poll "pollable" (type $pollable))

  (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
    (alias outer 1 $pollable (type $pollable'))
    (export "pollable" (type $a-pollable (eq $pollable')))
    (export "subscribe-duration" (func (param "when" u64) (result (own $a-pollable))))))

  (import "wasi:random/random@0.2.6" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))

  ;; Memory and a `realloc` that never frees.
  (core module $honest-libc
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 8192))
    (func (export "realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
      (global.set $next (i32.add (local.get $at) (local.get $size)))
      (local.get $at)))

  ;; A `result` whose bytes are all zero is `ok`; so a report of zeros is `valid`, with two empty lists.
  (core module $honest
    (import "libc" "memory" (memory 0))
    (func (export "configure") (param i32 i32) (result i32) (i32.const 0))
    (func (export "validate") (param i32 i32 i32 i64) (result i32) (i32.const 0))
    (func (export "declarations") (result i32) (i32.const 32))
    (func (export "call") (param i32 i32) (param $value i32) (param $length i32) (param i32 i32 i32 i32) (result i32)
      (i32.store (i32.const 68) (local.get $value))
      (i32.store (i32.const 72) (local.get $length))
      (i32.const 64))
    (func (export "post") (param i32))
    ;; One declaration, of the filter `echo`.
    (data (i32.const 32) "\28\00\00\00\01\00\00\00" "\38\00\00\00\04\00\00\00" "\38\00\00\00\04\00\00\00" "echo"))

  @guest@

  (core instance $libc (instantiate @libc@))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))

  (core func $path (canon lower (func $files "[method]file.path") (memory $memory) (realloc $realloc)))
  (core func $read-all (canon lower (func $files "[method]file.read-all") (memory $memory) (realloc $realloc)))
  (core func $drop-file (canon resource.drop $file))
  (core func $log (canon lower (func $logging "log") (memory $memory)))
  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core func $poll (canon lower (func $poll "poll") (memory $memory) (realloc $realloc)))
  (core func $subscribe-duration (canon lower (func $clock "subscribe-duration")))
  (core func $drop-pollable (canon resource.drop $pollable))
  (core func $get-random-bytes (canon lower (func $random "get-random-bytes") (memory $memory) (realloc $realloc)))
  (type $thing (resource (rep i32)))
  (core func $new-thing (canon resource.new $thing))
  (core instance $host
    (export "path" (func $path))
    (export "read-all" (func $read-all))
    (export "drop-file" (func $drop-file))
    (export "log" (func $log))
    (export "block" (func $block))
    (export "poll" (func $poll))
    (export "subscribe-duration" (func $subscribe-duration))
    (export "drop-pollable" (func $drop-pollable))
    (export "get-random-bytes" (func $get-random-bytes))
    (export "new-thing" (func $new-thing)))
  (core instance $the-honest (instantiate $honest (with "libc" (instance $libc))))
  (core instance $the-guest (instantiate $guest (with "libc" (instance $libc)) (with "host" (instance $host))))

  (type $request' (record (field "file" (own $file)) (field "data-files" (list (own $file))) (field "now" u64)))
  (export $request "request" (type $request'))
  (type $declaration' (record (field "name" string) (field "doc" string)))
  (export $declaration "declaration" (type $declaration'))
  (type $filter-error' (variant (case "refused" string) (case "failed" string)))
  (export $filter-error "filter-error" (type $filter-error'))

  (func $configure (param "config" string) (result (result (error string)))
    (canon lift (core func @configure@ "configure") (memory $memory) (realloc $realloc)))
  (func $validate (param "request" $request) (result (result $report (error $plugin-error)))
    (canon lift (core func @validate@ "validate") (memory $memory) (realloc $realloc)
      (post-return (func @post@ "post"))))
  (func $declarations (result (list $declaration))
    (canon lift (core func @declarations@ "declarations") (memory $memory) (realloc $realloc)))
  (func $call
    (param "name" string) (param "value" string)
    (param "positional" (list string)) (param "named" (list (tuple string string)))
    (result (result string (error $filter-error)))
    (canon lift (core func @call@ "call") (memory $memory) (realloc $realloc)))

  (instance $validator (export "configure" (func $configure)) (export "validate" (func $validate)))
  (instance $filters
    (export "configure" (func $configure))
    (export "declarations" (func $declarations))
    (export "call" (func $call)))
  (export "haptic:plugin/auxiliary-file-validator@1.0.0" (instance $validator))
  (export "haptic:plugin/template-filters@1.0.0" (instance $filters)))
