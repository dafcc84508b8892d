x = "a\q"
