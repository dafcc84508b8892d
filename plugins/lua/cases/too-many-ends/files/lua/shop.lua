function f()
end
end
