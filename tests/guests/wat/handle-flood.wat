;; Asks the host for one pollable after the other and keeps them all.
(core module $guest
  (import "host" "subscribe-duration" (func $subscribe (param i64) (result i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (loop $again (drop (call $subscribe (i64.const 1))) (br $again))
    (unreachable)))
