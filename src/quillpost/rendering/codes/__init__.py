"""Codes that machines read: the postal barcode and the QR code."""
