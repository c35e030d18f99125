"""OAuth: clients, the apps that people connected, and their tokens."""
