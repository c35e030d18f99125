"""The whole schema, one script for each area."""

from pathlib import Path

from quillpost.core.database.migrations.upgrade import run_script

revision = "0001"
down_revision = None

# A script may refer to the tables of those before it.
SCRIPTS = (
    "functions",
    "accounts",
    "core",
    "recipients",
    "suppression",
    "orders",
    "events",
    "billing",
    "giftcards",
    "leads",
    "fulfillment",
    "qr_scans",
    "automations",
    "webhooks",
    "notifications",
    "privacy",
    "procrastinate",  # as Procrastinate 3.10 ships it
    "jobs",
    "search",
)


def upgrade() -> None:
    folder = Path(__file__).with_suffix("")
    for name in SCRIPTS:
        run_script(folder / f"{name}.sql")
