;; Has more memories than an instance may have.
(core module $guest
  (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0)
  (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0) (memory 0))
