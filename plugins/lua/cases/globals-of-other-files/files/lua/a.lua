function shop_open() return true end
