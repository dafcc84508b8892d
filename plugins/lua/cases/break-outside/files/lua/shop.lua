if true then break end
