"""Tables of fields: what the value of each may be, and where answers differ from them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Test = Callable[[Any], bool]
Json = dict[str, Any]


def integer(value: Any) -> bool:
    return type(value) is int


def string(value: Any) -> bool:
    return type(value) is str


def boolean(value: Any) -> bool:
    return type(value) is bool


def own_url(value: Any) -> bool:
    return string(value) and value.startswith("http://quillpost.test/")


def matches(pattern: str) -> Test:
    return lambda value: string(value) and re.fullmatch(pattern, value) is not None


def one_of(*values: object) -> Test:
    """Of the same type, too: True is not 1."""
    return lambda value: any(value == each and type(value) is type(each) for each in values)


def or_null(holds: Test) -> Test:
    return lambda value: value is None or holds(value)


DATE_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
date_time = matches(DATE_TIME)
plain_time = matches(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
RELATIVE_TIME = r"just now|\d+ (second|minute|hour|day|week|month|year)s? ago"


def find_differences(shown: Mapping[str, Sequence[Json]], table: Mapping[str, Test], *more: str) -> list[str]:
    """Values that are not as the table says, fields that are missing, and others than those of the table and
    these, by the operation that shows them."""
    assert all(shown.values()), "an operation shows nothing"
    return [
        f"{operation}: {name} is {thing.get(name, 'missing')!r}"
        for operation, things in shown.items()
        for thing in things
        for name in {*table, *thing, *more}
        if name not in thing or not (name in more or (name in table and table[name](thing[name])))
    ]
