;; Answers, and never ends the clearing up after it.
(core module $guest
  (func (export "post") (param i32) (loop $again (br $again))))
