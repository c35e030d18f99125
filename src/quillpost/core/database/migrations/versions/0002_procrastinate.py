"""The job engine's own tables, frozen as Procrastinate 3.10 ships them, and who may touch them."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0002_procrastinate_3_10.sql"))
    run_script(Path(__file__).with_name("0002_procrastinate_grants.sql"))
