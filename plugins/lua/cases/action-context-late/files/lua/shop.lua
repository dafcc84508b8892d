core.register_init(function()
  core.register_action("x", { "http-request" }, function(txn) end)
end)
