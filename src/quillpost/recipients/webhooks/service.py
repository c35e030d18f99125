"""Recipients that arrive with a list's key. A person on the list is completed, never duplicated. An address
identifies someone; an e-mail does if one of both has no full address. Not on a suppression list: an entry with only an
e-mail suppresses that e-mail, and would not with an address."""

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
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import NotFound
from quillpost.core.text import Clock
from quillpost.recipients import rules as recipient_rules
from quillpost.recipients.addresses.rules import get_street
from quillpost.recipients.lists.queries import lock_lists, update_list
from quillpost.recipients.models import (
    CUSTOM_FIELDS,
    DERIVED_COLUMNS,
    PERSON_COLUMNS,
    MailingList,
    Person,
    Recipient,
    get_distinguishing_key,
)
from quillpost.recipients.queries import build_recipient_columns, find_recipients_at
from quillpost.recipients.rules import has_full_address, may_share_address, merge_person
from quillpost.recipients.service import RecipientRejection, find_list_error, insert_recipients
from quillpost.recipients.webhooks.rules import InboundPerson

PERSON_LEFT = (
    "This tells of someone who left, so nobody was added. Send it to a suppression list, or remove them with"
    " /recipients-utils/delete-by-address."
)
DEFAULT_LIST_TYPE = "manual"
"""A list of this type takes the type of its first webhook."""

_KEY_PATTERN = re.compile(r"ql_[A-Za-z0-9_-]{43}")

_UPDATED_COLUMNS = (*PERSON_COLUMNS, *CUSTOM_FIELDS, *DERIVED_COLUMNS, "told_apart")
_DATE_COLUMNS = ("dob", "anniversary")
_ARRAY_COLUMNS = ("standard", "reasons")
"""PostgreSQL cannot unnest arrays of arrays: these are passed as JSON."""
_COLUMN_EXPRESSIONS = {name: f"texts_of(given.{name})" for name in _ARRAY_COLUMNS}
_ASSIGNMENTS = [f"{name} = {_COLUMN_EXPRESSIONS.get(name, f'given.{name}')}" for name in _UPDATED_COLUMNS]
_UPDATE_RECIPIENTS = sa.text(
    f"""
    update recipients r
       set {", ".join(_ASSIGNMENTS)}, updated_at = :now
      from unnest(cast(:id as bigint[]), {
        ", ".join(f"cast(:{name} as {'date' if name in _DATE_COLUMNS else 'text'}[])" for name in _UPDATED_COLUMNS)
    }) as given (id, {", ".join(_UPDATED_COLUMNS)})
     where r.id = given.id and r.mailing_list_id = :list
    """
)


@dataclass(frozen=True, slots=True)
class ListKeyOwner:
    list_id: int
    tenant: Tenant
    digest: bytes


class UpsertResult(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(slots=True, eq=False)
class ListEntry:
    """Someone on the list, or about to be."""

    id: int | None
    person: Person
    original: Person | None


UpsertOutcome = tuple[UpsertResult, ListEntry]
CheckedPerson = tuple[InboundPerson, Person] | RecipientRejection


def find_key_owner(db: Database, key: str) -> ListKeyOwner | None:
    """In a system transaction, as no account is known yet."""
    if not _KEY_PATTERN.fullmatch(key):
        return None
    digest = tokens.hash_token(key)
    with db.system_transaction() as tx:
        row = tx.execute(
            sa.select(mailing_lists.c.id, mailing_lists.c.account_id, mailing_lists.c.sub_account_id).where(
                mailing_lists.c.key_digest == digest
            )
        ).first()
    return row and ListKeyOwner(row.id, Tenant(row.account_id, row.sub_account_id), digest)


def upsert_recipients(
    tx: Tx, holder: ListKeyOwner, people: Sequence[InboundPerson], *, source: str | None, clock: Clock
) -> list[UpsertOutcome | RecipientRejection]:
    """The outcome of each row, in order; the later of two rows about one person adds to the earlier."""
    mailing_list = _lock_list(tx, holder)
    checked_people = [_check_person(mailing_list, inbound) for inbound in people]
    valid_people = [checked[1] for checked in checked_people if not isinstance(checked, RecipientRejection)]
    existing = _find_existing(tx, mailing_list, valid_people)
    entry_index, outcomes = _apply_rows(mailing_list, checked_people, existing)
    now = clock()
    new_entries = [entry for entry in entry_index.entries if entry.id is None]
    new_recipients = insert_recipients(tx, [(mailing_list, entry.person) for entry in new_entries], now=now)
    for entry, recipient in zip(new_entries, new_recipients, strict=True):
        entry.id = recipient.id
    changed_entries = [entry for entry in entry_index.entries if entry.original not in (None, entry.person)]
    _store_changes(tx, mailing_list, changed_entries, now=now)
    if source is not None and mailing_list.type == DEFAULT_LIST_TYPE and mailing_list.kept_for is None:
        update_list(tx, mailing_list.id, {"type": source, "updated_at": now})
    return [
        checked if isinstance(checked, RecipientRejection) else _get_final_outcome(*checked) for checked in outcomes
    ]


def _apply_rows(
    mailing_list: MailingList, checked_people: Sequence[CheckedPerson], existing: Sequence[Recipient]
) -> tuple["_EntryIndex", list[UpsertOutcome | RecipientRejection]]:
    """Everyone after the rows, and the outcome of each row. An e-mail identifies someone if only one has it after all
    rows. A row applied before another came with that e-mail would be rejected in a second call, so it is rejected at
    once."""
    index = _EntryIndex(mailing_list, existing)
    outcomes = index.apply_all(checked_people)
    shared_emails = {
        email
        for checked, outcome in zip(checked_people, outcomes, strict=True)
        if not isinstance(checked, RecipientRejection)
        and not isinstance(outcome, RecipientRejection)
        and checked[1].address_key is None
        if index.is_shared(email := _get_email_key(checked[1]))
    }
    if not shared_emails:
        return index, outcomes
    index = _EntryIndex(mailing_list, existing, shared_emails)
    outcomes = index.apply_all(checked_people)
    if all(map(index.is_shared, shared_emails)):
        return index, outcomes
    # Those who seemed to be several are one, without the rows refused: the rows mean that one.
    index.shared_emails = set(filter(index.is_shared, shared_emails))
    repeated = index.apply_all(checked_people)
    return index, [
        later if isinstance(first, RecipientRejection) else first
        for first, later in zip(outcomes, repeated, strict=True)
    ]


def _get_final_outcome(result: UpsertResult, entry: ListEntry) -> UpsertOutcome:
    """Two rows about one address may undo each other: then nothing was changed."""
    return UpsertResult.UNCHANGED if entry.original == entry.person else result, entry


def _lock_list(tx: Tx, holder: ListKeyOwner) -> MailingList:
    """The locked list, if the key is still valid: it may have been rotated meanwhile."""
    mailing_list = lock_lists(tx, [holder.list_id]).get(holder.list_id)
    digest = tx.execute(sa.select(mailing_lists.c.key_digest).where(mailing_lists.c.id == holder.list_id)).scalar()
    if mailing_list is None or digest is None or bytes(digest) != holder.digest:
        raise NotFound
    return mailing_list


def _check_person(mailing_list: MailingList, inbound: InboundPerson) -> CheckedPerson:
    if inbound.error is not None:
        return RecipientRejection(inbound.error)
    if inbound.is_leaving and not mailing_list.is_suppression_list:
        return RecipientRejection(PERSON_LEFT)
    person, errors = recipient_rules.check_recipient(inbound.fields, allow_incomplete=True)
    for name, sentences in errors.items():
        return RecipientRejection(f"{name}: {sentences[0]}")
    error = find_list_error(mailing_list, person)
    return (inbound, person) if error is None else RecipientRejection(": ".join(error))


def _find_existing(tx: Tx, mailing_list: MailingList, people: Sequence[Person]) -> Sequence[Recipient]:
    keys = {person.address_key for person in people if person.address_key is not None}
    emails = {person.email for person in people if person.email is not None}
    return find_recipients_at(tx, mailing_list, keys=sorted(keys), emails=sorted(emails))


def _get_email_key(person: Person) -> str:
    return (person.email or "").lower()


@dataclass(slots=True)
class _EmailGroup:
    """Those with one e-mail, indexed: thousands may have the same."""

    without_address: dict[int, ListEntry] = field(default_factory=dict)
    with_address: dict[int, ListEntry] = field(default_factory=dict)
    by_street: dict[str, dict[int, ListEntry]] = field(default_factory=lambda: defaultdict(dict))

    def get_indexes(self, person: Person) -> list[dict[int, ListEntry]]:
        if person.address_key is None:
            return [self.without_address]
        return [self.with_address, self.by_street[get_street(person.address_key)]]


class _EntryIndex:
    """Everyone whom the rows of a call may mean, on the list or new."""

    def __init__(
        self, mailing_list: MailingList, existing: Iterable[Recipient], shared_emails: Container[str] = ()
    ) -> None:
        """Several people will have the `shared_emails`."""
        self._mailing_list = mailing_list
        self.shared_emails = shared_emails
        self.entries: list[ListEntry] = []
        self._by_key: dict[tuple[str, str], dict[int, ListEntry]] = defaultdict(dict)
        self._by_email: dict[str, _EmailGroup] = defaultdict(_EmailGroup)
        for recipient in existing:
            entry = ListEntry(recipient.id, recipient.person, recipient.person)
            self.entries.append(entry)
            self._add_to_index(entry)

    def is_shared(self, email: str) -> bool:
        """Whether an e-mail identifies no one; on a suppression list it is an entry of its own."""
        email_group = self._by_email[email]
        return (
            len(email_group.with_address) > 1
            and not email_group.without_address
            and not self._mailing_list.is_suppression_list
        )

    def apply_all(self, checked_people: Sequence[CheckedPerson]) -> list[UpsertOutcome | RecipientRejection]:
        return [
            checked if isinstance(checked, RecipientRejection) else self.apply_person(*checked)
            for checked in checked_people
        ]

    def apply_person(self, inbound: InboundPerson, person: Person) -> UpsertOutcome | RecipientRejection:
        entry = self._find_entry(person)
        if isinstance(entry, RecipientRejection):
            return entry
        if entry is None:
            return self._add(person)
        merged, errors = merge_person(entry.person, inbound, person)
        for name, sentences in errors.items():
            return RecipientRejection(f"{name}: {sentences[0]}")
        if merged.address_key not in (entry.person.address_key, person.address_key):
            return self._add(person)  # put together they would live somewhere else, where someone may be
        if merged == entry.person:
            return UpsertResult.UNCHANGED, entry
        self._remove_from_index(entry)
        entry.person = merged
        self._add_to_index(entry)
        return UpsertResult.CHANGED, entry

    def _add(self, person: Person) -> UpsertOutcome:
        entry = ListEntry(None, person, None)
        self.entries.append(entry)
        self._add_to_index(entry)
        return UpsertResult.ADDED, entry

    def _find_entry(self, person: Person) -> ListEntry | RecipientRejection | None:
        if person.address_key is not None and (entries_at_address := self._by_key[self._get_entry_key(person)]):
            return next(iter(entries_at_address.values()))
        email = _get_email_key(person)
        email_group = self._by_email[email]
        entry_without_address = next(iter(email_group.without_address.values()), None)
        if self._mailing_list.is_suppression_list:
            return entry_without_address if person.address_key is None else None
        if person.address_key is None and (email in self.shared_emails or self.is_shared(email)):
            return RecipientRejection("email: Several on this list have this e-mail: give the address as well.")
        if entry_without_address is not None:
            return entry_without_address
        if person.address_key is None:
            return next(iter(email_group.with_address.values()), None)
        neighbors = email_group.by_street[get_street(person.address_key)].values()
        return next((neighbor for neighbor in neighbors if self._is_partial_match(neighbor.person, person)), None)

    def _is_partial_match(self, existing: Person, person: Person) -> bool:
        """Whether one address is the other, with less of it known."""
        return has_full_address(existing) != has_full_address(person) and may_share_address(existing, person)

    def _get_entry_key(self, person: Person) -> tuple[str, str]:
        return person.address_key or "", get_distinguishing_key(self._mailing_list.suppress_by, person)

    def _add_to_index(self, entry: ListEntry) -> None:
        if entry.person.address_key is not None:
            self._by_key[self._get_entry_key(entry.person)][id(entry)] = entry
        if entry.person.email is not None:
            for index in self._by_email[_get_email_key(entry.person)].get_indexes(entry.person):
                index[id(entry)] = entry

    def _remove_from_index(self, entry: ListEntry) -> None:
        if entry.person.address_key is not None:
            del self._by_key[self._get_entry_key(entry.person)][id(entry)]
        if entry.person.email is not None:
            for index in self._by_email[_get_email_key(entry.person)].get_indexes(entry.person):
                del index[id(entry)]


def _store_changes(tx: Tx, mailing_list: MailingList, changed_entries: Sequence[ListEntry], *, now: datetime) -> None:
    if not changed_entries:
        return
    columns = [
        build_recipient_columns(entry.person)
        | {"told_apart": get_distinguishing_key(mailing_list.suppress_by, entry.person)}
        for entry in changed_entries
    ]
    values = {name: [row[name] for row in columns] for name in _UPDATED_COLUMNS}
    values |= {name: [json.dumps(texts) for texts in values[name]] for name in _ARRAY_COLUMNS}
    ids = list(map(attrgetter("id"), changed_entries))
    tx.execute(_UPDATE_RECIPIENTS, {**values, "id": ids, "list": mailing_list.id, "now": now})
