"""Where a person is in one account.

These statements run as the service, for tenants may not see all that is kept of their recipients. So whose
rows they look at is said in each of them; all the rest of an erasure goes by what they find.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.core import exact_json
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import stored_sends
from quillpost.privacy.models import Whom
from quillpost.recipients.addresses.service import DOUBTFUL
from quillpost.recipients.rules import TEXTS, examine_alone

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


AT_ONCE = 20
"""Bodies that are in memory together: one may be as large as a request."""

WAITING = sa.text(f"select id from stored_sends where {OWN} and {IN_MODES} and body <> '' order by id")
BODIES = sa.select(stored_sends.c.id, stored_sends.c.body).order_by(stored_sends.c.id).with_for_update()

ERASED_ANSWER = (
    b'{"message":"This call was carried out. What it answered told of somebody who was erased since."}'
)
# The call is not carried out again: only what it was answered is forgotten. Answers with a recipient are
# sealed; which of them tells of whom cannot be seen, and they are kept for ten minutes.
ANSWERS = sa.text(
    """
    update idempotency_keys k
       set answer_body = :erased, answer_type = 'application/json', sealed = false,
           answer_headers = answer_headers - 'x-warnings'
     where k.account_id = :account and k.mode = any(:modes)
       and k.answer_body is not null and k.answer_body <> :erased
       and (cast(:sub_account as text) is null or starts_with(k.path, cast(:sub_account as text) || ' '))
       and (k.sealed and strpos(k.path, 'recipients') > 0
            or exists (select from unnest(cast(:words as text[])) w
                        where position(convert_to(w, 'UTF8') in k.answer_body) > 0))
    """
)


def forget_waiting(tx: Tx, who: Tenant, whom: Whom) -> int:
    """Take the person out of the sends that wait; one that nobody else is in goes. How many they were."""
    ids = list(tx.execute(WAITING, scope(who)).scalars())
    changed = 0
    for start in range(0, len(ids), AT_ONCE):
        some = tx.execute(BODIES.where(stored_sends.c.id.in_(ids[start : start + AT_ONCE]))).all()
        for stored in some:
            changed += _forget_in(tx, stored.id, stored.body, whom)
    return changed


def _forget_in(tx: Tx, stored_id: UUID, text: str, whom: Whom) -> bool:
    try:
        body = exact_json.read(text.encode())
    except exact_json.NotJson:  # a form, which holds no recipients
        return False
    people = body.get("recipients") if isinstance(body, dict) else None
    if not isinstance(people, list):
        return False
    left = [one for one in people if not _is_meant(one, whom)]
    if len(left) == len(people):
        return False
    this = stored_sends.c.id == stored_id
    if not left and not body.get("mailing_list_ids"):
        tx.execute(sa.delete(stored_sends).where(this))
    else:
        kept = {**body, "recipients": left} if left else {k: v for k, v in body.items() if k != "recipients"}
        tx.execute(sa.update(stored_sends).where(this).values(body=exact_json.write(kept)))
    return True


def _is_meant(given: Any, whom: Whom) -> bool:
    if not isinstance(given, Mapping):
        return False
    texts = {name: given[name] for name in TEXTS if isinstance(given.get(name), str)}
    person, _ = examine_alone(texts, may_lack=True)
    return whom.is_meant(person)


def forget_answers(tx: Tx, who: Tenant, found: Found) -> int:
    """How many answers tell nothing any more."""
    limit = None if who.sub_account_id is None else str(who.sub_account_id)
    asked = {**scope(who), "sub_account": limit, "words": found.words, "erased": ERASED_ANSWER}
    return tx.execute(ANSWERS, asked).rowcount
