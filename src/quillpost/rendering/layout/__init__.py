"""The page: where things go, how text fills its boxes, what is drawn around it."""
