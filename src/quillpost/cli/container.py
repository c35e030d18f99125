"""The whole service for a command that comes and goes."""

from collections.abc import Iterator
from contextlib import contextmanager

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Parts
from quillpost.cli.runtime import make_ready
from quillpost.core.settings import Settings


@contextmanager
def opened() -> Iterator[tuple[Settings, Parts]]:
    """The parts for a command that comes and goes, beside a running server or alone."""
    settings = runtime.load_settings()
    ground = runtime.open_ground(settings)
    try:
        make_ready(ground.conninfo)
        parts = bootstrap.build(settings, ground.conninfo)
        try:
            yield settings, parts
        finally:
            parts.db.close()
    finally:
        ground.close()
