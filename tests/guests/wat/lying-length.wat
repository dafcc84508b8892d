;; Answers with a list of findings that is longer than its memory.
(core module $guest
  (import "libc" "memory" (memory 0))
  (func (export "validate") (param i32 i32 i32 i64) (result i32) (i32.const 1024))
  (data (i32.const 1024) "\00\00\00\00" "\02\00\00\00" "\00\00\00\00\00\00\00\00" "\00\00\00\00\ff\ff\ff\0f"))
