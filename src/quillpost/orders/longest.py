"""The longest words that a message may have to hold: found in one pass, however many people there are."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from quillpost.audience.rules import CUSTOM, Person
from quillpost.database import Tx
from quillpost.database.tables import items, recipients
from quillpost.orders.listed import lacks_parts
from quillpost.orders.rules import ItemStatus

FIELDS = {
    "COMPANY": "company",
    "ADDRESS": "address",
    "ADDRESS2": "address2",
    "CITY": "city",
    "STATE": "province",
    "PROVINCE": "province",
    "ZIP": "postal_code",
    "POSTAL_CODE": "postal_code",
    "EMAIL": "email",
    "PHONE": "phone",
    **{name.upper(): name for name in CUSTOM},
}
DAYS = {"DOB": "dob", "ANNIVERSARY": "anniversary"}
"""Where a person keeps what a variable shows; names are taken apart."""

ADDRESS_FIELDS = ("company", "address", "address2", "city", "province", "postal_code")
NAME_PARTS: Mapping[str, Callable[[list[str]], str]] = {
    "FIRST_NAME": lambda words: words[0],
    "LAST_NAME": lambda words: words[-1],
    "FULL_NAME": " ".join,
    "NAME": " ".join,
}
"""What a variable shows of the words of a name, nearly."""


def longest_people(tx: Tx, list_ids: Sequence[int], variables: Collection[str]) -> list[Person]:
    """People, at least one, who between them have the longest value of every variable named that the lists
    hold.

    Nobody on the lists need be like them: each has the longest of everything, only their names differ.
    """
    whole = sa.text(f"not {lacks_parts('recipients')}")
    mailed = sa.and_(recipients.c.mailing_list_id.in_(list_ids), recipients.c.address.is_not(None), whole)
    return _longest_of(tx, recipients, mailed, variables)


def longest_among(people: Sequence[Person], variables: Collection[str]) -> list[Person]:
    """The same of these people, of whom nothing is known but their names and addresses."""
    fields = {FIELDS[name] for name in variables if name in FIELDS} & set(ADDRESS_FIELDS)
    everyones: dict[str, Any] = {
        field: max((getattr(one, field) or "" for one in people), key=len, default=None) for field in fields
    }
    parts = [part for name, part in NAME_PARTS.items() if name in variables]
    names = dict.fromkeys(_longest_name(people, part) for part in parts) or {None: None}
    return [Person(name=name, **everyones) for name in names]


def _longest_name(people: Sequence[Person], part: Callable[[list[str]], str]) -> str | None:
    names = [one.name for one in people if one.name]
    return max(names, key=lambda name: len(part(name.split() or [""])), default=None)


def longest_mailed(tx: Tx, order_id: int, variables: Collection[str]) -> list[Person]:
    """The same of those whom an order has taken over from its lists."""
    taken = (items.c.order_id == order_id) & (items.c.status == ItemStatus.PROCESSING.value)
    return _longest_of(tx, items, taken & items.c.mailing_list_id.is_not(None), variables)


def _longest_of(
    tx: Tx, people: sa.Table, wanted_ones: sa.ColumnElement[bool], variables: Collection[str]
) -> list[Person]:
    fields = {FIELDS[name] for name in variables if name in FIELDS}
    days = {DAYS[name] for name in variables if name in DAYS}
    names = {name: shown for name, shown in _names(people).items() if name in variables}
    wanted = [
        *(_longest(people.c[field], people.c[field]).label(field) for field in fields),
        *(sa.func.max(people.c[day]).label(day) for day in days),
        *(_longest(people.c.name, shown).label(name) for name, shown in names.items()),
    ]
    if not wanted:
        return [Person()]
    found = tx.execute(sa.select(*wanted).where(wanted_ones)).one()._mapping
    everyones = {name: found[name] for name in fields | days if name not in CUSTOM}
    custom = tuple(found[name] if name in fields else None for name in CUSTOM)
    whole_names = dict.fromkeys(found[name] for name in names) or {None: None}
    return [Person(name=name, **everyones, custom=custom) for name in whole_names]


def _names(people: sa.Table) -> dict[str, sa.ColumnElement[str]]:
    """The part of a name that a variable shows, nearly: titles and the like are left to composition."""
    whole = sa.func.btrim(people.c.name)
    return {
        "FIRST_NAME": sa.func.split_part(whole, " ", 1),
        "LAST_NAME": sa.func.split_part(whole, " ", -1),
        "FULL_NAME": whole,
        "NAME": whole,
    }


def _longest(value: sa.ColumnElement[Any], measured: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The value of whom the measured text is longest, in one pass: lengths of six digits sort as text."""
    length = sa.func.lpad(sa.cast(sa.func.length(measured), sa.Text), 6, "0")
    return sa.func.substr(sa.func.max((length + value).collate("C")), 7)
