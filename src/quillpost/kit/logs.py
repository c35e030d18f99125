"""Structured logs: one event a line, ids bound to it; never a secret, never a recipient's address."""

import logging
import sys

import structlog

from quillpost.kit.tokens import hide_secrets

NEVER = logging.CRITICAL + 1
FORBIDDEN = frozenset({"token", "secret", "authorization", "password", "address", "email", "name"})


def refuse_private_fields(_logger: object, _method: str, event: dict[str, object]) -> dict[str, object]:
    """A field that could carry a secret or a person is blanked, whoever tried to log it."""
    return {key: "***" if key in FORBIDDEN else value for key, value in event.items()}


def hide_in_line(_logger: object, _method: str, line: str) -> str:
    """The line as it would be written, without a secret of ours: whichever value, key or stack it was in."""
    return hide_secrets(line)


class Discreet(logging.Formatter):
    """The same for the lines of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        return hide_secrets(super().format(record))


def configure_logs(*, as_json: bool, level: str = "info") -> None:
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
            refuse_private_fields,  # type: ignore[list-item]
            structlog.processors.format_exc_info,
            renderer,
            hide_in_line,  # type: ignore[list-item]
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    others = logging.StreamHandler(sys.stderr)
    others.setFormatter(Discreet("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[others])
    # The engine's own lines repeat ours; what is left of them says what broke, without the whole stack.
    engine = logging.getLogger("procrastinate")
    engine.setLevel(logging.ERROR)
    engine.addFilter(_without_stack)
    # Authlib writes whole tokens, for whoever looks closely enough: nobody ever does.
    authlib = logging.getLogger("authlib")
    authlib.setLevel(NEVER)
    authlib.propagate = False


def _without_stack(record: logging.LogRecord) -> bool:
    record.exc_info = record.exc_text = None
    return True
