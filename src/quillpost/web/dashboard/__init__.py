"""Pages for senders and operators."""
