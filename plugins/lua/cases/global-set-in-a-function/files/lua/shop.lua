core.register_action("count", { "http-req" }, function(txn)
  path = txn.sf:path()
  txn:set_var("txn.path", path)
end)
