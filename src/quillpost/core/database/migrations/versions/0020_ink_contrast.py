"""How well an order's handwriting stands out from what it is written on."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0020_ink_contrast.sql"))
