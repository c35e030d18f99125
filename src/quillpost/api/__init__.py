"""The HTTP JSON API. Wire shapes live here and nowhere deeper."""
