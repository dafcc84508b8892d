;; Is made of a thousand instances.
(component $ten
  (core module $empty)
  (core instance (instantiate $empty)) (core instance (instantiate $empty)) (core instance (instantiate $empty))
  (core instance (instantiate $empty)) (core instance (instantiate $empty)) (core instance (instantiate $empty))
  (core instance (instantiate $empty)) (core instance (instantiate $empty)) (core instance (instantiate $empty))
  (core instance (instantiate $empty)))
(component $hundred
  (alias outer 1 $ten (component $ten))
  (instance (instantiate $ten)) (instance (instantiate $ten)) (instance (instantiate $ten))
  (instance (instantiate $ten)) (instance (instantiate $ten)) (instance (instantiate $ten))
  (instance (instantiate $ten)) (instance (instantiate $ten)) (instance (instantiate $ten))
  (instance (instantiate $ten)))
(instance (instantiate $hundred)) (instance (instantiate $hundred)) (instance (instantiate $hundred))
(instance (instantiate $hundred)) (instance (instantiate $hundred)) (instance (instantiate $hundred))
(instance (instantiate $hundred)) (instance (instantiate $hundred)) (instance (instantiate $hundred))
(instance (instantiate $hundred))
(core module $guest)
