"""Who is barred, and by what."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0013_suppression.sql"))
