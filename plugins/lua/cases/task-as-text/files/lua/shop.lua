core.register_task("x")
