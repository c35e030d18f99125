"""Gift cards: what can be given, each piece's card, and how whoever has the piece comes to it."""
