;; Begins with a memory that 32 bits cannot count.
(core module $guest (memory i64 131072))
