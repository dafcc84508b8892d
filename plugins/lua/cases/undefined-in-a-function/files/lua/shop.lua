local function answer(txn)
  return strng.format("%s", txn.sf:req_hdr("host"))
end
core.register_fetches("answer", answer)
