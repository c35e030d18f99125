"""The outside world, one folder for each port; only the wiring knows which adapter is in use."""
