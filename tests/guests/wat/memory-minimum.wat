;; Begins with a gigabyte.
(core module $guest (memory 16384))
