"""The first minute: an account, a test token, a receiver that is subscribed, and what to paste."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from rich.console import Console

from quillpost import wiring
from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Caller
from quillpost.database.tables import webhooks as webhooks_table
from quillpost.parts import Parts
from quillpost.webhooks import service as webhooks

EMAIL, NAME = "you@example.com", "First Account"

FIRST_SEND = {
    "recipients": [
        {
            "name": "Jane Doe",
            "address": "12 Main St",
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701",
        }
    ],
    "message": "Hi %FIRST_NAME%, this card wrote, printed and mailed itself. Warmly, Quillpost",
    "return_name": "Dana Whitfield",
    "return_address": "PO Box 1180",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
    "metadata": {"first": True},
    # Whoever pastes the line again wants to see it all again.
    "allow_duplicates": True,
}


@dataclass(frozen=True, slots=True)
class Welcome:
    base_url: str
    token: str
    receiver_url: str

    @property
    def curl(self) -> str:
        return (
            f"curl -s {self.base_url}/api/v2/send/postcard"
            f" -H 'Authorization: Bearer {self.token}'"
            " -H 'Content-Type: application/json'"
            f" -d {shlex.quote(json.dumps(FIRST_SEND))}"
        )

    def show(self) -> None:
        out = Console(soft_wrap=True, highlight=False)
        out.print()
        out.print("[bold]Quillpost is running.[/] Ctrl-C stops it; everything is kept.")
        out.print()
        out.print(f"  Open         {self.base_url}")
        out.print(f"  API docs     {self.base_url}/docs")
        out.print(f"  Test token   {self.token}")
        out.print(f"  Watch events {self.receiver_url}")
        out.print()
        out.print("Send a first postcard in testing mode (nothing is mailed, nothing is billed):")
        out.print()
        out.print(self.curl, markup=False)
        out.print()


def prepare_welcome(settings: wiring.Settings, conninfo: str) -> Welcome:
    """Create what is missing; the same account, token and receiver on every later start."""
    parts = wiring.build(settings, conninfo)
    try:
        token = _token(settings.home.absolute() / "first-token", parts)
        receiver_url = f"{parts.base_url}/receiver/{parts.receiver_key}"
        _subscribe(parts, token, f"{receiver_url}/hook")
        return Welcome(parts.base_url, token, receiver_url)
    finally:
        parts.db.close()


def _token(kept: Path, parts: Parts) -> str:
    """The token is only in this file, for its owner's eyes; the database knows its digest alone."""
    if kept.exists():
        token = kept.read_text().strip()
        if _is_good(parts, token):
            return token
    with parts.db.work() as tx:
        found = tx.execute(sa.text("select id from accounts where email = :e"), {"e": EMAIL}).scalar()
        account_id = found or accounts.open_account(
            tx, email=EMAIL, name=NAME, is_operator=True, now=parts.clock()
        )
        token = accounts.mint_token(tx, account_id, mode="test", name="first steps", now=parts.clock())
    kept.touch(mode=0o600)
    kept.write_text(token + "\n")
    return token


def _is_good(parts: Parts, token: str) -> bool:
    return accounts.is_operator_token(parts.db, token)


def _subscribe(parts: Parts, token: str, url: str) -> None:
    who, _ = accounts.authenticate(parts.db, token, limit=parts.limits.calls_a_minute)
    with parts.db.transaction(accounts.tenant(who)) as tx:
        if not _is_subscribed(tx, who, url):
            webhooks.subscribe(
                tx, who, parts.sealer, url=url, type="*", description="Receiver page", now=parts.clock()
            )


def _is_subscribed(tx: sa.Connection, who: Caller, url: str) -> bool:
    found = tx.execute(
        sa.select(webhooks_table.c.id).where(
            webhooks_table.c.account_id == who.account_id, webhooks_table.c.url == url
        )
    )
    return found.first() is not None
