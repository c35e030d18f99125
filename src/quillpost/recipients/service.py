"""Recipients on mailing lists: add, change, remove; and whether a person is suppressed. The clock is read once the
list is locked, so that changes are dated in the order of their commits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.database.engine import insert_rows
from quillpost.core.database.tables.base import barred_digests, mailing_lists, recipients
from quillpost.core.errors import Conflict, Invalid, NotFound, Refused
from quillpost.core.text import Clock
from quillpost.recipients import rules
from quillpost.recipients.lists.queries import OPT_OUT_LIST_REFUSED, UNKNOWN_LIST, find_lists, lock_lists
from quillpost.recipients.models import (
    BY_EMAIL,
    BY_HOUSEHOLD,
    CUSTOM_FIELDS,
    DERIVED_COLUMNS,
    MailingList,
    Person,
    Recipient,
    RecipientFields,
    get_distinguishing_key,
)
from quillpost.recipients.queries import (
    build_recipient_columns,
    delete_recipient,
    find_matching_recipients,
    read_recipient,
    update_recipient,
)
from quillpost.recipients.rules import find_suppression_error, validate_recipient

ALREADY_ON_LIST = "This address is already on this mailing list."

_COLUMNS = (
    "account_id", "sub_account_id", "mailing_list_id", "name", "company", "address", "address2", "city",
    "province", "postal_code", "country", "email", "phone", "dob", "anniversary", *CUSTOM_FIELDS, *DERIVED_COLUMNS,
    "absentee_address", "is_sample", "told_apart", "created_at", "updated_at",
)  # fmt: skip

_SELECT_EXISTING = sa.text(
    """
    select r.mailing_list_id, r.address_key, r.told_apart
      from unnest(cast(:lists as bigint[]), cast(:keys as text[]), cast(:apart as text[]))
           as requested (list_id, key, told_apart)
      join recipients r on r.mailing_list_id = requested.list_id and r.address_key = requested.key
                       and r.told_apart = requested.told_apart
    """
)
_SELECT_NEWEST_ID = sa.text(
    """
    select coalesce(max(of_list.newest), 0)
      from unnest(cast(:lists as bigint[])) as requested (list_id),
           lateral (select max(id) as newest from recipients where mailing_list_id = requested.list_id) of_list
    """
)

NewMember = tuple[MailingList, Person]
ListAddressKey = tuple[int, str | None, str]
"""A list, an address on it, and what tells those at this address apart."""


@dataclass(frozen=True, slots=True)
class RecipientRejection:
    """Why a row of many was not stored, in one sentence."""

    reason: str


def add_recipient(tx: Tx, list_id: int, fields: RecipientFields, *, clock: Clock) -> Recipient:
    person = rules.validate_recipient(fields)
    new_member = (_require_list(lock_lists(tx, [list_id]), list_id), person)
    _require_list_accepts(*new_member)
    if _find_existing_keys(tx, [new_member]):
        raise Invalid({"address": [ALREADY_ON_LIST]})
    [recipient] = insert_recipients(tx, [new_member], now=clock())
    return recipient


def change_recipient(
    tx: Tx, recipient_id: int, changes: RecipientFields, *, mailing_list_id: int | None = None, clock: Clock
) -> Recipient:
    """Change the fields, and perhaps the list."""
    previous_list_id = read_recipient(tx, recipient_id).mailing_list_id
    # The lists before the person, as everyone does who writes.
    lists = lock_lists(tx, {previous_list_id, mailing_list_id or previous_list_id})
    recipient = read_recipient(tx, recipient_id, for_update=True)
    person = rules.apply_changes(recipient.person, changes)
    if recipient.mailing_list_id not in lists:
        raise Conflict("Someone else moved this recipient at this moment. Try again.", retry_after=1)
    target_list = _require_list(lists, mailing_list_id or recipient.mailing_list_id)
    if not target_list.is_opt_out_list or target_list.id != recipient.mailing_list_id:
        _require_list_accepts(target_list, person)
    address_key = _list_address_key(target_list, person)
    new_values: dict[str, Any] = {
        "mailing_list_id": target_list.id,
        "sub_account_id": target_list.sub_account_id,
        "updated_at": clock(),
    }
    # A recipient whose address stays may be a duplicate there, and keeps their distinguishing key.
    if address_key != _list_address_key(lists[recipient.mailing_list_id], recipient.person):
        if _find_existing_keys(tx, [(target_list, person)]):
            raise Invalid({"address": [ALREADY_ON_LIST]})
        new_values["told_apart"] = address_key[2]
    update_recipient(tx, recipient_id, build_recipient_columns(person) | new_values)
    return read_recipient(tx, recipient_id)


def add_recipients(
    tx: Tx, rows: Sequence[tuple[int | None, RecipientFields]], *, clock: Clock
) -> list[Recipient | RecipientRejection]:
    """Each row's recipient or rejection, in order, without a query per row."""
    lists = lock_lists(tx, {list_id for list_id, _ in rows if list_id is not None})
    checked_rows = [_check_row(list_id, fields, lists) for list_id, fields in rows]
    existing_keys = _find_existing_keys(tx, [row for row in checked_rows if not isinstance(row, RecipientRejection)])
    for index, row in enumerate(checked_rows):
        if isinstance(row, RecipientRejection) or row[1].address_key is None:
            continue
        address_key = _list_address_key(*row)
        if address_key in existing_keys:
            checked_rows[index] = RecipientRejection(f"address: {ALREADY_ON_LIST}")
        existing_keys.add(address_key)
    new_members = [row for row in checked_rows if not isinstance(row, RecipientRejection)]
    stored_recipients = iter(insert_recipients(tx, new_members, now=clock()))
    return [row if isinstance(row, RecipientRejection) else next(stored_recipients) for row in checked_rows]


def _check_row(
    list_id: int | None, row: RecipientFields, lists: Mapping[int, MailingList]
) -> NewMember | RecipientRejection:
    person, errors = rules.check_recipient(row, allow_incomplete=True)
    if list_id is None:
        return RecipientRejection("mailing_list_id: This field is required.")
    if list_id not in lists:
        return RecipientRejection(UNKNOWN_LIST)
    for field, sentences in errors.items():
        return RecipientRejection(f"{field}: {sentences[0]}")
    if (error := find_list_error(lists[list_id], person)) is not None:
        return RecipientRejection(": ".join(error))
    return lists[list_id], person


def find_list_error(mailing_list: MailingList, person: Person) -> tuple[str, str] | None:
    """The field and the sentence for someone whom this list cannot take."""
    if mailing_list.is_opt_out_list:
        return "mailing_list_id", OPT_OUT_LIST_REFUSED
    return find_suppression_error(mailing_list.suppress_by if mailing_list.is_suppression_list else None, person)


def _require_list_accepts(mailing_list: MailingList, person: Person) -> None:
    if (error := find_list_error(mailing_list, person)) is not None:
        raise Invalid({error[0]: [error[1]]})


def _list_address_key(mailing_list: MailingList, person: Person) -> ListAddressKey:
    return mailing_list.id, person.address_key, get_distinguishing_key(mailing_list.suppress_by, person)


def _require_list(lists: Mapping[int, MailingList], list_id: int) -> MailingList:
    if list_id not in lists:
        raise Refused(UNKNOWN_LIST)
    return lists[list_id]


def _find_existing_keys(tx: Tx, new_members: Iterable[NewMember]) -> set[ListAddressKey]:
    address_keys = [_list_address_key(*member) for member in new_members if member[1].address_key is not None]
    if not address_keys:
        return set()
    lists, keys, distinguishing_keys = zip(*address_keys, strict=True)
    rows = tx.execute(_SELECT_EXISTING, {"lists": list(lists), "keys": list(keys), "apart": list(distinguishing_keys)})
    return {(list_id, key, distinguishing_key) for list_id, key, distinguishing_key in rows}


def insert_recipients(
    tx: Tx, new_members: Sequence[NewMember], *, are_samples: bool = False, now: datetime
) -> list[Recipient]:
    """In order. The lists are locked, so everyone new on them is one of these."""
    if not new_members:
        return []
    list_ids = sorted({mailing_list.id for mailing_list, _ in new_members})
    newest_id = tx.execute(_SELECT_NEWEST_ID, {"lists": list_ids}).scalar_one()
    rows = [
        (
            mailing_list.account_id, mailing_list.sub_account_id, mailing_list.id,
            person.name, person.company, person.address, person.address2, person.city,
            person.province, person.postal_code, person.country, person.email, person.phone,
            person.dob, person.anniversary, *person.custom, *person.derived_values,
            person.absentee_address, are_samples, get_distinguishing_key(mailing_list.suppress_by, person), now, now,
        )
        for mailing_list, person in new_members
    ]  # fmt: skip
    insert_rows(tx, recipients, _COLUMNS, rows)
    ids = tx.execute(
        sa.select(recipients.c.id)
        .where(recipients.c.mailing_list_id.in_(list_ids), recipients.c.id > newest_id)
        .order_by(recipients.c.id)
    ).scalars()
    return [
        Recipient(id_, mailing_list.id, person, now, now)
        for id_, (mailing_list, person) in zip(ids, new_members, strict=True)
    ]


MAX_MATCHES = 100
DISTINGUISHING_FIELDS = ("address", "postal_code", "address2", "city", "email")


def remove_recipient(tx: Tx, recipient_id: int) -> None:
    lock_lists(tx, [read_recipient(tx, recipient_id).mailing_list_id])
    delete_recipient(tx, recipient_id)


def remove_matching_recipient(tx: Tx, list_id: int, fields: RecipientFields) -> int:
    """The id of the one person described, who is removed. With a ZIP code, or complete on one line, an address means
    one delivery point. A street or an e-mail has to match one person; else `Invalid` names the fields that would tell
    them apart."""
    address, email = ((fields.get(name) or "").strip() for name in ("address", "email"))
    if not address and not email:
        raise Invalid({"address": ["Give an address, or at least an email."]})
    partial_address = rules.parse_partial_address(fields) if address else None
    if not lock_lists(tx, [list_id]):
        raise Refused(UNKNOWN_LIST)
    matches = find_matching_recipients(tx, list_id, partial_address, email or None, limit=MAX_MATCHES)
    if not matches:
        raise NotFound
    if len(matches) > 1:
        raise Invalid(_ambiguity_errors(matches, fields, "address" if address else "email"))
    delete_recipient(tx, matches[0].id)
    return matches[0].id


def _ambiguity_errors(
    matches: Sequence[Recipient], fields: RecipientFields, searched_field: str
) -> dict[str, list[str]]:
    distinguishing_fields = [
        name
        for name in DISTINGUISHING_FIELDS
        if not fields.get(name) and len({getattr(recipient.person, name) for recipient in matches}) > 1
    ]
    if not distinguishing_fields:
        return {searched_field: ["Several on this list match, and nothing tells them apart but their ids."]}
    return {name: ["Several on this list match: this would tell them apart."] for name in distinguishing_fields}


# The rule itself is the schema's, and the one by which pieces are held back.
_IS_SUPPRESSED = sa.text(
    """
    select exists (select from suppressed_places(cast(:home as bigint), :mode, array[cast(:key as text)],
                                                 array[cast(:surname as text)], array[cast(:email as text)]))
    """
)
MAX_LISTS = 20


@dataclass(frozen=True, slots=True)
class SuppressionCheck:
    """`lists` are those that the caller sees."""

    person: Person
    is_suppressed: bool
    lists: list[MailingList]


def check_suppression(tx: Tx, caller: Caller, fields: RecipientFields) -> SuppressionCheck:
    """In the caller's mode, for a person with an address, an e-mail, or both."""
    person = validate_recipient(fields)
    bind_values = {
        "home": caller.sub_account_id,
        "mode": caller.mode,
        "key": person.address_key,
        "surname": person.surname,
        "email": person.email,
    }
    is_suppressed = bool(tx.execute(_IS_SUPPRESSED, bind_values).scalar_one())
    return SuppressionCheck(person, is_suppressed, _find_suppression_lists(tx, caller, person) if is_suppressed else [])


def count_erased_suppressions(tx: Tx, *, limit: int) -> int:
    """Suppressions whose person was erased, counted up to `limit`."""
    digests = sa.select(barred_digests.c.id).limit(limit).subquery()
    return int(tx.execute(sa.select(sa.func.count()).select_from(digests)).scalar_one())


def _find_suppression_lists(tx: Tx, caller: Caller, person: Person) -> list[MailingList]:
    recipient_columns, list_columns = recipients.c, mailing_lists.c
    by_address = sa.and_(recipient_columns.address_key == person.address_key, list_columns.suppress_by != BY_EMAIL)
    if person.surname is not None:
        is_family = sa.or_(recipient_columns.surname.is_(None), recipient_columns.surname == person.surname)
        by_address = sa.and_(by_address, sa.or_(list_columns.suppress_by != BY_HOUSEHOLD, is_family))
    suppresses_emails = sa.or_(list_columns.suppress_by == BY_EMAIL, sa.func.bars_email(recipient_columns.address_key))
    by_email = sa.and_(recipient_columns.email_key == sa.func.lower(person.email), suppresses_emails)
    list_ids: set[int] = set()
    for condition in (by_address, by_email):
        rows = tx.execute(
            sa.select(recipient_columns.mailing_list_id)
            .join(mailing_lists, list_columns.id == recipient_columns.mailing_list_id)
            .where(
                recipient_columns.account_id == caller.account_id,
                list_columns.is_suppression_list,
                sa.or_(list_columns.kept_for.is_(None), list_columns.kept_for == caller.mode),
                condition,
            )
            .distinct()
            .limit(MAX_LISTS)
        )
        list_ids |= set(rows.scalars())
    return [mailing_list for _, mailing_list in sorted(find_lists(tx, list_ids).items())]
