;; Grows a table until it gets no more, and then gives up.
(core module $guest
  (table $table 1 funcref)
  (func (export "validate") (param i32 i32 i32 i64) (result i32)
    (loop $again
      (br_if $again (i32.ne (table.grow $table (ref.null func) (i32.const 10000)) (i32.const -1))))
    (unreachable)))
