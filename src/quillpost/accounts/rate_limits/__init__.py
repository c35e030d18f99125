"""How often a caller may call, or guess."""
