"""${message}"""

from pathlib import Path

from quillpost.core.database.migrations.upgrade import run_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    run_script(Path(__file__).with_suffix(".sql"))
