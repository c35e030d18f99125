"""People who come to a list by its key. Whoever is there already is completed, never doubled.

An address is on a list once, so it tells who someone is; an e-mail does where one of both has no whole
address. On a suppression list it does not: an entry with only an e-mail bars that e-mail, which it would not
any more if it were given an address.
"""

import json
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import attrgetter

import sqlalchemy as sa

from quillpost.core import tokens
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import NotFound
from quillpost.recipients import rules as recipient_rules
from quillpost.recipients.addresses.keys import street_of
from quillpost.recipients.lists.queries import MailingList, lock_lists, update_list
from quillpost.recipients.queries import PERSON, Recipient, columns_of, recipients_at
from quillpost.recipients.rules import (
    CUSTOM,
    JUDGED,
    Person,
    is_whole,
    may_live_together,
    put_together,
    told_apart,
)
from quillpost.recipients.service import Refusal, barring_fault, store_new
from quillpost.recipients.webhooks.rules import Said

WENT = (
    "This tells of someone who left, so nobody was added. Send it to a suppression list, or remove them with"
    " /recipients-utils/delete-by-address."
)
SEVERAL = "email: Several on this list have this e-mail: give the address as well."
ONLY_TYPE = "manual"
"""The type of a list that nobody has said anything of: a hook may say where its people come from."""

_KEY = re.compile(r"ql_[A-Za-z0-9_-]{43}")

_CHANGED = (*PERSON, *CUSTOM, *JUDGED, "told_apart")
_DATES = ("dob", "anniversary")
_ARRAYS = ("standard", "reasons")
"""Arrays of arrays cannot be taken apart as others are: these come as JSON."""
# A double at its door goes on to be told apart by its id.
_GIVEN = {name: f"texts_of(given.{name})" for name in _ARRAYS} | {
    "told_apart": "case when r.address_rules < 0 and r.address_key = given.address_key then r.told_apart"
    " else given.told_apart end"
}
_NEW = [f"{name} = {_GIVEN.get(name, f'given.{name}')}" for name in _CHANGED]
_CHANGE = sa.text(
    f"""
    update recipients r
       set {", ".join(_NEW)}, updated_at = :now
      from unnest(cast(:id as bigint[]), {
        ", ".join(f"cast(:{name} as {'date' if name in _DATES else 'text'}[])" for name in _CHANGED)
    }) as given (id, {", ".join(_CHANGED)})
     where r.id = given.id and r.mailing_list_id = :list
    """
)


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A list that a key opens, and whose it is."""

    list_id: int
    tenant: Tenant
    digest: bytes


class Result(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(slots=True, eq=False)
class Entry:
    """Someone on the list, or about to be."""

    id: int | None
    person: Person
    was: Person | None


Outcome = tuple[Result, Entry]
Judged = tuple[Said, Person] | Refusal


def holder_of(db: Database, key: str) -> KeyHolder | None:
    """Whose list the key opens. Nobody is known yet, so the service itself looks."""
    if not _KEY.fullmatch(key):
        return None
    digest = tokens.digest(key)
    with db.work() as tx:
        row = tx.execute(
            sa.select(mailing_lists.c.id, mailing_lists.c.account_id, mailing_lists.c.sub_account_id).where(
                mailing_lists.c.key_digest == digest
            )
        ).first()
    return row and KeyHolder(row.id, Tenant(row.account_id, row.sub_account_id), digest)


def take_in(
    tx: Tx, holder: KeyHolder, rows: Sequence[Said], *, source: str | None, clock: Clock
) -> list[Outcome | Refusal]:
    """What became of each row, in order; the later of two that tell of one person adds to the earlier.

    The clock is read when the list is in our hands, as whoever puts people on a list does.
    """
    into = _locked(tx, holder)
    judged = [_judge(into, row) for row in rows]
    there, outcomes = _settled(
        into, judged, _known(tx, into, [one[1] for one in judged if not isinstance(one, Refusal)])
    )
    now = clock()
    new = [entry for entry in there.all if entry.id is None]
    for entry, added in zip(new, store_new(tx, [(into, one.person) for one in new], now=now), strict=True):
        entry.id = added.id
    _store_changes(tx, into, [one for one in there.all if one.was not in (None, one.person)], now=now)
    if source is not None and into.type == ONLY_TYPE and into.kept_for is None:
        update_list(tx, into.id, {"type": source, "updated_at": now})
    return [one if isinstance(one, Refusal) else _in_the_end(*one) for one in outcomes]


def _settled(
    into: MailingList, judged: Sequence[Judged], known: Sequence[Recipient]
) -> tuple["_Entries", list[Outcome | Refusal]]:
    """Everyone as the rows leave them, and what became of each row.

    An e-mail alone says who is meant if one has it when all rows are taken. A row that was taken before
    another came with that e-mail would be refused if the call were made again, so it is refused at once.
    """
    there = _Entries(into, known)
    outcomes = there.take_all(judged)
    shared = {
        email
        for one, outcome in zip(judged, outcomes, strict=True)
        if not isinstance(one, Refusal) and not isinstance(outcome, Refusal) and one[1].address_key is None
        if there.is_shared(email := _email_key(one[1]))
    }
    if not shared:
        return there, outcomes
    there = _Entries(into, known, shared)
    outcomes = there.take_all(judged)
    if all(map(there.is_shared, shared)):
        return there, outcomes
    # Those who seemed to be several are one, without the rows refused: the rows mean that one.
    there.shared = set(filter(there.is_shared, shared))
    again = there.take_all(judged)
    return there, [
        later if isinstance(one, Refusal) else one for one, later in zip(outcomes, again, strict=True)
    ]


def _in_the_end(result: Result, entry: Entry) -> Outcome:
    """Two rows about one address may undo each other: then nothing was changed."""
    return Result.UNCHANGED if entry.was == entry.person else result, entry


def _locked(tx: Tx, holder: KeyHolder) -> MailingList:
    """The list in our hands, if the key opens it still: it may have been rotated while we waited."""
    found = lock_lists(tx, [holder.list_id]).get(holder.list_id)
    digest = tx.execute(
        sa.select(mailing_lists.c.key_digest).where(mailing_lists.c.id == holder.list_id)
    ).scalar()
    if found is None or digest is None or bytes(digest) != holder.digest:
        raise NotFound
    return found


def _judge(into: MailingList, said: Said) -> Judged:
    if said.fault is not None:
        return Refusal(said.fault)
    if said.is_leaving and not into.is_suppression_list:
        return Refusal(WENT)
    person, faults = recipient_rules.examine_alone(said.given, may_lack=True)
    for name, sentences in faults.items():
        return Refusal(f"{name}: {sentences[0]}")
    fault = barring_fault(into, person)
    return (said, person) if fault is None else Refusal(": ".join(fault))


def _known(tx: Tx, into: MailingList, people: Sequence[Person]) -> Sequence[Recipient]:
    """Those on the list with one of these addresses or e-mails, the oldest first."""
    keys = {person.address_key for person in people if person.address_key is not None}
    emails = {person.email for person in people if person.email is not None}
    return recipients_at(tx, into, keys=sorted(keys), emails=sorted(emails))


def _email_key(person: Person) -> str:
    return (person.email or "").lower()


@dataclass(slots=True)
class _Namesakes:
    """Those who have one e-mail, each found by what is asked: thousands may have the same."""

    unaddressed: dict[int, Entry] = field(default_factory=dict)
    addressed: dict[int, Entry] = field(default_factory=dict)
    by_street: dict[str, dict[int, Entry]] = field(default_factory=lambda: defaultdict(dict))

    def places(self, person: Person) -> list[dict[int, Entry]]:
        """Where someone with this address is noted."""
        if person.address_key is None:
            return [self.unaddressed]
        return [self.addressed, self.by_street[street_of(person.address_key)]]


class _Entries:
    """Everyone whom the rows of a call may mean: those who are there, and those who come with it."""

    def __init__(self, into: MailingList, known: Iterable[Recipient], shared: Container[str] = ()) -> None:
        """Of e-mails that are `shared` it is known beforehand that several will have them."""
        self._into = into
        self.shared = shared
        self.all: list[Entry] = []
        self._by_key: dict[tuple[str, str], dict[int, Entry]] = defaultdict(dict)
        self._by_email: dict[str, _Namesakes] = defaultdict(_Namesakes)
        for one in known:
            entry = Entry(one.id, one.person, one.person)
            self.all.append(entry)
            self._note(entry)

    def is_shared(self, email: str) -> bool:
        """Whether an e-mail alone says too little; on a suppression list it is an entry of its own."""
        known = self._by_email[email]
        return len(known.addressed) > 1 and not known.unaddressed and not self._into.is_suppression_list

    def take_all(self, judged: Sequence[Judged]) -> list[Outcome | Refusal]:
        return [one if isinstance(one, Refusal) else self.take(*one) for one in judged]

    def take(self, said: Said, person: Person) -> Outcome | Refusal:
        entry = self._meant(person)
        if isinstance(entry, Refusal):
            return entry
        if entry is None:
            return self._add(person)
        together, faults = put_together(entry.person, said, person)
        for name, sentences in faults.items():
            return Refusal(f"{name}: {sentences[0]}")
        if together.address_key not in (entry.person.address_key, person.address_key):
            return self._add(person)  # put together they would live somewhere else, where someone may be
        if together == entry.person:
            return Result.UNCHANGED, entry
        self._forget(entry)
        entry.person = together
        self._note(entry)
        return Result.CHANGED, entry

    def _add(self, person: Person) -> Outcome:
        entry = Entry(None, person, None)
        self.all.append(entry)
        self._note(entry)
        return Result.ADDED, entry

    def _meant(self, person: Person) -> Entry | Refusal | None:
        if person.address_key is not None and (here := self._by_key[self._door(person)]):
            return next(iter(here.values()))
        email = _email_key(person)
        same_email = self._by_email[email]
        unaddressed = next(iter(same_email.unaddressed.values()), None)
        if self._into.is_suppression_list:
            return unaddressed if person.address_key is None else None
        if person.address_key is None and (email in self.shared or self.is_shared(email)):
            return Refusal(SEVERAL)
        if unaddressed is not None:
            return unaddressed
        if person.address_key is None:
            return next(iter(same_email.addressed.values()), None)
        neighbours = same_email.by_street[street_of(person.address_key)].values()
        return next((one for one in neighbours if self._is_half_of(one.person, person)), None)

    def _is_half_of(self, known: Person, person: Person) -> bool:
        """Whether the one address is the other, with less of it known."""
        return is_whole(known) != is_whole(person) and may_live_together(known, person)

    def _door(self, person: Person) -> tuple[str, str]:
        return person.address_key or "", told_apart(self._into.suppress_by, person)

    def _note(self, entry: Entry) -> None:
        if entry.person.address_key is not None:
            self._by_key[self._door(entry.person)][id(entry)] = entry
        if entry.person.email is not None:
            for place in self._by_email[_email_key(entry.person)].places(entry.person):
                place[id(entry)] = entry

    def _forget(self, entry: Entry) -> None:
        if entry.person.address_key is not None:
            del self._by_key[self._door(entry.person)][id(entry)]
        if entry.person.email is not None:
            for place in self._by_email[_email_key(entry.person)].places(entry.person):
                del place[id(entry)]


def _store_changes(tx: Tx, into: MailingList, changed: Sequence[Entry], *, now: datetime) -> None:
    if not changed:
        return
    columns = [
        columns_of(one.person) | {"told_apart": told_apart(into.suppress_by, one.person)} for one in changed
    ]
    values = {name: [row[name] for row in columns] for name in _CHANGED}
    values |= {name: [json.dumps(texts) for texts in values[name]] for name in _ARRAYS}
    ids = list(map(attrgetter("id"), changed))
    tx.execute(_CHANGE, {**values, "id": ids, "list": into.id, "now": now})
