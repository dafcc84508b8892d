;; Never ends its start function, as a static constructor would.
(core module $guest
  (func $start (loop $again (br $again)))
  (start $start))
