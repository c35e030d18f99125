"""What callers wrote or were answered, kept as it was: sends that wait, and answers to repeated calls."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.audience.rules import TEXTS, examine_alone
from quillpost.database import Tenant, Tx
from quillpost.database.tables import stored_sends
from quillpost.kit import exact_json
from quillpost.privacy.finding import IN_MODES, OWN, Found, scope
from quillpost.privacy.whom import Whom

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
