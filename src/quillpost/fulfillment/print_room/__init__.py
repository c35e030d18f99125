"""What operators do in the print room."""
