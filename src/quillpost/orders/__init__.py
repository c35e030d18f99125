"""Orders and their items: placing, reading, cancelling, and how they move."""
