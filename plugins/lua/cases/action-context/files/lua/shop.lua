core.register_action("x", { "http-req", "http-request" }, function(txn) end)
