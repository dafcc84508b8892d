core.register_service("x", "https", function(applet) end)
