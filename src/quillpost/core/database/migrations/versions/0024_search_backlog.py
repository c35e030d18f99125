"""Index what comes by the hundred apart from its insert."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0024_search_backlog.sql"))
