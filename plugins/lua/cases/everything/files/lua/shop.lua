#!/usr/bin/lua
-- Adds a header that says how long the shop is open.
local M = { hours = { 9, 18 }, ["name"] = "shop"; 'x' }
local log <const> = core.Info
local text = [==[
long ]] text
]==]
local numbers = { 0x1F, 0xA.8p-3, 3.14e+2, .5, 5., 1e10, 0xffffffffffffffffff }
local escapes = "\a\b\\\"\'\x41\065\u{20AC}\z
   more\
   lines"

--[[ a long
comment ]] function M.open(self, hour, ...)
  local first, second = ...
  for i = 1, 10, 2 do
    if i == hour then goto continue elseif i ~= 3 and not first then break end
    ::continue::
  end
  for _, value in ipairs(M.hours) do first = value end
  while false do end
  repeat local done = true until done
  return self and hour >= M.hours[1] or hour // 2 < 1 << 3 ~ 5 & ~7 | 1
end

function M:close(reason) self.reason = reason .. "!" ; return #reason, -2 ^ 2 end

core.register_action("open", { "http-req", "http-res" }, function(txn)
  txn:set_var("txn.open", M:open(os.date("*t").hour))
  local client = core.httpclient()
  local answer <close> = nil
  log(("%d"):format(M.hours[1])) ; (print or log)("x")
  if act then return act.CONTINUE end
end, 0)
core.register_fetches("shop", function(txn) return text end)
core.register_converters("twice", function(input) return input .. input end)
core.register_service("hello", "http", function(applet) applet:start_response() end)
core.register_task(function() while true do core.msleep(1000) end end)
core.register_init(function() string.trim = function(s) return s end ; return string.trim("") end)
core.register_cli({ "show", "shop" }, "show the shop", function(applet) applet:send("open") end)
return M
