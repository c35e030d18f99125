"""People as other services send them: where they are in a body, and what is said of each.

What is left blank is not said: tools send every field that they have, empty or not.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.recipients.field_names import (
    MAX_NAME_LENGTH,
    NAME_FIELDS,
    PEOPLE_ARRAY_NAMES,
    PERSON_OBJECT_NAMES,
    PRIORITY_OBJECT_NAME,
    SINGLE_VALUE_ARRAYS,
    FieldMeaning,
    choose_address,
    combine_street,
    find_field_meaning,
    find_text_error,
    normalize_date,
    normalize_name,
    to_text,
)
from quillpost.rendering.text.addresses import country_code_by_name

SOURCES = ("automation", "crm")
"""What may be said of where people come from; a list of no other type takes it for its own."""

MAX_IGNORED_NAMES = 50
"""Names of a row that mean nothing to us of which we tell."""

MAX_DEPTH = 10
"""Objects around the fields of a person."""

NOT_AN_OBJECT = "This must be an object with the fields of one person."
LEAVING_EVENTS = frozenset(
    {
        "unsubscribe", "unsubscribed", "cleaned", "delete", "deleted", "contactdelete", "contactdeleted",
        "contactdeletion", "deletedperson", "persondeleted", "peopledeleted", "customersdelete",
    }
)  # fmt: skip
"""What services call it when someone is not theirs any more."""
EVENT_FIELD_NAMES = frozenset({"type", "event", "eventtype", "action", "eventname"})


@dataclass(frozen=True, slots=True)
class InboundPerson:
    """What is said of one person, by our names."""

    fields: Mapping[str, str] = field(default_factory=dict)
    ignored_names: Sequence[str] = ()
    """Names that mean nothing to us."""
    error: str | None = None
    """Why it cannot be read at all."""
    is_leaving: bool = False
    """Whether it tells of someone who left."""
    has_partial_name: bool = False
    """Whether the name is only a first or a last name, and so no better than one that is known."""


@dataclass(frozen=True, slots=True)
class InboundPayload:
    """The people of one body."""

    rows: Sequence[Any]
    source: str | None = None
    is_leaving: bool = False
    """Whether it tells of people who left."""
    ignored_names: Sequence[str] = ()
    """Names around the rows that mean nothing to us."""


@dataclass(slots=True)
class _InboundField:
    name: str
    path: str
    value: Any
    has_priority: bool


def find_unknown_names(body: Any) -> set[str]:
    """Keys anywhere in a body that are no one's name for a field. Numbers are places in a form's arrays."""
    names: set[str] = set()
    level = [body]
    while level:
        for node in level:
            if isinstance(node, Mapping):
                names.update(node)
        children = [node.values() if isinstance(node, Mapping) else node for node in level]
        level = [child for values in children for child in values if isinstance(child, (Mapping, list))]
    return {name for name in names if not name.isdigit() and not _is_known_name(normalize_name(name))}


def _is_known_name(name: str) -> bool:
    return (
        name in PERSON_OBJECT_NAMES
        or name in PEOPLE_ARRAY_NAMES
        or name in SINGLE_VALUE_ARRAYS
        or find_field_meaning(name) is not None
    )


def read_payload(body: Any) -> InboundPayload:
    """The rows of a body: an array, an object that holds one, or a single person."""
    if not isinstance(body, Mapping):
        return InboundPayload(body if isinstance(body, list) else [body])
    unread_names: list[str] = []
    rows = _find_rows(body, MAX_DEPTH, "", unread_names)
    source, is_leaving = _read_source(body), is_leaving_event(body)
    if rows is None:
        return InboundPayload([body], source, is_leaving)
    return InboundPayload(rows, source, is_leaving, unread_names[:MAX_IGNORED_NAMES])


def is_leaving_event(body: Any) -> bool:
    """Whether an event says that someone is not theirs any more."""
    if not isinstance(body, Mapping):
        return False
    meta = body.get("meta")
    levels = [body, meta] if isinstance(meta, Mapping) else [body]
    return any(_is_leaving_field(name, value) for level in levels for name, value in level.items())


def _is_leaving_field(name: str, value: Any) -> bool:
    return (
        isinstance(value, str) and normalize_name(name) in EVENT_FIELD_NAMES and normalize_name(value) in LEAVING_EVENTS
    )


def read_person(row: Any, *, is_leaving: bool = False) -> InboundPerson:
    """What a row says of one person; `is_leaving`, that they left."""
    if not isinstance(row, Mapping):
        return InboundPerson(error=NOT_AN_OBJECT)
    matched_fields, ignored_names = _read_fields(row)
    chosen_fields: dict[str, Any] = {}
    address_parts: dict[int, dict[str, Any]] = {}
    for field_meaning, inbound_field in matched_fields:
        target = (
            chosen_fields
            if field_meaning.address_index is None
            else address_parts.setdefault(field_meaning.address_index, {})
        )
        target.setdefault(field_meaning.field, inbound_field)
    address_index = choose_address(field_meaning for field_meaning, _ in matched_fields)
    if address_index is not None:
        chosen_fields |= _complete_address(address_parts, address_index)
    chosen_fields = _choose_name(chosen_fields, matched_fields, address_index)
    fields: dict[str, str] = {}
    for name, inbound_field in chosen_fields.items():
        text: str | None = to_text(inbound_field.value)
        if text and (error := find_text_error(text)):
            return InboundPerson(
                ignored_names=ignored_names[:MAX_IGNORED_NAMES], error=f"{_printable_name(inbound_field.path)}: {error}"
            )
        if text and name in ("dob", "anniversary"):
            text = normalize_date(text)
        if text is None:
            ignored_names.append(_printable_name(inbound_field.path))
        else:
            fields[name] = text
    is_leaving = is_leaving or is_leaving_event(row)
    has_partial_name = "name" not in fields and ("first_name" in fields) != ("last_name" in fields)
    return InboundPerson(
        _complete_fields(fields, chosen_fields), ignored_names[:MAX_IGNORED_NAMES], None, is_leaving, has_partial_name
    )


def _find_rows(body: Mapping[str, Any], depth: int, path: str, unread_names: list[str]) -> list[Any] | None:
    """The people of all arrays in an object, perhaps some objects further inside; and what is beside them."""
    arrays = {
        name: _read_people_array(name, value)
        for name, value in body.items()
        if normalize_name(name) in PEOPLE_ARRAY_NAMES
    }
    arrays_with_people = {
        name: rows for name, rows in arrays.items() if rows and any(isinstance(row, Mapping) for row in rows)
    }
    if arrays_with_people:
        unread_names += _iter_unread_names(
            body, path, {*arrays_with_people, *(name for name, rows in arrays.items() if rows == [])}
        )
        return [row for rows in arrays_with_people.values() for row in rows]
    for name, value in body.items():
        if depth and normalize_name(name) in PERSON_OBJECT_NAMES and isinstance(value, Mapping):
            inner_rows = _find_rows(value, depth - 1, f"{path}{name}.", unread_names)
            if inner_rows is not None:
                unread_names += _iter_unread_names(body, path, {name})
                return inner_rows
    # No one at all; unless it is one person, some of whose fields are empty.
    return [] if [] in arrays.values() and not _read_fields(body)[0] else None


def _iter_unread_names(body: Mapping[str, Any], path: str, read_names: Container[str]) -> Iterator[str]:
    """What of an object around rows is not read."""
    for name, value in body.items():
        if name not in read_names and (path or not _is_control_field(name, value)):
            yield _printable_name(f"{path}{name}")


def _is_control_field(name: str, value: Any) -> bool:
    """Whether an outermost field says nothing of a person, and yet what becomes of them."""
    return _read_source({name: value}) is not None or is_leaving_event({name: value})


def _read_source(body: Mapping[str, Any]) -> str | None:
    """Only where it is one of ours: other services have sources of their own."""
    source = body.get("source")
    return source if isinstance(source, str) and source in SOURCES else None


def _read_people_array(name: str, value: Any) -> list[Any] | None:
    """An array of people, or a single one without its array."""
    rows = _to_list(value)
    if (
        rows is None
        and isinstance(value, Mapping)
        and normalize_name(name) not in PERSON_OBJECT_NAMES
        and _read_fields(value)[0]
    ):
        return [value]
    return rows


def _to_list(value: Any) -> list[Any] | None:
    """An array; or what a form has instead of one, an object whose names are numbers."""
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping) and value and all(name.isascii() and name.isdigit() for name in value):
        return [value[name] for name in sorted(value, key=lambda name: (len(name), name))]
    return None


def _read_fields(row: Mapping[str, Any]) -> tuple[list[tuple[FieldMeaning, _InboundField]], list[str]]:
    """What in a row is said of the person, that which counts most first, and names that mean nothing."""
    matched_fields, ignored_names = [], []
    for inbound_field in _walk_fields(row, "", "", MAX_DEPTH, has_priority=False):
        field_meaning = find_field_meaning(inbound_field.name)
        if field_meaning is None or isinstance(inbound_field.value, (bool, Mapping, list)):
            if inbound_field.path not in row or not _is_control_field(inbound_field.path, inbound_field.value):
                ignored_names.append(_printable_name(inbound_field.path))
        elif to_text(inbound_field.value):
            matched_fields.append((field_meaning, inbound_field))
    matched_fields.sort(key=lambda pair: (not pair[1].has_priority, pair[0].rank))
    return matched_fields, ignored_names


def _walk_fields(
    node: Mapping[str, Any], prefix: str, path: str, depth: int, *, has_priority: bool
) -> Iterator[_InboundField]:
    for key, value in node.items():
        own_name = normalize_name(key)
        name, field_path = prefix + own_name, f"{path}{key}"
        if isinstance(value, list) or (own_name in SINGLE_VALUE_ARRAYS and _to_list(value)):
            yield from _read_list(_to_list(value) or [], own_name, prefix, field_path, depth, has_priority)
        elif not isinstance(value, Mapping) or not depth:
            yield _InboundField(name, field_path, value, has_priority)
        elif own_name in PERSON_OBJECT_NAMES:
            inner_priority = has_priority or own_name == PRIORITY_OBJECT_NAME
            yield from _walk_fields(value, prefix, f"{field_path}.", depth - 1, has_priority=inner_priority)
        else:
            yield from _read_object(value, name, field_path, depth, has_priority)


def _read_object(
    value: Mapping[str, Any], name: str, field_path: str, depth: int, has_priority: bool
) -> Iterator[_InboundField]:
    """The parts of an address, or a value that brings its history along; or nothing that we know."""
    if any(find_field_meaning(name + normalize_name(key)) for key in value):
        yield from _walk_fields(value, name, f"{field_path}.", depth - 1, has_priority=has_priority)
    elif "value" in value:
        yield _InboundField(name, field_path, value["value"], has_priority)
    else:
        yield _InboundField(name, field_path, value, has_priority)


def _read_list(
    values: Sequence[Any], own_name: str, prefix: str, field_path: str, depth: int, has_priority: bool
) -> Iterator[_InboundField]:
    if own_name in SINGLE_VALUE_ARRAYS and values:
        primary_value, name = _choose_primary(values), prefix + SINGLE_VALUE_ARRAYS[own_name]
        if isinstance(primary_value, Mapping) and depth:
            yield from _read_object(primary_value, name, field_path, depth, has_priority)
        else:
            yield _InboundField(name, field_path, primary_value, has_priority)
    elif own_name in PERSON_OBJECT_NAMES:  # fields that each bring their own name
        for pair in values:
            yield from _read_pair(pair, prefix, field_path, has_priority)
    elif values:
        yield _InboundField(prefix + own_name, field_path, list(values), has_priority)


def _read_pair(pair: Any, prefix: str, field_path: str, has_priority: bool) -> Iterator[_InboundField]:
    if not isinstance(pair, Mapping):
        return
    normalized_pair = {normalize_name(key): value for key, value in pair.items()}
    name = next(
        (normalized_pair[key] for key in ("key", "name", "label", "field", "id") if key in normalized_pair), None
    )
    value = next((normalized_pair[key] for key in ("value", "fieldvalue") if key in normalized_pair), None)
    if isinstance(name, str):
        yield _InboundField(prefix + normalize_name(name), f"{field_path}.{name}", value, has_priority)


def _choose_primary(values: Sequence[Any]) -> Any:
    for candidate in values:
        if isinstance(candidate, Mapping) and any(
            normalize_name(key) in ("primary", "isprimary", "default") and flag in (True, 1, "1", "true")
            for key, flag in candidate.items()
        ):
            return candidate
    return values[0]


def _choose_name(
    chosen_fields: dict[str, _InboundField],
    matched_fields: Sequence[tuple[FieldMeaning, _InboundField]],
    address_index: int | None,
) -> dict[str, _InboundField]:
    """Whom mail goes to: the person named by hand for this call, else the one with a name at the address that
    was taken, else the first that has one anywhere."""
    other_fields = {name: inbound_field for name, inbound_field in chosen_fields.items() if name not in NAME_FIELDS}
    priority_names = {
        name: chosen_fields[name] for name in NAME_FIELDS if name in chosen_fields and chosen_fields[name].has_priority
    }
    names_at_address = {
        field_meaning.field: inbound_field
        for field_meaning, inbound_field in reversed(matched_fields)
        if address_index is not None and field_meaning.name_address_index == address_index
    }
    for names in (priority_names, names_at_address):
        if names.keys() - {"company"}:
            return other_fields | names
    return chosen_fields


def _complete_address(parts: Mapping[int, dict[str, _InboundField]], address_index: int) -> dict[str, _InboundField]:
    chosen_fields = dict(parts[address_index])
    if "country" not in chosen_fields and "country" in parts.get(0, {}):
        chosen_fields["country"] = parts[0]["country"]
    return chosen_fields


def _complete_fields(fields: dict[str, str], chosen_fields: Mapping[str, _InboundField]) -> dict[str, str]:
    """By our names only: names are joined, and an address is put together from its parts."""
    first, last = fields.pop("first_name", None), fields.pop("last_name", None)
    if first and last:
        fields["name"] = f"{first} {last}"
    elif (first or last) and "name" not in fields:
        fields["name"] = first or last or ""
    if "country" in fields:
        fields["country"] = country_code_by_name(fields["country"])
    combine_street(fields)
    postal_code_field = chosen_fields.get("postal_code")
    if (
        postal_code_field is not None
        and "postal_code" in fields
        and isinstance(postal_code_field.value, int)
        and fields.get("country", HOME_COUNTRY).upper() == HOME_COUNTRY
    ):
        # A number cannot begin with a nought, and many ZIP codes do.
        fields["postal_code"] = fields["postal_code"].rjust(5, "0")
    return fields


def _printable_name(name: str) -> str:
    """A name may be as long and as odd as its sender likes; what errors quote of it may not."""
    return name[:MAX_NAME_LENGTH].encode(errors="backslashreplace").decode()
