"""Structured logs, without secrets or recipients' addresses, and metrics for Prometheus."""

import logging
import sys
from copy import copy

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from quillpost.core.tokens import hide_secrets

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


LEVEL_OFF = logging.CRITICAL + 1
PRIVATE_FIELDS = frozenset({"token", "secret", "authorization", "password", "address", "email", "name"})


def mask_private_fields(_logger: object, _method: str, event: dict[str, object]) -> dict[str, object]:
    return {key: "***" if key in PRIVATE_FIELDS else value for key, value in event.items()}


def hide_secrets_in_line(_logger: object, _method: str, line: str) -> str:
    return hide_secrets(line)


class RedactingFormatter(logging.Formatter):
    """For libraries: one line for each message, without secrets, and no stack of a lost connection."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy(record)
        record.msg, record.args = " ".join(record.getMessage().split()), None
        if _is_lost_connection(record):
            record.exc_info = record.exc_text = None
        return hide_secrets(super().format(record))


def configure_logging(*, as_json: bool, level: str = "info") -> None:
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=28)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_private_fields,  # type: ignore[list-item]
            structlog.processors.format_exc_info,
            renderer,
            hide_secrets_in_line,  # type: ignore[list-item]
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    library_handler = logging.StreamHandler(sys.stderr)
    library_handler.setFormatter(RedactingFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[library_handler])
    logging.getLogger("procrastinate").setLevel(logging.ERROR)  # its other lines repeat ours
    # At its debug level Authlib writes whole tokens.
    authlib_logger = logging.getLogger("authlib")
    authlib_logger.setLevel(LEVEL_OFF)
    authlib_logger.propagate = False


def _is_lost_connection(record: logging.LogRecord) -> bool:
    """Of the job engine, known by name: few commands load the engine, and all write logs."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ == "ConnectorException"
