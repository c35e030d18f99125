"""Puts recipients on mailing lists and takes them off.

The clock is read when the list is in our hands: a change that waited for another is then dated after it, and
whoever follows a list by the dates of its changes misses none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.clock import Clock
from quillpost.core.database import Tx
from quillpost.core.database.bulk import insert_rows
from quillpost.core.database.tables.base import recipients
from quillpost.core.errors import Conflict, Invalid, NotFound, Refused
from quillpost.recipients import rules
from quillpost.recipients.lists.queries import REQUESTS_ALONE, UNKNOWN_LIST, MailingList, lock_lists
from quillpost.recipients.queries import (
    Recipient,
    columns_of,
    delete_recipient,
    read_recipient,
    those_at,
    update_recipient,
)
from quillpost.recipients.rules import CUSTOM, JUDGED, Person, Row, told_apart
from quillpost.recipients.suppression import in_vain

ALREADY_THERE = "This address is already on this mailing list."

_COLUMNS = (
    "account_id", "sub_account_id", "mailing_list_id", "name", "company", "address", "address2", "city",
    "province", "postal_code", "country", "email", "phone", "dob", "anniversary", *CUSTOM, *JUDGED,
    "absentee_address", "is_sample", "told_apart", "created_at", "updated_at",
)  # fmt: skip

_THERE = sa.text(
    """
    select r.mailing_list_id, r.address_key, r.told_apart
      from unnest(cast(:lists as bigint[]), cast(:keys as text[]), cast(:apart as text[]))
           as asked (list_id, key, told_apart)
      join recipients r on r.mailing_list_id = asked.list_id and r.address_key = asked.key
                       and r.told_apart = asked.told_apart
    """
)
_NEWEST = sa.text(
    """
    select coalesce(max(of_list.newest), 0)
      from unnest(cast(:lists as bigint[])) as asked (list_id),
           lateral (select max(id) as newest from recipients where mailing_list_id = asked.list_id) of_list
    """
)

Joining = tuple[MailingList, Person]
Door = tuple[int, str | None, str]
"""A list, an address on it, and what tells those at this address apart."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row of many was not stored, in one sentence."""

    why: str


def add_recipient(tx: Tx, list_id: int, row: Row, *, clock: Clock) -> Recipient:
    """Someone new on the list."""
    person = rules.examine_one(row)
    joining = (_required(lock_lists(tx, [list_id]), list_id), person)
    _require_barring(*joining)
    if _there(tx, [joining]):
        raise Invalid({"address": [ALREADY_THERE]})
    [added] = store_new(tx, [joining], now=clock())
    return added


def change_recipient(
    tx: Tx, recipient_id: int, given: Row, *, mailing_list_id: int | None = None, clock: Clock
) -> Recipient:
    """The person with these fields, perhaps on another list."""
    seen_on = read_recipient(tx, recipient_id).mailing_list_id
    # The lists before the person, as everyone does who writes.
    lists = lock_lists(tx, {seen_on, mailing_list_id or seen_on})
    known = read_recipient(tx, recipient_id, locked=True)
    person = rules.changed(known.person, given)
    if known.mailing_list_id not in lists:
        raise Conflict("Someone else moved this recipient at this moment. Try again.", retry_after=1)
    into = _required(lists, mailing_list_id or known.mailing_list_id)
    if not into.keeps_requests or into.id != known.mailing_list_id:
        _require_barring(into, person)
    door = _door(into, person)
    place: dict[str, Any] = {
        "mailing_list_id": into.id,
        "sub_account_id": into.sub_account_id,
        "updated_at": clock(),
    }
    # Whoever stays at their door may be a double there, and goes on to be told apart by their id.
    if door != _door(lists[known.mailing_list_id], known.person):
        if _there(tx, [(into, person)]):
            raise Invalid({"address": [ALREADY_THERE]})
        place["told_apart"] = door[2]
    update_recipient(tx, recipient_id, columns_of(person) | place)
    return read_recipient(tx, recipient_id)


def add_many(tx: Tx, rows: Sequence[tuple[int | None, Row]], *, clock: Clock) -> list[Recipient | Refusal]:
    """Each row's recipient, or why it was refused, in order. Nothing is asked of the database row by row."""
    lists = lock_lists(tx, {list_id for list_id, _ in rows if list_id is not None})
    judged = [_judge(list_id, row, lists) for list_id, row in rows]
    taken = _there(tx, [one for one in judged if not isinstance(one, Refusal)])
    for place, one in enumerate(judged):
        if isinstance(one, Refusal) or one[1].address_key is None:
            continue
        door = _door(*one)
        if door in taken:
            judged[place] = Refusal(f"address: {ALREADY_THERE}")
        taken.add(door)
    stored = iter(store_new(tx, [one for one in judged if not isinstance(one, Refusal)], now=clock()))
    return [one if isinstance(one, Refusal) else next(stored) for one in judged]


def _judge(list_id: int | None, row: Row, lists: Mapping[int, MailingList]) -> Joining | Refusal:
    person, faults = rules.examine_alone(row, may_lack=True)
    if list_id is None:
        return Refusal("mailing_list_id: This field is required.")
    if list_id not in lists:
        return Refusal(UNKNOWN_LIST)
    for field, sentences in faults.items():
        return Refusal(f"{field}: {sentences[0]}")
    if (fault := barring_fault(lists[list_id], person)) is not None:
        return Refusal(": ".join(fault))
    return lists[list_id], person


def barring_fault(into: MailingList, person: Person) -> tuple[str, str] | None:
    """The field, and what to do about it, of someone who would be on a suppression list in vain, or on the
    list of those who asked for it themselves."""
    if into.keeps_requests:
        return "mailing_list_id", REQUESTS_ALONE
    return in_vain(into.suppress_by if into.is_suppression_list else None, person)


def _require_barring(into: MailingList, person: Person) -> None:
    if (fault := barring_fault(into, person)) is not None:
        raise Invalid({fault[0]: [fault[1]]})


def _door(into: MailingList, person: Person) -> Door:
    return into.id, person.address_key, told_apart(into.suppress_by, person)


def _required(lists: Mapping[int, MailingList], list_id: int) -> MailingList:
    if list_id not in lists:
        raise Refused(UNKNOWN_LIST)
    return lists[list_id]


def _there(tx: Tx, people: Iterable[Joining]) -> set[Door]:
    """Those of the addresses that are on their list already."""
    doors = [_door(into, person) for into, person in people if person.address_key is not None]
    if not doors:
        return set()
    lists, keys, apart = zip(*doors, strict=True)
    found = tx.execute(_THERE, {"lists": list(lists), "keys": list(keys), "apart": list(apart)})
    return {(list_id, key, told) for list_id, key, told in found}


def store_new(
    tx: Tx, people: Sequence[Joining], *, are_samples: bool = False, now: datetime
) -> list[Recipient]:
    """Their ids follow their order. The lists are in our hands, so whoever is new on them is one of these."""
    if not people:
        return []
    into = sorted({mailing_list.id for mailing_list, _ in people})
    newest = tx.execute(_NEWEST, {"lists": into}).scalar_one()
    rows = [
        (
            mailing_list.account_id, mailing_list.sub_account_id, mailing_list.id,
            person.name, person.company, person.address, person.address2, person.city,
            person.province, person.postal_code, person.country, person.email, person.phone,
            person.dob, person.anniversary, *person.custom, *person.judged,
            person.absentee_address, are_samples, told_apart(mailing_list.suppress_by, person), now, now,
        )
        for mailing_list, person in people
    ]  # fmt: skip
    insert_rows(tx, recipients, _COLUMNS, rows)
    ids = tx.execute(
        sa.select(recipients.c.id)
        .where(recipients.c.mailing_list_id.in_(into), recipients.c.id > newest)
        .order_by(recipients.c.id)
    ).scalars()
    return [
        Recipient(id_, mailing_list.id, person, now, now)
        for id_, (mailing_list, person) in zip(ids, people, strict=True)
    ]


MOST_TOLD_APART = 100
TELLING = ("address", "postal_code", "address2", "city", "email")
"""What tells people of one street or one e-mail apart."""


def remove_recipient(tx: Tx, recipient_id: int) -> None:
    """The list before the person, as everyone does who writes."""
    lock_lists(tx, [read_recipient(tx, recipient_id).mailing_list_id])
    delete_recipient(tx, recipient_id)


def remove_at(tx: Tx, list_id: int, given: Row) -> int:
    """The id of the one person whom this describes, who is no longer on the list.

    With a ZIP code, or whole on one line, an address means one door. A street alone, or an e-mail, has to
    mean one person of the list; else `Invalid` says what would tell them apart.
    """
    address, email = ((given.get(name) or "").strip() for name in ("address", "email"))
    if not address and not email:
        raise Invalid({"address": ["Give an address, or at least an email."]})
    where = rules.whereabouts(given) if address else None
    if not lock_lists(tx, [list_id]):
        raise Refused(UNKNOWN_LIST)
    found = those_at(tx, list_id, where, email or None, most=MOST_TOLD_APART)
    if not found:
        raise NotFound
    if len(found) > 1:
        raise Invalid(_which_one(found, given, "address" if address else "email"))
    delete_recipient(tx, found[0].id)
    return found[0].id


def _which_one(found: Sequence[Recipient], given: Row, by: str) -> dict[str, list[str]]:
    telling = [
        name
        for name in TELLING
        if not given.get(name) and len({getattr(one.person, name) for one in found}) > 1
    ]
    if not telling:
        return {by: ["Several on this list match, and nothing tells them apart but their ids."]}
    return {name: ["Several on this list match: this would tell them apart."] for name in telling}
