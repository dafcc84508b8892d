;; Begins with nine million table entries.
(core module $guest (table 9000000 funcref))
