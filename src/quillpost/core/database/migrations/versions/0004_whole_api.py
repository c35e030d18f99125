"""What the whole API needs: audiences from lists, letters, stored sends, counts that cost nothing to read."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0004_whole_api.sql"))
