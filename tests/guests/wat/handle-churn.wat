;; Makes more pollables than it may hold, and gives each of them back: that is allowed.
(core module $guest
  (import "host" "subscribe-duration" (func $subscribe (param i64) (result i32)))
  (import "host" "drop-pollable" (func $drop (param i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (local $left i32)
    (local.set $left (i32.const 10000))
    (loop $again
      (call $drop (call $subscribe (i64.const 1)))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
    (i32.const 0)))
