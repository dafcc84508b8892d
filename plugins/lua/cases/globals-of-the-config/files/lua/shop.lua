core.register_task(function() shop_open() end)
