"""A service in which everything has happened, made once for all looks at it."""

from collections.abc import Iterator

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.sample_account import SampleAccount, open_sample_account


@pytest.fixture(scope="session")
def house(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SampleAccount]:
    with open_sample_account(postgres, template, tmp_path_factory.mktemp("furnished")) as made:
        yield made
