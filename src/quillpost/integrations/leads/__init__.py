"""Where addresses for radius searches come from."""
