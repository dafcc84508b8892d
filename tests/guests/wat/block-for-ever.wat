;; Waits for the end of time, again and again.
(core module $guest
  (import "host" "subscribe-duration" (func $subscribe (param i64) (result i32)))
  (import "host" "block" (func $block (param i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (local $pollable i32)
    (local.set $pollable (call $subscribe (i64.const -1)))
    (loop $again (call $block (local.get $pollable)) (br $again))
    (unreachable)))
