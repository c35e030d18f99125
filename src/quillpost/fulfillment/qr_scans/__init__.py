"""Scans of QR codes: kept before they are answered, counted after."""
