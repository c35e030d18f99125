"""The printed page: a design and its recipients in, PDF or PNG bytes out."""
