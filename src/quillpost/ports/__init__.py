"""All that we ask of the outside world."""
