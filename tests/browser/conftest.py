"""A service in which everything has happened, made once for all looks at it."""

from collections.abc import Iterator

import pytest
from furnished import Furnished, furnished

from quillpost.core.database.embedded.server import EmbeddedPostgres


@pytest.fixture(scope="session")
def house(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    with furnished(postgres, template, tmp_path_factory.mktemp("furnished")) as made:
        yield made
