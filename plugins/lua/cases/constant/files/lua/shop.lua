local limit <const> = 1
limit = 2
