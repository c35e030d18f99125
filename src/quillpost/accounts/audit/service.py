"""The audit log: who did what, when and from where. Written with the act itself, and never changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from quillpost.accounts.models import Caller, get_network
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import audit_log, people
from quillpost.core.database.tables.base import accounts, tokens

ACTION_LABELS: Final[Mapping[str, str]] = {
    "account.created": "opened the account",
    "account.changed": "changed the account",
    "embed.changed": "changed which sites may show the composer",
    "credit.moved": "moved credit",
    "sign_in": "signed in",
    "sign_in.refused": "was not let in",
    "sign_out": "signed out",
    "sessions.ended": "ended sessions",
    "password.changed": "changed the password",
    "password.reset_asked": "asked for another password",
    "password.reset": "set another password by e-mail",
    "second_factor.on": "turned the second factor on",
    "second_factor.off": "turned the second factor off",
    "second_factor.recovered": "used a recovery code",
    "second_factor.codes": "made new recovery codes",
    "person.invited": "invited somebody",
    "person.uninvited": "took an invitation back",
    "person.joined": "joined",
    "person.changed": "changed somebody's role",
    "person.removed": "removed somebody",
    "token.created": "made a token",
    "token.revoked": "revoked a token",
    "token.leaked": "reported a token as leaked",
    "client.created": "registered an OAuth client",
    "client.changed": "changed an OAuth client",
    "client.secret": "made a new client secret",
    "client.deleted": "deleted an OAuth client",
    "app.allowed": "allowed an app",
    "app.disconnected": "disconnected an app",
    "app.replayed": "used a code again, and was disconnected",
    "app.reused": "used a refresh token again, and was disconnected",
    "sub_account.created": "made a sub account",
    "sub_account.deleted": "deleted a sub account",
    "webhook.created": "subscribed to events",
    "webhook.changed": "changed a subscription",
    "webhook.paused": "paused a subscription",
    "webhook.resumed": "resumed a subscription",
    "webhook.secret": "made a new webhook secret",
    "webhook.deleted": "ended a subscription",
    "list.key": "made a new list key",
    "list.exported": "exported a mailing list",
    "person.erased": "erased a recipient",
    "giftcard.invalidated": "took a gift card back",
    "order.released": "released an order",
    "order.refused": "refused an order",
    "orders.rushed": "rushed orders",
    "orders.pooled": "made batches of what waited",
    "batch.marked": "marked a print batch",
    "batch.reprinted": "reprinted pieces",
    "batch.retried": "tried a batch again",
    "brand.changed": "changed a gift card brand",
    "brand.retired": "took a gift card brand off",
    "stock.loaded": "loaded gift cards",
    "stock.released": "released gift cards that were set aside",
    "print_file.downloaded": "downloaded print files",
    "jobs.retried": "ran failed jobs again",
    "price.added": "set a price",
    "price.withdrawn": "took a coming price back",
    "key.new": "made a new secret key",
    "key.resealed": "sealed all secrets anew",
    "key.forgotten": "removed a former secret key",
}

COMMAND_LINE_NAME = "the command line"
MAX_ACTOR_LENGTH = 320


@dataclass(frozen=True, slots=True)
class Actor:
    name: str
    person_id: int | None = None
    token_id: int | None = None
    address: str | None = None


COMMAND_LINE_ACTOR = Actor(COMMAND_LINE_NAME)


APP_ACTOR_NAME = "app “{name}”"


def build_app_actor(name: str, *, address: str | None = None) -> Actor:
    return Actor(APP_ACTOR_NAME.format(name=name), address=address)


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    account_id: int
    sub_account_id: int | None
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    act: str
    actor: str
    about: Mapping[str, Any]
    network: str | None
    sub_account_id: int | None
    at: datetime


def build_caller_actor(tx: Tx, caller: Caller, *, address: str | None = None) -> Actor:
    """The holder of a token, by the token's name and its maker's e-mail."""
    row = tx.execute(
        sa.select(tokens.c.name, people.c.email)
        .select_from(tokens.outerjoin(people, people.c.id == tokens.c.person_id))
        .where(tokens.c.id == caller.token_id)
    ).first()
    name = "a token" if row is None else f"token “{row.name}”" + (f" of {row.email}" if row.email else "")
    return Actor(name, caller.person_id, caller.token_id, address)


def record_audit_entry(
    tx: Tx,
    account_id: int,
    act: str,
    actor: Actor,
    *,
    about: Mapping[str, Any] | None = None,
    sub_account_id: int | None = None,
    now: datetime,
) -> None:
    """Write one entry, in the transaction of the act. `about` holds no secret."""
    record_audit_entries(tx, act, actor, [NewAuditEntry(account_id, sub_account_id, about or {})], now=now)


def record_audit_entries(tx: Tx, act: str, actor: Actor, entries: Sequence[NewAuditEntry], *, now: datetime) -> None:
    shared_values = build_entry_columns(act, actor, now=now)
    if not entries:
        return
    tx.execute(
        sa.insert(audit_log),
        [
            shared_values
            | {"account_id": entry.account_id, "sub_account_id": entry.sub_account_id, "about": dict(entry.about)}
            for entry in entries
        ],
    )


def build_entry_columns(act: str, actor: Actor, *, now: datetime) -> dict[str, Any]:
    """Who did what, when and from where."""
    if act not in ACTION_LABELS:
        raise ValueError(f"{act} is no act of the audit log.")
    return {
        "act": act,
        "actor": actor.name[:MAX_ACTOR_LENGTH],
        "person_id": actor.person_id,
        "token_id": actor.token_id,
        "network": None if actor.address is None else get_network(actor.address),
        "at": now,
    }


def record_for_operators(tx: Tx, act: str, *, about: Mapping[str, Any], now: datetime) -> None:
    """Note an act of the command line in every operator account's log. Takes the system transaction."""
    operator_ids = tx.execute(sa.select(accounts.c.id).where(accounts.c.is_operator).order_by(accounts.c.id))
    entries = [NewAuditEntry(account_id, None, about) for account_id in operator_ids.scalars()]
    record_audit_entries(tx, act, COMMAND_LINE_ACTOR, entries, now=now)


def list_audit_entries(tx: Tx, account_id: int, *, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]:
    """The newest first; `before` is the id of the last one seen."""
    columns = [audit_log.c[field.name] for field in fields(AuditEntry)]
    conditions = [] if before is None else [audit_log.c.id < before]
    rows = tx.execute(
        sa.select(*columns)
        .where(audit_log.c.account_id == account_id, *conditions)
        .order_by(audit_log.c.id.desc())
        .limit(limit)
    )
    return [AuditEntry(*row) for row in rows]
