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
from quillpost.privacy.models import ErasureSubject
from quillpost.recipients.addresses.service import DOUBTFUL
from quillpost.recipients.rules import TEXT_FIELDS, check_recipient

TENANT_CONDITION = "account_id = :account and (cast(:sub_account as bigint) is null or sub_account_id = :sub_account)"
"""Of the caller. With a sub account, of that one alone."""

MODE_CONDITION = "mode = any(:modes)"

MAX_TEXTS = 500
MIN_TEXT_LENGTH = 3

SELECT_RECIPIENTS = sa.text(
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
       and created_at <= :before and {TENANT_CONDITION}
     order by id
    """
)
SELECT_ITEMS = sa.text(
    f"""
    select id, address_key, lower(email) as email, name, address, deliverability, reasons from items
     where id in (
        select i.id from unnest(cast(:keys as text[])) k (key)
          join items i on i.account_id = :account and i.mode = any(:modes) and i.address_key = k.key
         union all
        select i.id from items i where i.account_id = :account and i.moved_key = any(:keys) and {MODE_CONDITION}
         union all
        select i.id from items i
         where i.account_id = :account and i.mode = any(:modes)
           and i.email is not null and lower(i.email) = cast(:email as text))
       and created_at <= :before and {TENANT_CONDITION}
     order by id
    """
)


@dataclass(frozen=True, slots=True)
class ErasureMatches:
    """Someone's rows, and by which keys and words they are known elsewhere."""

    recipient_ids: list[int] = field(default_factory=list)
    list_ids: set[int] = field(default_factory=set)
    item_ids: list[int] = field(default_factory=list)
    person_keys: set[str] = field(default_factory=set)
    """As automations know people: the address's key, or the e-mail."""
    identifying_texts: list[str] = field(default_factory=list)
    """What would tell of them in a text: names, streets, e-mails, doubts."""


def build_scope_params(tenant: Tenant) -> dict[str, Any]:
    """What `TENANT_CONDITION` and `MODE_CONDITION` ask for. Who is testing erases nothing of what was really mailed."""
    modes = [mode for mode in ("test", "live") if tenant.mode in (None, mode)]
    return {"account": tenant.account_id, "sub_account": tenant.sub_account_id, "modes": modes}


def find_person_rows(tx: Tx, tenant: Tenant, subject: ErasureSubject, *, before: datetime) -> ErasureMatches:
    """What was written of them until then."""
    params = {**build_scope_params(tenant), "before": before, "keys": list(subject.keys), "email": subject.email}
    recipient_rows = tx.execute(SELECT_RECIPIENTS, params).all()
    item_rows = tx.execute(SELECT_ITEMS, params).all()
    address_keys = {*subject.keys, *(row.address_key for row in (*recipient_rows, *item_rows) if row.address_key)}
    emails = {row.email for row in (*recipient_rows, *item_rows) if row.email} | (
        {subject.email} if subject.email else set()
    )
    return ErasureMatches(
        recipient_ids=[row.id for row in recipient_rows],
        list_ids={row.mailing_list_id for row in recipient_rows},
        item_ids=[row.id for row in item_rows],
        person_keys=address_keys | {f"email {email}" for email in emails},
        identifying_texts=_select_texts(
            [*emails, *(text for row in (*recipient_rows, *item_rows) for text in _list_identifying_texts(row))]
        ),
    )


def _list_identifying_texts(row: sa.Row[Any]) -> list[str | None]:
    """The reason of a doubt names what is doubted, and senders are told of it."""
    return [row.name, row.address, *(row.reasons[:1] if row.deliverability == DOUBTFUL else ())]


def _select_texts(texts: Sequence[str | None]) -> list[str]:
    unique_texts = dict.fromkeys(text for text in texts if text is not None and len(text) >= MIN_TEXT_LENGTH)
    return list(unique_texts)[:MAX_TEXTS]


BODY_BATCH_SIZE = 20
"""Bodies that are in memory together: one may be as large as a request."""

SELECT_STORED_SENDS = sa.text(
    f"select id from stored_sends where {TENANT_CONDITION} and {MODE_CONDITION} and body <> '' order by id"
)
LOCK_STORED_BODIES = sa.select(stored_sends.c.id, stored_sends.c.body).order_by(stored_sends.c.id).with_for_update()

ERASED_RESPONSE = b'{"message":"This call was carried out. What it answered told of somebody who was erased since."}'
# The call is not carried out again: only what it was answered is forgotten. Answers with a recipient are
# sealed; which of them tells of whom cannot be seen, and they are kept for ten minutes.
ERASE_RESPONSES = sa.text(
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


def erase_from_stored_sends(tx: Tx, tenant: Tenant, subject: ErasureSubject) -> int:
    """Take the person out of the sends that wait; one that nobody else is in goes. How many they were."""
    ids = list(tx.execute(SELECT_STORED_SENDS, build_scope_params(tenant)).scalars())
    changed_count = 0
    for start in range(0, len(ids), BODY_BATCH_SIZE):
        rows = tx.execute(LOCK_STORED_BODIES.where(stored_sends.c.id.in_(ids[start : start + BODY_BATCH_SIZE]))).all()
        for row in rows:
            changed_count += _erase_from_body(tx, row.id, row.body, subject)
    return changed_count


def _erase_from_body(tx: Tx, stored_id: UUID, text: str, subject: ErasureSubject) -> bool:
    try:
        body = exact_json.parse_json(text.encode())
    except exact_json.InvalidJson:  # a form, which holds no recipients
        return False
    recipients = body.get("recipients") if isinstance(body, dict) else None
    if not isinstance(recipients, list):
        return False
    remaining = [recipient for recipient in recipients if not _is_subject(recipient, subject)]
    if len(remaining) == len(recipients):
        return False
    is_stored_send = stored_sends.c.id == stored_id
    if not remaining and not body.get("mailing_list_ids"):
        tx.execute(sa.delete(stored_sends).where(is_stored_send))
    else:
        new_body = (
            {**body, "recipients": remaining} if remaining else {k: v for k, v in body.items() if k != "recipients"}
        )
        tx.execute(sa.update(stored_sends).where(is_stored_send).values(body=exact_json.dump_json(new_body)))
    return True


def _is_subject(recipient: Any, subject: ErasureSubject) -> bool:
    if not isinstance(recipient, Mapping):
        return False
    texts = {name: recipient[name] for name in TEXT_FIELDS if isinstance(recipient.get(name), str)}
    person, _ = check_recipient(texts, allow_incomplete=True)
    return subject.matches(person)


def erase_responses(tx: Tx, tenant: Tenant, matches: ErasureMatches) -> int:
    """How many answers tell nothing any more."""
    sub_account = None if tenant.sub_account_id is None else str(tenant.sub_account_id)
    params = {
        **build_scope_params(tenant),
        "sub_account": sub_account,
        "words": matches.identifying_texts,
        "erased": ERASED_RESPONSE,
    }
    return tx.execute(ERASE_RESPONSES, params).rowcount
