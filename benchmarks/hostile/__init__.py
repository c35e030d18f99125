"""Bodies and files that cost far more than their size: what they do to the service and to others."""
