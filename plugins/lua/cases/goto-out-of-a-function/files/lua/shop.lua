::top::
local function f() goto top end
