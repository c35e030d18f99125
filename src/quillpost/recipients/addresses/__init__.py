"""Addresses as the post reads them: taken apart, standardised, judged, and known by a key."""
