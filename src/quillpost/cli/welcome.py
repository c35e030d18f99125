"""The first minute: an account, a test token, a receiver that is subscribed, and what to paste."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rich.console import Console

from quillpost.accounts import service as accounts
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.tokens.queries import insert_token
from quillpost.accounts.users import invitations
from quillpost.app import bootstrap
from quillpost.app.container import Parts
from quillpost.app.runtime import own_place
from quillpost.core.database import Tx
from quillpost.core.database.tables.notifications import webhooks as webhooks_table
from quillpost.core.database.tables.users import memberships
from quillpost.core.encryption import SealBroken
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhooks

EMAIL, NAME, FIRST = "you@example.com", "First Account", "first steps"
DESCRIPTION = "Receiver page"
RECEIVER = re.compile(r"/receiver/[0-9a-f]{24}/hook$")

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


FIRST_SEARCH = {"address": "1100 Congress Ave, Austin, TX 78701", "record_count": 100}


@dataclass(frozen=True, slots=True)
class Welcome:
    base_url: str
    token: str
    receiver_url: str
    join_url: str | None = field(default=None, compare=False)
    """Where the first person sets a password, once; None: somebody has."""

    @property
    def curl(self) -> str:
        return (
            f"curl -s {self.base_url}/api/v2/send/postcard"
            f" -H 'Authorization: Bearer {self.token}'"
            " -H 'Content-Type: application/json'"
            f" -d {shlex.quote(json.dumps(FIRST_SEND))}"
        )

    @property
    def radius_curl(self) -> str:
        return (
            f"curl -s {self.base_url}/api/v2/mailing-lists-utils/count-radius-search"
            f" -H 'Authorization: Bearer {self.token}'"
            " -H 'Content-Type: application/json'"
            f" -d {shlex.quote(json.dumps(FIRST_SEARCH))}"
        )

    def show(self) -> None:
        out = Console(soft_wrap=True, highlight=False)
        out.print()
        out.print("[bold]Quillpost is running.[/] Ctrl-C stops it; everything is kept.")
        out.print()
        out.print(f"  Open         {self.base_url}")
        if self.join_url is None:
            out.print(f"  Sign in      {self.base_url}/sign-in")
        else:
            out.print(f"  Set password {self.join_url}")
        out.print(f"  API docs     {self.base_url}/docs")
        out.print(f"  Test token   {self.token}")
        out.print(f"  Watch events {self.receiver_url}")
        out.print()
        out.print("Send a first postcard in testing mode (nothing is mailed, nothing is billed):")
        out.print()
        out.print(self.curl, markup=False)
        out.print()
        out.print("Or count the made-up neighbours of an address, as a radius search finds them:")
        out.print()
        out.print(self.radius_curl, markup=False)
        out.print()


def prepare_welcome(settings: Settings, conninfo: str) -> Welcome:
    """Create what is missing; the same account, token and receiver on every later start. Until somebody has
    joined the account, each start has a link for that."""
    parts = bootstrap.build(settings, conninfo)
    try:
        token = _token(settings.home.absolute() / "first-token", parts)
        page = f"/receiver/{parts.receiver_key}"
        host, port = own_place(settings)
        _subscribe(parts, token, f"http://{host}:{port}{page}/hook")
        return Welcome(parts.base_url, token, parts.base_url + page, _link_to_join(parts))
    finally:
        parts.db.close()


def _token(kept: Path, parts: Parts) -> str:
    """The token is only in this file, for its owner's eyes; the database knows its digest alone."""
    if kept.exists():
        token = kept.read_text().strip()
        if _is_good(parts, token):
            return token
    with parts.db.work() as tx:
        account_id = _account(tx, parts)
        made, token = insert_token(tx, account_id, name=FIRST, mode="test", scopes=None, now=parts.clock())
        about = {"id": made, "name": FIRST, "mode": "test"}
        audit_service.note(
            tx, account_id, "token.created", audit_service.AT_THE_COMMAND_LINE, about=about, now=parts.clock()
        )
    kept.touch(mode=0o600)
    kept.write_text(token + "\n")
    return token


def _account(tx: Tx, parts: Parts) -> int:
    found = tx.execute(sa.text("select id from accounts where email = :e"), {"e": EMAIL}).scalar()
    if found is not None:
        return int(found)
    made = accounts.open_account(tx, email=EMAIL, name=NAME, is_operator=True, now=parts.clock())
    about = {"name": NAME, "email": EMAIL}
    audit_service.note(
        tx, made, "account.created", audit_service.AT_THE_COMMAND_LINE, about=about, now=parts.clock()
    )
    return made


def _link_to_join(parts: Parts) -> str | None:
    """An invitation for whoever reads the terminal; an earlier one ends with it."""
    with parts.db.work() as tx:
        account_id = _account(tx, parts)
        if tx.execute(sa.select(memberships.c.id).where(memberships.c.account_id == account_id)).first():
            return None
        return invitations.invite(
            tx,
            parts.sealer,
            account_id,
            email=EMAIL,
            role="owner",
            sub_account_id=None,
            actor=audit_service.AT_THE_COMMAND_LINE,
            base_url=parts.base_url,
            now=parts.clock(),
            is_mailed=False,
        )


def _is_good(parts: Parts, token: str) -> bool:
    return accounts.is_operator_token(parts.db, token, now=parts.clock())


def _subscribe(parts: Parts, token: str, url: str) -> None:
    """One subscription of the receiver page, to where it is now: of earlier ones, for another port or under
    another key, the first that still can be signed for moves along, and the others end."""
    who, _ = accounts.authenticate(parts.db, token, limit=parts.limits.calls_a_minute, now=parts.clock())
    with parts.db.transaction(accounts.tenant(who)) as tx:
        rows = tx.execute(sa.select(webhooks_table).where(webhooks_table.c.description == DESCRIPTION))
        ours = sorted((row for row in rows if RECEIVER.search(row.url)), key=lambda row: row.url != url)
        kept = next((row for row in ours if _can_be_signed_for(parts, row)), None)
        for row in ours:
            if row is not kept:
                webhook_queries.delete_webhook(tx, row.id)
        if kept is None:
            webhooks.subscribe(
                tx, who, parts.sealer, url=url, type="*", description=DESCRIPTION, now=parts.clock()
            )
        elif kept.url != url:
            webhooks.change(tx, who, kept.id, {"url": url}, now=parts.clock())
            webhooks.resume(tx, kept.id, now=parts.clock())


def _can_be_signed_for(parts: Parts, row: sa.Row[Any]) -> bool:
    try:
        return bool(webhooks.unseal(parts.sealer, row.id, bytes(row.secret_sealed)))
    except SealBroken:
        return False
