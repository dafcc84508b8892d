;; Says that there is room at the end of the address space.
(core module $guest-libc
  (memory (export "memory") 4)
  (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const -4)))
(core module $guest)
