core.register_action("x", { "http-req" })
