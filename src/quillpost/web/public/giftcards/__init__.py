"""Gift cards, for their recipients."""
