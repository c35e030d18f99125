"""The first minute: an account, a test token, a receiver that is subscribed, and what to paste."""

import json
import re
import shlex
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rich.console import Console

from quillpost.accounts import service as account_service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import invitations
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.runtime import get_own_address
from quillpost.cli.console import SAMPLE_OPTIONS, SAMPLE_RETURN_ADDRESS
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import memberships
from quillpost.core.database.tables.notifications import webhooks as webhooks_table
from quillpost.core.encryption import DecryptionFailed
from quillpost.core.settings import Settings
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service

ACCOUNT_EMAIL, ACCOUNT_NAME, TOKEN_NAME = "you@example.com", "First Account", "first steps"
WEBHOOK_DESCRIPTION = "Receiver page"
RECEIVER_URL_PATTERN = re.compile(r"/receiver/[0-9a-f]{24}/hook$")

FIRST_SEND = {
    "recipients": [
        {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
    ],
    "message": "Hi %FIRST_NAME%, this card wrote, printed and mailed itself. Warmly, Quillpost",
    **SAMPLE_RETURN_ADDRESS,
    "metadata": {"first": True},
    **SAMPLE_OPTIONS,
}


FIRST_SEARCH = {"address": "1100 Congress Ave, Austin, TX 78701", "record_count": 100}


@dataclass(frozen=True, slots=True)
class Welcome:
    base_url: str
    token: str
    receiver_url: str
    join_url: str | None = field(default=None, compare=False)
    """Where the first user sets a password; None once there is one."""

    @property
    def send_command(self) -> str:
        return (
            f"curl -s {self.base_url}/api/v2/send/postcard"
            f" -H 'Authorization: Bearer {self.token}'"
            " -H 'Content-Type: application/json'"
            f" -d {shlex.quote(json.dumps(FIRST_SEND))}"
        )

    @property
    def radius_command(self) -> str:
        return (
            f"curl -s {self.base_url}/api/v2/mailing-lists-utils/count-radius-search"
            f" -H 'Authorization: Bearer {self.token}'"
            " -H 'Content-Type: application/json'"
            f" -d {shlex.quote(json.dumps(FIRST_SEARCH))}"
        )

    def print_message(self) -> None:
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
        out.print(self.send_command, markup=False)
        out.print()
        out.print("Or count the made-up neighbors of an address, as a radius search finds them:")
        out.print()
        out.print(self.radius_command, markup=False)
        out.print()


def prepare_welcome(settings: Settings, conninfo: str) -> Welcome:
    """Create what is missing; later starts keep the account, token and receiver. Until a user has joined the account,
    each start has a new link for that."""
    container = bootstrap.build_container(settings, conninfo)
    with closing(container.db):
        token = _ensure_token(settings.home.absolute() / "first-token", container)
        page = f"/receiver/{container.receiver_key}"
        host, port = get_own_address(settings)
        _subscribe_receiver(container, token, f"http://{host}:{port}{page}/hook")
        return Welcome(container.base_url, token, container.base_url + page, _create_join_link(container))


def _ensure_token(token_file: Path, container: Container) -> str:
    """The token is only in this file; the database has its digest."""
    if token_file.exists():
        token = token_file.read_text().strip()
        if account_service.is_operator_token(container.db, token, now=container.clock()):
            return token
    with container.db.system_transaction() as tx:
        account_id = _ensure_account(tx, container)
        token_id, token = insert_token(tx, account_id, name=TOKEN_NAME, mode="test", scopes=None, now=container.clock())
        about = {"id": token_id, "name": TOKEN_NAME, "mode": "test"}
        audit_service.record_audit_entry(
            tx, account_id, "token.created", audit_service.COMMAND_LINE_ACTOR, about=about, now=container.clock()
        )
    token_file.touch(mode=0o600)
    token_file.write_text(token + "\n")
    return token


def _ensure_account(tx: Tx, container: Container) -> int:
    existing_id = tx.execute(sa.text("select id from accounts where email = :e"), {"e": ACCOUNT_EMAIL}).scalar()
    if existing_id is not None:
        return int(existing_id)
    account_id = account_service.create_account(
        tx, email=ACCOUNT_EMAIL, name=ACCOUNT_NAME, is_operator=True, now=container.clock()
    )
    about = {"name": ACCOUNT_NAME, "email": ACCOUNT_EMAIL}
    audit_service.record_audit_entry(
        tx, account_id, "account.created", audit_service.COMMAND_LINE_ACTOR, about=about, now=container.clock()
    )
    return account_id


def _create_join_link(container: Container) -> str | None:
    """An earlier invitation ends with it."""
    with container.db.system_transaction() as tx:
        account_id = _ensure_account(tx, container)
        if tx.execute(sa.select(memberships.c.id).where(memberships.c.account_id == account_id)).first():
            return None
        return invitations.invite(
            tx,
            container.encryptor,
            account_id,
            email=ACCOUNT_EMAIL,
            role="owner",
            sub_account_id=None,
            actor=audit_service.COMMAND_LINE_ACTOR,
            base_url=container.base_url,
            now=container.clock(),
            send_email=False,
        )


def _subscribe_receiver(container: Container, token: str, url: str) -> None:
    """One subscription for the receiver page: of earlier ones, for another port or under another key, the first with a
    readable secret is updated, and the others are deleted."""
    caller, _ = account_service.authenticate(
        container.db, token, limit=container.limits.calls_a_minute, now=container.clock()
    )
    with container.db.transaction(account_service.build_tenant(caller)) as tx:
        rows = tx.execute(sa.select(webhooks_table).where(webhooks_table.c.description == WEBHOOK_DESCRIPTION))
        receiver_rows = sorted(
            (row for row in rows if RECEIVER_URL_PATTERN.search(row.url)), key=lambda row: row.url != url
        )
        current_row = next((row for row in receiver_rows if _can_decrypt_secret(container, row)), None)
        for row in receiver_rows:
            if row is not current_row:
                webhook_queries.delete_webhook(tx, row.id)
        if current_row is None:
            webhook_service.create_webhook(
                tx,
                caller,
                container.encryptor,
                url=url,
                type="*",
                description=WEBHOOK_DESCRIPTION,
                now=container.clock(),
            )
        elif current_row.url != url:
            webhook_service.update_webhook(tx, caller, current_row.id, {"url": url}, now=container.clock())
            webhook_service.resume_webhook(tx, current_row.id, now=container.clock())


def _can_decrypt_secret(container: Container, row: sa.Row[Any]) -> bool:
    try:
        return bool(webhook_service.decrypt_secret(container.encryptor, row.id, bytes(row.secret_sealed)))
    except DecryptionFailed:
        return False
