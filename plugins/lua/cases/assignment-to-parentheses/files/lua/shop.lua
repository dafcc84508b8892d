local a
(a) = 1
