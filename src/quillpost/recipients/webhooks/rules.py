"""People as other services send them: where they are in a body, and what is said of each.

What is left blank is not said: tools send every field that they have, empty or not.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.field_names import (
    FIRST_OF_ALL,
    INSIDE,
    LONGEST_NAME,
    MANY,
    NAMES,
    ONE_OF,
    Meaning,
    meaning,
    plain,
)
from quillpost.recipients.webhooks.values import day_said, flaw_of, put_street, text_of
from quillpost.rendering.text.countries import country_code

SOURCES = ("automation", "crm")
"""What may be said of where people come from; a list of no other type takes it for its own."""

MOST_NAMED = 50
"""Names of a row that mean nothing to us of which we tell."""

DEEPEST = 10
"""Objects around the fields of a person."""

NOT_AN_OBJECT = "This must be an object with the fields of one person."
LEAVING = frozenset(
    {
        "unsubscribe", "unsubscribed", "cleaned", "delete", "deleted", "contactdelete", "contactdeleted",
        "contactdeletion", "deletedperson", "persondeleted", "peopledeleted", "customersdelete",
    }
)  # fmt: skip
"""What services call it when someone is not theirs any more."""
EVENT = frozenset({"type", "event", "eventtype", "action", "eventname"})


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of one person, by our names."""

    given: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    """Names that mean nothing to us."""
    fault: str | None = None
    """Why it cannot be read at all."""
    is_leaving: bool = False
    """Whether it tells of someone who left."""
    is_half_named: bool = False
    """Whether the name is a first or a last name alone, and so no better than one that is known."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The people of one body."""

    rows: Sequence[Any]
    source: str | None = None
    is_leaving: bool = False
    """Whether it tells of people who left."""
    ignored: Sequence[str] = ()
    """Names around the rows that mean nothing to us."""


@dataclass(slots=True)
class _Found:
    name: str
    path: str
    value: Any
    comes_first: bool


def unknown_names(body: Any) -> set[str]:
    """Keys anywhere in a body that are no one's name for a field. Numbers are places in a form's arrays."""
    names: set[str] = set()
    level = [body]
    while level:
        for each in level:
            if isinstance(each, Mapping):
                names.update(each)
        inside = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [inner for values in inside for inner in values if isinstance(inner, (Mapping, list))]
    return {name for name in names if not name.isdigit() and not _is_known(plain(name))}


def _is_known(name: str) -> bool:
    return name in INSIDE or name in MANY or name in ONE_OF or meaning(name) is not None


def people_in(body: Any) -> Sent:
    """The rows of a body: an array, an object that holds one, or a single person."""
    if not isinstance(body, Mapping):
        return Sent(body if isinstance(body, list) else [body])
    beside: list[str] = []
    rows = _rows_of(body, DEEPEST, "", beside)
    source, is_leaving = _source(body), tells_of_leaving(body)
    if rows is None:
        return Sent([body], source, is_leaving)
    return Sent(rows, source, is_leaving, beside[:MOST_NAMED])


def tells_of_leaving(body: Any) -> bool:
    """Whether an event says that someone is not theirs any more."""
    if not isinstance(body, Mapping):
        return False
    about = body.get("meta")
    levels = [body, about] if isinstance(about, Mapping) else [body]
    return any(_says_left(name, value) for level in levels for name, value in level.items())


def _says_left(name: str, value: Any) -> bool:
    return isinstance(value, str) and plain(name) in EVENT and plain(value) in LEAVING


def read(row: Any, *, is_leaving: bool = False) -> Said:
    """What a row says of one person; `is_leaving`, that they left."""
    if not isinstance(row, Mapping):
        return Said(fault=NOT_AN_OBJECT)
    found, ignored = _meant(row)
    chosen: dict[str, Any] = {}
    parts: dict[int, dict[str, Any]] = {}
    for what, each in found:
        into = chosen if what.address is None else parts.setdefault(what.address, {})
        into.setdefault(what.field, each)
    which = _address_of(parts)
    if which is not None:
        chosen |= _address(parts, which)
    chosen = _named(chosen, found, which)
    given: dict[str, str] = {}
    for name, each in chosen.items():
        text: str | None = text_of(each.value)
        if text and (fault := flaw_of(text)):
            return Said(ignored=ignored[:MOST_NAMED], fault=f"{_sayable(each.path)}: {fault}")
        if text and name in ("dob", "anniversary"):
            text = day_said(text)
        if text is None:
            ignored.append(_sayable(each.path))
        else:
            given[name] = text
    is_leaving = is_leaving or tells_of_leaving(row)
    is_half_named = "name" not in given and ("first_name" in given) != ("last_name" in given)
    return Said(_finished(given, chosen), ignored[:MOST_NAMED], None, is_leaving, is_half_named)


def _rows_of(body: Mapping[str, Any], depth: int, path: str, beside: list[str]) -> list[Any] | None:
    """The people of all arrays in an object, perhaps some objects further inside; and what is beside them."""
    arrays = {name: _people(name, value) for name, value in body.items() if plain(name) in MANY}
    full = {name: rows for name, rows in arrays.items() if rows and any(map(_is_object, rows))}
    if full:
        beside += _beside(body, path, {*full, *(name for name, rows in arrays.items() if rows == [])})
        return [row for rows in full.values() for row in rows]
    for name, value in body.items():
        if depth and plain(name) in INSIDE and isinstance(value, Mapping):
            inner = _rows_of(value, depth - 1, f"{path}{name}.", beside)
            if inner is not None:
                beside += _beside(body, path, {name})
                return inner
    # Nobody at all; unless it is one person, of whom something or other is empty.
    return [] if [] in arrays.values() and not _meant(body)[0] else None


def _beside(body: Mapping[str, Any], path: str, read: Container[str]) -> Iterator[str]:
    """What of an object around rows is not read."""
    for name, value in body.items():
        if name not in read and (path or not _decides(name, value)):
            yield _sayable(f"{path}{name}")


def _decides(name: str, value: Any) -> bool:
    """Whether an outermost field says nothing of a person, and yet what becomes of them."""
    return _source({name: value}) is not None or tells_of_leaving({name: value})


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _source(body: Mapping[str, Any]) -> str | None:
    """Only where it is one of ours: other services have sources of their own."""
    said = body.get("source")
    return said if isinstance(said, str) and said in SOURCES else None


def _people(name: str, value: Any) -> list[Any] | None:
    """An array of people, or a single one without its array."""
    rows = _listed(value)
    if rows is None and isinstance(value, Mapping) and plain(name) not in INSIDE and _meant(value)[0]:
        return [value]
    return rows


def _listed(value: Any) -> list[Any] | None:
    """An array; or what a form has instead of one, an object whose names are numbers."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping) and value and all(name.isascii() and name.isdigit() for name in value):
        return [value[name] for name in sorted(value, key=lambda name: (len(name), name))]
    return None


def _meant(row: Mapping[str, Any]) -> tuple[list[tuple[Meaning, _Found]], list[str]]:
    """What in a row is said of the person, that which counts most first, and names that mean nothing."""
    meant, ignored = [], []
    for each in _walk(row, "", "", DEEPEST, comes_first=False):
        what = meaning(each.name)
        if what is None or isinstance(each.value, (bool, Mapping, list)):
            if each.path not in row or not _decides(each.path, each.value):
                ignored.append(_sayable(each.path))
        elif text_of(each.value):
            meant.append((what, each))
    meant.sort(key=lambda pair: (not pair[1].comes_first, pair[0].rank))
    return meant, ignored


def _walk(
    level: Mapping[str, Any], prefix: str, path: str, depth: int, *, comes_first: bool
) -> Iterator[_Found]:
    for key, value in level.items():
        own = plain(key)
        name, where = prefix + own, f"{path}{key}"
        if isinstance(value, list) or (own in ONE_OF and _listed(value)):
            yield from _of_list(_listed(value) or [], own, prefix, where, depth, comes_first)
        elif not isinstance(value, Mapping) or not depth:
            yield _Found(name, where, value, comes_first)
        elif own in INSIDE:
            first = comes_first or own == FIRST_OF_ALL
            yield from _walk(value, prefix, f"{where}.", depth - 1, comes_first=first)
        else:
            yield from _of_object(value, name, where, depth, comes_first)


def _of_object(
    value: Mapping[str, Any], name: str, where: str, depth: int, comes_first: bool
) -> Iterator[_Found]:
    """The parts of an address, or a value that brings its history along; or nothing that we know."""
    if any(meaning(name + plain(key)) for key in value):
        yield from _walk(value, name, f"{where}.", depth - 1, comes_first=comes_first)
    elif "value" in value:
        yield _Found(name, where, value["value"], comes_first)
    else:
        yield _Found(name, where, value, comes_first)


def _of_list(
    values: Sequence[Any], own: str, prefix: str, where: str, depth: int, comes_first: bool
) -> Iterator[_Found]:
    if own in ONE_OF and values:
        one, name = _primary(values), prefix + ONE_OF[own]
        if isinstance(one, Mapping) and depth:
            yield from _of_object(one, name, where, depth, comes_first)
        else:
            yield _Found(name, where, one, comes_first)
    elif own in INSIDE:  # fields that each bring their own name
        for each in values:
            yield from _of_pair(each, prefix, where, comes_first)
    elif values:
        yield _Found(prefix + own, where, list(values), comes_first)


def _of_pair(pair: Any, prefix: str, where: str, comes_first: bool) -> Iterator[_Found]:
    if not isinstance(pair, Mapping):
        return
    named = {plain(key): value for key, value in pair.items()}
    name = next((named[key] for key in ("key", "name", "label", "field", "id") if key in named), None)
    value = next((named[key] for key in ("value", "fieldvalue") if key in named), None)
    if isinstance(name, str):
        yield _Found(prefix + plain(name), f"{where}.{name}", value, comes_first)


def _primary(values: Sequence[Any]) -> Any:
    for each in values:
        if isinstance(each, Mapping) and any(
            plain(key) in ("primary", "isprimary", "default") and flag in (True, 1, "1", "true")
            for key, flag in each.items()
        ):
            return each
    return values[0]


def _address_of(parts: Mapping[int, dict[str, _Found]]) -> int | None:
    """One address: the first that names a street, else the first of which anything is known."""
    streets = [which for which in sorted(parts) if parts[which].keys() & {"address", "route", "whole"}]
    return next(iter(streets or sorted(parts)), None)


def _named(
    chosen: dict[str, _Found], found: Sequence[tuple[Meaning, _Found]], which: int | None
) -> dict[str, _Found]:
    """Whom mail goes to: whoever was named by hand for this call, else whoever has a name at the address that
    was taken, else the first that has one anywhere."""
    rest = {name: each for name, each in chosen.items() if name not in NAMES}
    by_hand = {name: chosen[name] for name in NAMES if name in chosen and chosen[name].comes_first}
    there = {what.field: each for what, each in reversed(found) if which is not None and what.at == which}
    for names in (by_hand, there):
        if names.keys() - {"company"}:
            return rest | names
    return chosen


def _address(parts: Mapping[int, dict[str, _Found]], which: int) -> dict[str, _Found]:
    chosen = dict(parts[which])
    if "country" not in chosen and "country" in parts.get(0, {}):
        chosen["country"] = parts[0]["country"]
    return chosen


def _finished(given: dict[str, str], chosen: Mapping[str, _Found]) -> dict[str, str]:
    """By our names alone: names are joined, and an address is put together from its parts."""
    first, last = given.pop("first_name", None), given.pop("last_name", None)
    if first and last:
        given["name"] = f"{first} {last}"
    elif (first or last) and "name" not in given:
        given["name"] = first or last or ""
    if "country" in given:
        given["country"] = country_code(given["country"])
    put_street(given)
    code = chosen.get("postal_code")
    if code is not None and isinstance(code.value, int) and given.get("country", HOME).upper() == HOME:
        # A number cannot begin with a nought, and many ZIP codes do.
        given["postal_code"] = given["postal_code"].rjust(5, "0")
    return given


def _sayable(name: str) -> str:
    """A name may be as long and as odd as its sender likes; what is told of it may not."""
    return name[:LONGEST_NAME].encode(errors="backslashreplace").decode()
