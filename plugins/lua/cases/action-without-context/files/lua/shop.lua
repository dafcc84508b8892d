core.register_action("x", {}, function(txn) end)
