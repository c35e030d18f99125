"""All parts of the service, for commands that need more than their footing."""

from collections.abc import Iterator
from contextlib import contextmanager

from quillpost import wiring
from quillpost.cli.ground import make_ready
from quillpost.parts import Parts


@contextmanager
def opened() -> Iterator[tuple[wiring.Settings, Parts]]:
    """The parts for a command that comes and goes, beside a running server or alone."""
    settings = wiring.load_settings()
    ground = wiring.open_ground(settings)
    try:
        make_ready(ground.conninfo)
        parts = wiring.build(settings, ground.conninfo)
        try:
            yield settings, parts
        finally:
            parts.db.close()
    finally:
        ground.close()
