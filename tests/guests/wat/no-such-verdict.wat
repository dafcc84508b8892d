;; Answers with a verdict that the enumeration does not have.
(core module $guest
  (import "libc" "memory" (memory 0))
  (func (export "validate") (param i32 i32 i32 i64) (result i32) (i32.const 1024))
  (data (i32.const 1024) "\00\00\00\00" "\09\00\00\00"))
