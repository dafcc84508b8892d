local function f() end
core.register_action("x", { "http-req" }, "f")
