"""Search by the beginnings of words: of people on lists, of pieces, and of whatever has a title."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0022_search.sql"))
