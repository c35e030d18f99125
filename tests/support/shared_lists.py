"""One service and one owner of lists for many tests, each of which makes lists of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.mailing_lists import ListOwner
from support.shared_service import shared_account


@contextmanager
def shared_lists(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[tuple[ListOwner, Container]]:
    with shared_account(postgres, template, home) as (owner, parts):
        yield ListOwner(owner), parts
