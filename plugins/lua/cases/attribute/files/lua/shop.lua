local limit <constant> = 1
