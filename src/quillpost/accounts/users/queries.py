"""Users by e-mail, the browsers they know, and tokens that leaked.

It opens nothing. It only has attempts counted by themselves, so that whoever guesses at somebody's password
cannot shut them out. It is good for one e-mail of one person, until the password changes, and for a year.
"""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.accounts.audit.service import ACTION_LABELS, MAX_ACTOR_LENGTH, Actor
from quillpost.accounts.models import get_network
from quillpost.accounts.tokens.service import revoke_leaked_tokens
from quillpost.accounts.users import rules
from quillpost.accounts.users.emails import notify_person
from quillpost.core import tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.database.tables.base import accounts
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Refused


def find_person(tx: Tx, email: str) -> int:
    """Whoever signs in with this e-mail. Takes the worker's transaction."""
    person_id = tx.execute(
        sa.select(people.c.id).where(sa.func.lower(people.c.email) == rules.normalize_email(email))
    ).scalar()
    if person_id is None:
        raise Refused(f"Nobody signs in with the e-mail {email}.")
    return int(person_id)


def has_second_factor(tx: Tx, person_id: int) -> bool:
    since = tx.execute(sa.select(people.c.totp_since).where(people.c.id == person_id)).scalar()
    return since is not None


INSERT_ENTRIES = sa.text(
    """
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :now
      from memberships m
     where m.person_id = :whose
    """
).bindparams(sa.bindparam("about", type_=JSONB()))
INSERT_ENTRIES_THROTTLED = sa.text(
    """
    with counted as materialized (select used from count_call(:key, 60))
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :now
      from memberships m, counted
     where m.person_id = :whose and counted.used = 1
    """
).bindparams(sa.bindparam("about", type_=JSONB()))


def record_person_entry(
    tx: Tx,
    act: str,
    actor: Actor,
    *,
    person_id: int | None = None,
    about: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """One line in each account of the actor's, or of the person for whom somebody else does it. Takes the
    worker's transaction."""
    entry = _build_entry(act, actor, about, now)
    tx.execute(INSERT_ENTRIES, entry if person_id is None else entry | {"whose": person_id})


def record_throttled_entry(
    tx: Tx, act: str, actor: Actor, key: str, *, about: Mapping[str, Any] | None = None, now: datetime
) -> None:
    """The same at most once a minute for a key, so that nobody fills the log from outside. Of somebody who
    does not exist it notes nothing, with as much work."""
    tx.execute(INSERT_ENTRIES_THROTTLED, _build_entry(act, actor, about, now) | {"key": key})


def _build_entry(act: str, actor: Actor, about: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    if act not in ACTION_LABELS:
        raise ValueError(f"{act} is no act of the audit log.")
    return {
        "act": act,
        "actor": actor.name[:MAX_ACTOR_LENGTH],
        "person_id": actor.person_id,
        "whose": actor.person_id,
        "about": dict(about or {}),
        "network": None if actor.address is None else get_network(actor.address),
        "now": now,
    }


BROWSER_TOKEN_LIFETIME = timedelta(days=365)
NONCE_BYTES = 12
ID_BYTES, DAY_BYTES, MAC_BYTES = 8, 4, 32
HEADER_BYTES = ID_BYTES + DAY_BYTES + NONCE_BYTES


def create_browser_token(
    encryptor: Encryptor, person_id: int, email: str, *, password_changed_at: datetime | None, now: datetime
) -> str:
    """What the browser keeps from now on."""
    day = (now + BROWSER_TOKEN_LIFETIME).date().toordinal()
    header = person_id.to_bytes(ID_BYTES) + day.to_bytes(DAY_BYTES) + secrets.token_bytes(NONCE_BYTES)
    return tokens.mint_secret("known", header + _compute_macs(encryptor, header, email, password_changed_at)[0])


def identify_browser(
    encryptor: Encryptor,
    browser_token: str | None,
    person_id: int,
    email: str,
    *,
    password_changed_at: datetime | None,
    now: datetime,
) -> str | None:
    """Which of the person's known browsers it is; none of them, if it was not made for them, or is over."""
    if browser_token is None or not tokens.is_of_kind(browser_token, "known"):
        return None
    payload = tokens.decode_randomness(browser_token, HEADER_BYTES + MAC_BYTES)
    if payload is None:
        return None
    header, mac = payload[:HEADER_BYTES], payload[HEADER_BYTES:]
    is_authentic = any(
        hmac.compare_digest(mac, expected_mac)
        for expected_mac in _compute_macs(encryptor, header, email, password_changed_at)
    )
    day = int.from_bytes(header[ID_BYTES : ID_BYTES + DAY_BYTES])
    if not is_authentic or int.from_bytes(header[:ID_BYTES]) != person_id or day < now.date().toordinal():
        return None
    return header[-NONCE_BYTES:].hex()


def _compute_macs(encryptor: Encryptor, header: bytes, email: str, password_changed_at: datetime | None) -> list[bytes]:
    """By the current key, and by the former ones: a browser stays known when the key is changed."""
    changed_at = "" if password_changed_at is None else f"{password_changed_at.timestamp():.6f}"
    message = header + f"{changed_at}|{email}".encode()
    return [hmac.digest(key, message, "sha256") for key in encryptor.derive_keys("known browsers")]


LEAK_EMAIL_SUBJECT = "A token of {account} was found elsewhere and ended"
LEAK_EMAIL_TEXT = (
    "Somebody reported a token, or a connected app's, of the account {account} as found where others can "
    "read it. It was ended at once: whatever used it is not let in any more.\n\n"
    "The audit log of your account says which one it was. Make another one for the program that needs it, "
    "keep it where nobody else reads it, and look through your latest orders for what you did not send."
)


def revoke_and_report_leaked(
    tx: Tx, encryptor: Encryptor, token_texts: Sequence[str], *, address: str | None, now: datetime
) -> int:
    """Whoever can show a token may end it: from the next call on it is unknown, and each owner has a letter,
    one a minute at most. How many accounts it concerned. Takes the worker's transaction."""
    account_ids = revoke_leaked_tokens(tx, token_texts, address=address, now=now)
    owners = tx.execute(
        sa.select(memberships.c.person_id, accounts.c.id, accounts.c.name)
        .join(accounts, accounts.c.id == memberships.c.account_id)
        .where(accounts.c.id.in_(account_ids), memberships.c.role == "owner")
        .order_by(memberships.c.id)
    ).all()
    for person_id, account_id, name in owners:
        notify_person(
            tx,
            encryptor,
            person_id,
            key=f"leaked:{account_id}:{now:%Y-%m-%dT%H:%M}",
            subject=LEAK_EMAIL_SUBJECT.format(account=name),
            text=LEAK_EMAIL_TEXT.format(account=name),
            now=now,
        )
    return len(account_ids)
