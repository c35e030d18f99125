"""What this process counts for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()

REQUESTS = Counter("quillpost_requests", "HTTP requests answered.", ["method", "route", "status"], registry=REGISTRY)
REQUEST_SECONDS = Histogram(
    "quillpost_request_duration_seconds",
    "Time to answer.",
    ["method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
WEBHOOK_ATTEMPTS = Counter(
    "quillpost_webhook_attempts",
    "Attempts to deliver an event: delivered, to be tried again, or failed for good.",
    ["outcome"],
    registry=REGISTRY,
)
