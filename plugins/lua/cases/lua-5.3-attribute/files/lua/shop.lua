local limit <const> = 1
