"""Finds a person in one account. These statements run as the service, so each names its tenant."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.core import exact_json
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import stored_sends
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.rules import AMBIGUOUS_KEY_SUFFIX, DOUBTFUL, HOME_COUNTRY
from quillpost.recipients.models import ADDRESS_FIELDS, TEXT_FIELDS, Person
from quillpost.recipients.rules import EMAIL_PATTERN, check_recipient

SubjectFields = Mapping[str, str | None]
SUBJECT_REQUIRED = "Give the person's address, or their email, or both."
POSTAL_CODE_REQUIRED = (
    "Give the ZIP code too (outside the US the postal code or the city): a street alone may be many people's."
)
AMBIGUOUS_ADDRESS = "Many people have this address: give a house number or a box, or the person's email instead."


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """Matches one of the address keys, or the e-mail in lower case."""

    keys: tuple[str, ...]
    email: str | None

    def matches(self, person: Person) -> bool:
        """The same condition as in the statements below."""
        return person.address_key in self.keys or (
            self.email is not None and (person.email or "").lower() == self.email
        )


def parse_subject(fields: SubjectFields) -> ErasureSubject:
    """An address in parts, or on one line, an e-mail, or both."""
    address, email = ((fields.get(name) or "").strip() for name in ("address", "email"))
    errors: dict[str, list[str]] = {}
    if email and not EMAIL_PATTERN.fullmatch(email):
        errors["email"] = ["This is not an e-mail address."]
    keys: tuple[str, ...] = ()
    if address:
        person, address_errors = check_recipient(
            {name: fields.get(name) for name in ADDRESS_FIELDS}, allow_incomplete=True
        )
        errors |= address_errors
        if not address_errors and (person.address_key is None or person.address_key.endswith(AMBIGUOUS_KEY_SUFFIX)):
            has_location = person.postal_code is not None and person.country == HOME_COUNTRY
            errors |= {"address": [AMBIGUOUS_ADDRESS]} if has_location else {"postal_code": [POSTAL_CODE_REQUIRED]}
        keys = (person.address_key or "",)
    elif not email:
        errors["address"] = [SUBJECT_REQUIRED]
    if errors:
        raise Invalid(errors)
    return ErasureSubject(keys, email.lower() or None)


def encrypt_subject(encryptor: Encryptor, erasure_id: int, subject: ErasureSubject) -> bytes:
    """For the second pass."""
    plaintext = json.dumps({"keys": subject.keys, "email": subject.email}).encode()
    return encryptor.encrypt(plaintext, context=subject_encryption_context(erasure_id))


def decrypt_subject(encryptor: Encryptor, erasure_id: int, encrypted: bytes) -> ErasureSubject:
    values = json.loads(encryptor.decrypt(encrypted, context=subject_encryption_context(erasure_id)))
    return ErasureSubject(tuple(values["keys"]), values["email"])


def subject_encryption_context(erasure_id: int) -> str:
    return f"erasures:{erasure_id}"


TENANT_CONDITION = "account_id = :account and (cast(:sub_account as bigint) is null or sub_account_id = :sub_account)"
MODE_CONDITION = "mode = any(:modes)"
MAX_TEXTS = 500
MIN_TEXT_LENGTH = 3

SELECT_RECIPIENTS = sa.text(f"""
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
""")
SELECT_ITEMS = sa.text(f"""
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
""")


@dataclass(frozen=True, slots=True)
class ErasureMatches:
    """The person's rows, and the keys and texts by which they are known elsewhere."""

    recipient_ids: list[int] = field(default_factory=list)
    list_ids: set[int] = field(default_factory=set)
    item_ids: list[int] = field(default_factory=list)
    person_keys: set[str] = field(default_factory=set)  # of automations: an address key, or an e-mail
    identifying_texts: list[str] = field(default_factory=list)  # names, streets, e-mails, doubts


def build_scope_params(tenant: Tenant) -> dict[str, Any]:
    """The parameters of both conditions. In testing mode nothing that was really mailed is erased."""
    modes = [mode for mode in ("test", "live") if tenant.mode in (None, mode)]
    return {"account": tenant.account_id, "sub_account": tenant.sub_account_id, "modes": modes}


def find_person_rows(tx: Tx, tenant: Tenant, subject: ErasureSubject, *, before: datetime) -> ErasureMatches:
    params = {**build_scope_params(tenant), "before": before, "keys": list(subject.keys), "email": subject.email}
    recipient_rows = tx.execute(SELECT_RECIPIENTS, params).all()
    item_rows = tx.execute(SELECT_ITEMS, params).all()
    address_keys = {*subject.keys, *(row.address_key for row in (*recipient_rows, *item_rows) if row.address_key)}
    emails = {email for email in (subject.email, *(row.email for row in (*recipient_rows, *item_rows))) if email}
    texts = [*emails, *(text for row in (*recipient_rows, *item_rows) for text in _list_identifying_texts(row))]
    unique_texts = dict.fromkeys(text for text in texts if text is not None and len(text) >= MIN_TEXT_LENGTH)
    return ErasureMatches(
        recipient_ids=[row.id for row in recipient_rows],
        list_ids={row.mailing_list_id for row in recipient_rows},
        item_ids=[row.id for row in item_rows],
        person_keys=address_keys | {f"email {email}" for email in emails},
        identifying_texts=list(unique_texts)[:MAX_TEXTS],
    )


def _list_identifying_texts(row: sa.Row[Any]) -> list[str | None]:
    """The reason of a doubt quotes the address, and senders read it."""
    return [row.name, row.address, *(row.reasons[:1] if row.deliverability == DOUBTFUL else ())]


BODY_BATCH_SIZE = 20  # a body may be as large as a request
SELECT_STORED_SENDS = sa.text(
    f"select id from stored_sends where {TENANT_CONDITION} and {MODE_CONDITION} and body <> '' order by id"
)
LOCK_STORED_BODIES = sa.select(stored_sends.c.id, stored_sends.c.body).order_by(stored_sends.c.id).with_for_update()
ERASED_RESPONSE = b'{"message":"This call was carried out. What it answered told of somebody who was erased since."}'
# The request stays done: only its response is erased. Encrypted responses with recipients cannot be searched, and are
# stored for ten minutes only.
ERASE_RESPONSES = sa.text("""
    update idempotency_keys k
       set answer_body = :erased, answer_type = 'application/json', sealed = false,
           answer_headers = answer_headers - 'x-warnings'
     where k.account_id = :account and k.mode = any(:modes)
       and k.answer_body is not null and k.answer_body <> :erased
       and (cast(:sub_account as text) is null or starts_with(k.path, cast(:sub_account as text) || ' '))
       and (k.sealed and strpos(k.path, 'recipients') > 0
            or exists (select from unnest(cast(:words as text[])) w
                        where position(convert_to(w, 'UTF8') in k.answer_body) > 0))
""")


def erase_from_stored_sends(tx: Tx, tenant: Tenant, subject: ErasureSubject) -> int:
    """Remove the person from stored sends; one without other recipients is deleted. How many were changed."""
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
    sub_account = None if tenant.sub_account_id is None else str(tenant.sub_account_id)
    params = {
        **build_scope_params(tenant),
        "sub_account": sub_account,
        "words": matches.identifying_texts,
        "erased": ERASED_RESPONSE,
    }
    return tx.execute(ERASE_RESPONSES, params).rowcount
