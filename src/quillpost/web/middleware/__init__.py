"""What every request passes before its endpoint."""
