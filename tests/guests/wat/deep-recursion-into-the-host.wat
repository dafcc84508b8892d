;; Calls itself without end, and the host at every step.
(core module $guest
  (import "host" "log" (func $log (param i32 i32 i32)))
  (func $deeper (param i64) (result i64)
    (call $log (i32.const 0) (i32.const 0) (i32.const 1))
    (i64.add (local.get 0) (call $deeper (i64.add (local.get 0) (i64.const 1)))))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (drop (call $deeper (i64.const 0)))
    (i32.const 0)))
