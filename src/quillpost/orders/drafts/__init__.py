"""From a request to an order that is fully checked and not stored."""
