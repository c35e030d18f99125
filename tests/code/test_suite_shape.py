"""The suite itself: modules that a reader can hold, in folders that are called as the packages they test."""

from pathlib import Path

import pytest
import sqlalchemy as sa

import quillpost
from quillpost.app.container import Container
from quillpost.core.database.tables.base import prices
from quillpost.core.database.tables.orders import giftcard_brands
from support.rows import execute, scalar

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(quillpost.__file__).parent
MAX_LINES = 400
A_FORTUNE = 1_000_000
OF_NO_PACKAGE = {
    "browser": "pages walked in a real browser",
    "code": "our own modules, as text",
    "docs": "the documentation against what runs",
    "end_to_end": "processes started and killed",
    "interface": "what users, clients and operators see, pinned",
    "published_clients": "clients that others have published",
    "spec": "the tables of the specification",
    "support": "what tests share",
}


def test_no_module_is_too_long_to_read() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in TESTS.rglob("*.py")}
    assert {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


def test_folders_are_called_as_the_packages_they_test() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    named = {folder for folder in folders if folder.parts[:1] not in {(name,) for name in OF_NO_PACKAGE}}
    assert {str(folder) for folder in named if not (PACKAGE / folder).is_dir()} == set()


@pytest.mark.parametrize("turn", ["one", "another"])
def test_prices_and_brands_that_a_test_changes_are_as_shipped_for_the_next(container: Container, turn: str) -> None:
    """In whichever order these two are run."""
    assert scalar(container, sa.select(sa.func.max(prices.c.unit_cents))) < A_FORTUNE
    assert scalar(container, sa.select(sa.func.count()).select_from(giftcard_brands)) > 0
    execute(container, sa.update(prices).values(unit_cents=A_FORTUNE))
    execute(container, sa.delete(giftcard_brands))
