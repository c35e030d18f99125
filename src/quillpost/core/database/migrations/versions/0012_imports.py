"""Files of people on their way into lists."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0012_imports.sql"))
