"""Where a person is: the rows of one account, or of one of its sub accounts, in both modes or in testing.

These statements run as the service, for tenants may not see all that is kept of their recipients. So whose
rows they look at is said in each of them; all the rest of an erasure goes by what they find.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.database import Tenant, Tx
from quillpost.postal.judging import DOUBTFUL
from quillpost.privacy.whom import Whom

OWN = "account_id = :account and (cast(:sub_account as bigint) is null or sub_account_id = :sub_account)"
"""Of the caller. With a sub account, of that one alone."""

IN_MODES = "mode = any(:modes)"

MOST_WORDS = 500
SHORTEST_WORD = 3

RECIPIENTS = sa.text(
    f"""
    select id, mailing_list_id, address_key, email_key as email, name, address, deliverability, reasons
      from recipients
     where id in (
        select r.id from unnest(cast(:keys as text[])) k (key)
          join recipients r on r.account_id = :account and r.address_key = k.key
         union all
        select r.id from recipients r where r.account_id = :account and r.moved_key = any(:keys)
         union all
        select r.id from recipients r where r.account_id = :account and r.email_key = cast(:email as text))
       and created_at <= :before and {OWN}
     order by id
    """
)
ITEMS = sa.text(
    f"""
    select id, address_key, lower(email) as email, name, address, deliverability, reasons from items
     where id in (
        select i.id from unnest(cast(:keys as text[])) k (key)
          join items i on i.account_id = :account and i.mode = any(:modes) and i.address_key = k.key
         union all
        select i.id from items i where i.account_id = :account and i.moved_key = any(:keys) and {IN_MODES}
         union all
        select i.id from items i
         where i.account_id = :account and i.mode = any(:modes)
           and i.email is not null and lower(i.email) = cast(:email as text))
       and created_at <= :before and {OWN}
     order by id
    """
)


@dataclass(frozen=True, slots=True)
class Found:
    """Someone's rows, and by which keys and words they are known elsewhere."""

    recipients: list[int] = field(default_factory=list)
    lists: set[int] = field(default_factory=set)
    items: list[int] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    """As automations know people: the address's key, or the e-mail."""
    words: list[str] = field(default_factory=list)
    """What would tell of them in a text: names, streets, e-mails, doubts."""


def scope(who: Tenant) -> dict[str, Any]:
    """What `OWN` and `IN_MODES` ask for. Who is testing erases nothing of what was really mailed."""
    modes = [mode for mode in ("test", "live") if who.mode in (None, mode)]
    return {"account": who.account_id, "sub_account": who.sub_account_id, "modes": modes}


def find(tx: Tx, who: Tenant, whom: Whom, *, before: datetime) -> Found:
    """What was written of them until then."""
    asked = {**scope(who), "before": before, "keys": list(whom.keys), "email": whom.email}
    people = tx.execute(RECIPIENTS, asked).all()
    pieces = tx.execute(ITEMS, asked).all()
    keys = {*whom.keys, *(row.address_key for row in (*people, *pieces) if row.address_key)}
    emails = {row.email for row in (*people, *pieces) if row.email} | ({whom.email} if whom.email else set())
    return Found(
        recipients=[row.id for row in people],
        lists={row.mailing_list_id for row in people},
        items=[row.id for row in pieces],
        keys=keys | {f"email {email}" for email in emails},
        words=_words([*emails, *(text for row in (*people, *pieces) for text in _telling(row))]),
    )


def _telling(row: sa.Row[Any]) -> list[str | None]:
    """The reason of a doubt names what is doubted, and senders are told of it."""
    return [row.name, row.address, *(row.reasons[:1] if row.deliverability == DOUBTFUL else ())]


def _words(texts: Sequence[str | None]) -> list[str]:
    telling = dict.fromkeys(text for text in texts if text is not None and len(text) >= SHORTEST_WORD)
    return list(telling)[:MOST_WORDS]
