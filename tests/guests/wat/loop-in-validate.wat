;; Never comes back from `validate`.
(core module $guest
  (func (export "validate") (param i32 i32 i32 i64) (result i32) (loop $again (br $again)) (unreachable)))
