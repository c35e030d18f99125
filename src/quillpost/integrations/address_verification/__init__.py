"""Services that know every address at home."""
