"""The text of an item: variables, names and addresses."""
