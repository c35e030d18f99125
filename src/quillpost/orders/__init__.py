"""Orders: validated, priced, created, changed, canceled, replayed."""
