;; Asks for all the random bytes there are.
(core module $guest
  (import "host" "get-random-bytes" (func $random (param i64 i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (call $random (i64.const -1) (i32.const 1024))
    (i32.const 0)))
