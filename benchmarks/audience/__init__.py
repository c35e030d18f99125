"""Whom mail goes to: addresses standardised, files imported, neighbours found."""
