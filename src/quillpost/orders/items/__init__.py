"""Items: the single pieces of an order."""
