"""The composition root: settings in, a running service out."""
