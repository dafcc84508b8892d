core.register_action("ask", { "http-req" }, function(txn)
  local answer = io.popen("date"):read("a")
  os.execute("true")
  txn:set_var("txn.answer", answer)
end)
local line = io.read
