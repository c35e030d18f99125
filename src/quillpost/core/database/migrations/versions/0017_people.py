"""People who sign in, and the apps that act for accounts."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0017_people.sql"))
