;; Makes one resource of its own after the other and keeps them all.
(core module $guest
  (import "host" "new-thing" (func $new (param i32) (result i32)))
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (loop $again (drop (call $new (i32.const 1))) (br $again))
    (unreachable)))
