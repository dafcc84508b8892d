;; Answers with a message whose length has every bit set.
(core module $guest
  (import "libc" "memory" (memory 0))
  (func (export "validate") (param i32 i32 i32 i64) (result i32) (i32.const 1024))
  (data (i32.const 1024) "\01\00\00\00" "\10\00\00\00" "\ff\ff\ff\ff"))
