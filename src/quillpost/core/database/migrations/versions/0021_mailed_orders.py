"""Orders say when the carrier has their pieces: the status mailed, between printing and fulfilled."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0021_mailed_orders.sql"))
