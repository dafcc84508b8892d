core.register_action("x", "http-req", function(txn) end)
