local a = {}
a:b = 1
