;; Calls itself without end, and uses no memory for it.
(core module $guest
  (func $deeper (param i64) (result i64)
    (i64.add (local.get 0) (call $deeper (i64.add (local.get 0) (i64.const 1)))))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (drop (call $deeper (i64.const 0)))
    (i32.const 0))
  (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (drop (call $deeper (i64.const 0)))
    (i32.const 0)))
