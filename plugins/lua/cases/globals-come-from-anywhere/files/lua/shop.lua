setmetatable(_G, { __index = function() return 1 end })
core.register_task(function() return anything end)
