"""Gift cards: what can be given, each piece's card, and how its holder claims it."""
