"""What a call left behind, in tables, files and logs, and bodies that no JSON writer would make."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import structlog
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.telemetry import configure_logging
from support.factories import Account, postcard, snapshot_rows

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def traces(container: Container) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Every row and every file; a refused call must not change them."""
    return snapshot_rows(container), sorted(container.storage.store.keys(""))


def send_raw(sender: Account, body: bytes | str, content_type: str = JSON) -> Response:
    """A send whose body is exactly these bytes."""
    content = body.encode() if isinstance(body, str) else body
    return sender.call("POST", "/send/postcard", content=content, headers={"Content-Type": content_type})


def postcard_with(name: str, written: str) -> str:
    """A good postcard with one more field, whose value is written exactly so."""
    return f"{json.dumps(postcard())[:-1]},{json.dumps(name)}:{written}}}"


def metadata_text(response: Response, *path: str) -> str:
    """The metadata of an answer as it stands there, letter for letter."""
    text = response.text
    start = text.index('"metadata":') + len('"metadata":')
    _, end = json.JSONDecoder().raw_decode(text, start)
    found: Any = response.json()
    for step in path:
        found = found[int(step)] if step.isdigit() else found[step]
    assert json.loads(text[start:end]) == found["metadata"]
    return text[start:end]


@contextmanager
def capture_logs() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The log lines written meanwhile, at info level and as JSON."""
    usual, written = structlog.get_config(), StringIO()
    with redirect_stderr(written):
        configure_logging(as_json=True, level="info")
    try:
        yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    finally:
        structlog.configure(**usual)
