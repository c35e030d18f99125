"""What happened, appended in the caller's transaction. Listeners above read it; nobody here knows them."""

from quillpost.events.facts import order_status_changed

__all__ = ["order_status_changed"]
