"""One service and one owner of lists for many tests, each of which makes lists of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from list_keeper import Lister
from shared_service import shared_account

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres


@contextmanager
def shared_lists(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[tuple[Lister, Container]]:
    with shared_account(postgres, template, home) as (owner, parts):
        yield Lister(owner), parts
