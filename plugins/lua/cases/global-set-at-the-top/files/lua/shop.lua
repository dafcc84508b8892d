hits = 0
core.register_action("count", { "http-req" }, function() hits = hits + 1 end)
_G.total = 0
core.register_action("total", { "http-req" }, function() total = total + 1 end)
