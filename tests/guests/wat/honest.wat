;; Does nothing wrong: what is shown of the others is not the frame's doing.
(core module $guest)
