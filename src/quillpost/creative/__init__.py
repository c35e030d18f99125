"""The pictures a mailing is made of, and the shelf that keeps every file we made or were given."""
