"""The page: where things go on each piece, how words fill their place, what is drawn around them."""
