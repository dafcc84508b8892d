;; Never comes back from a filter.
(core module $guest
  (func (export "call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32) (loop $again (br $again)) (unreachable)))
