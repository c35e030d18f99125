"""The printed page against its peers: the same postcards, by our core and by what others would take."""
