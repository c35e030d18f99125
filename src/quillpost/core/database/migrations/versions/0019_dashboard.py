"""What pages show: how many pieces were sent, delivered and scanned, hour by hour; and who may frame them."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0019_dashboard.sql"))
