"""How often somebody may call, or guess."""
