core.register_action("x", { "http-req", "http-res" }, function(txn) end)
core.register_action("x", { "tcp-req" }, function(txn) end)
core.register_fetches("x", function(txn) end)

core.register_action("x", { "http-res" }, function(txn) end)
