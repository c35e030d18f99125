"""Facts told to whoever subscribed: fanned out, signed, delivered, retried."""
