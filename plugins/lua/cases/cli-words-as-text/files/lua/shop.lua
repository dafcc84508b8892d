core.register_cli("show shop", "usage", function() end)
