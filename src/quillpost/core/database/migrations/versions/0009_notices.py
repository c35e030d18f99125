"""E-mails and text messages that wait to be sent, and who wants none."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0009_notices.sql"))
