"""What a piece says to one person: variables filled, names understood."""
