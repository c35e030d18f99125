"""One service and one owner of lists for many tests, each of which makes lists of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from list_keeper import Lister
from shared_service import shared_service

from direct import TestClient
from makers import make_account
from quillpost.database.embedded import EmbeddedPostgres
from quillpost.parts import Parts
from quillpost.web import create_app


@contextmanager
def shared_lists(postgres: EmbeddedPostgres, template: str, home: Path) -> Iterator[tuple[Lister, Parts]]:
    with (
        shared_service(postgres, template, home) as parts,
        TestClient(create_app(parts), base_url="http://quillpost.test") as http,
    ):
        yield Lister(make_account(parts, http, "owner@example.com")), parts
