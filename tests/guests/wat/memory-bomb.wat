;; Takes memory until it gets no more, and then goes on as if nothing had happened.
(core module $guest
  (memory 0)
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (loop $again
      (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (i32.const 0)))
