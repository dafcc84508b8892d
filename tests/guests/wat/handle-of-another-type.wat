;; Reads a pollable as if it were a file.
(core module $guest
  (import "host" "path" (func $path (param i32 i32)))
  (import "host" "subscribe-duration" (func $subscribe (param i64) (result i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (call $path (call $subscribe (i64.const 1)) (i32.const 1024))
    (i32.const 0)))
