"""The tables as queries see them. The migrations are the master; a test holds the two together."""
