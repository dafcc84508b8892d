;; Never says which filters it has.
(core module $guest
  (func (export "declarations") (result i32) (loop $again (br $again)) (unreachable)))
