local names = ipair({ "a" })
