x = "\x4g"
