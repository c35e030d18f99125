"""QR codes, for those who scan one."""
