;; Answers with a list at an odd address.
(core module $guest
  (import "libc" "memory" (memory 0))
  (func (export "validate") (param i32 i32 i32 i64) (result i32) (i32.const 1024))
  (data (i32.const 1024) "\00\00\00\00" "\02\00\00\00" "\00\00\00\00\00\00\00\00" "\01\00\00\00\01\00\00\00"))
