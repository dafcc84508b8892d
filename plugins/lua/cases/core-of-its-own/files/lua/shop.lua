local core = { register_action = print }
core.register_action("x", "y")
