local name = "caféÿ" -- é
