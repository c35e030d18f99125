"""What a caller asks for: looked up, checked, and stored to be sent later."""
