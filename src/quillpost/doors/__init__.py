"""Open to the world: each door has its own credential, or shows nothing that matters."""
