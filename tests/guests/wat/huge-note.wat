;; Writes one note of three megabytes.
(core module $guest-libc
  (memory (export "memory") 64)
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 8192)))
(core module $guest
  (import "host" "log" (func $log (param i32 i32 i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (call $log (i32.const 3) (i32.const 0) (i32.const 3145728))
    (i32.const 0)))
