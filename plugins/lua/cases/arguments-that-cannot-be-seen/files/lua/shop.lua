local arguments = { "x", { "http-req" }, function() end }
local kind = "http" .. "-req"
core.register_action(table.unpack(arguments))
core.register_action("y", { kind }, arguments[3])
