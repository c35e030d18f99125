"""Gift cards: the brands, each piece's card, and the cards that wait to be given."""

from pathlib import Path

from quillpost.core.database.migrations.scripts import run_script

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_script(Path(__file__).with_name("0018_giftcards.sql"))
