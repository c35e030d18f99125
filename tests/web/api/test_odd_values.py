"""Input that no one means: never a crash, always the error shape, and a refused call leaves nothing behind.

The calls are made after the API's own description, so that a new operation is covered the day it is there.
`make fuzz` tries each value with each operation.
"""

import json
import os
from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any, NamedTuple, TypeVar

import pytest
from httpx2 import Response

from quillpost.web.api.responses import IGNORED_HEADER
from support import described_operations
from support.described_operations import JSON, OPERATIONS, WITH_BODY, DescribedService, Json, Operation, resolved
from support.service import Databases

pytestmark = [pytest.mark.costly, pytest.mark.timeout(3_600 if "FUZZ_EXAMPLES" in os.environ else 600)]

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
DEEP = 10_000
REFUSED, MAY_BE_FINE = range(400, 500), range(200, 500)
PEOPLE = b'Name,Address\nJane Doe,"12 Main St, Austin, TX 78701"\n'

T = TypeVar("T")
SHARES, TURNS = (1, range(12)) if "FUZZ_EXAMPLES" in os.environ else (8, range(1))


def share_of(values: list[T], operation: Operation) -> list[T]:
    """Every eighth, from another one on for the next operation: every run tries each value and each operation."""
    return values[OPERATIONS.index(operation) % SHARES :: SHARES]


@pytest.fixture(scope="module")
def service(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DescribedService]:
    with described_operations.described_service(databases, tmp_path_factory.mktemp("odd_values")) as service:
        yield service


class Case(NamedTuple):
    """A call, the statuses that it may be answered with, what else must be true of the answer, and which of
    those statuses the description need not have."""

    name: object
    how: dict[str, Any]
    expect: range = MAY_BE_FINE
    is_right: Callable[[Response], bool] = lambda _: True
    undescribed: range = range(405, 406)


Cases = Callable[[DescribedService, Operation], Iterator[Case]]


def good_body(service: DescribedService, operation: Operation) -> dict[str, Any]:
    """A body, or a file, where the operation takes one."""
    if operation.body_schema is not None:
        return {"json": service.body(operation)}
    takes_file = "multipart/form-data" in operation.described.get("requestBody", {}).get("content", {})
    return {"files": {"file": ("people.csv", PEOPLE)}} if takes_file else {}


def typed(kind: str, content: Any) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": kind}}


def kinds_of(schema: Json) -> set[str]:
    """The types that a field may have, behind alternatives and references."""
    choices = [resolved(choice) for choice in (schema, *schema.get("anyOf", ()))]
    return {choice["type"] for choice in choices if "type" in choice}


UNREADABLE: dict[str, bytes] = {
    "cut short": b'{"a": ', "bare string": b'"text"', "bare number": b"5", "bare null": b"null", "bare true": b"true",
    "array of numbers": b"[1, 2]", "NaN": b"NaN", "open brackets": b"[" * DEEP, "deep array": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP, "deep value": b'{"name": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "duplicate key": b'{"name": 1, "name": 1}', "NUL": b"\x00", "NUL in a text": b'{"name": "a\x00b"}',
    "raw surrogate": b'{"name": "\xed\xa0\x80"}', "no UTF-8": b'{"name": "\xff"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"), "endless number": b'{"name": ' + b"9" * 5_000 + b"}",
    "two values": b"{} {}", "comment": b"{} // no",
}  # fmt: skip


def unreadable_bodies(_: DescribedService, operation: Operation) -> Iterator[Case]:
    takes_rows = "array" in kinds_of(operation.body_schema or {})
    may_be_none = not operation.described["requestBody"].get("required")
    for name, body in share_of(list(UNREADABLE.items()), operation):
        # Of many rows each is refused by itself; null is as good as a body that may be left out.
        may_be_fine = name == "array of numbers" if takes_rows else name == "bare null" and may_be_none
        yield Case(name, typed(JSON, body), MAY_BE_FINE if may_be_fine else REFUSED)


ODD_FORMS = (b"a=%zz&%", b"a=%ff", b"a=1&a=2", b"a=%00", b"=", b"&&", b"\xff=1", b"a" * 1_000_000)


def bodies_of_other_kinds(service: DescribedService, operation: Operation) -> Iterator[Case]:
    body, unknown = json.dumps(service.body(operation)).encode(), range(415, 416)
    in_parts = REFUSED if "multipart/form-data" in operation.described["requestBody"]["content"] else unknown
    others = ("text/plain", "text/xml", "application/jsonp", ";", "", "*/*", "application/octet-stream")
    cases = [
        Case("none", {"content": body}, unknown),
        *(Case(kind, typed(kind, body), unknown) for kind in others),
        *(Case(kind, typed(kind, body), in_parts) for kind in (MULTIPART, "multipart/form-data")),
        *(Case(form[:20], typed(FORM, form)) for form in (body, *ODD_FORMS)),
    ]
    yield from share_of(cases, operation)


def good_bodies_in_other_wrappings(service: DescribedService, operation: Operation) -> Iterator[Case]:
    """A byte order mark, any spelling of the type, chunks: no reason to refuse. A field that means nothing is
    named, whether or not the call comes to anything."""
    example = service.body(operation)
    typo = {"recipients": example, "tpyo": 1} if isinstance(example, list) else example | {"tpyo": 1}
    body = json.dumps(typo).encode()
    wrappings: list[tuple[str, Any]] = [
        ("APPLICATION/JSON", body), ("application/json; charset=utf-8", body), ("application/vnd.api+json", body),
        (JSON, b"\xef\xbb\xbf" + body), (JSON, iter([body[:9], body[9:]])),
    ]  # fmt: skip

    def is_understood(answer: Response) -> bool:
        is_readable = answer.status_code != 422 or "body" not in answer.json()["errors"]
        return is_readable and answer.status_code != 415 and "tpyo" in ignored_fields(answer)

    for kind, content in share_of(wrappings, operation):
        yield Case((kind, "tpyo"), typed(kind, content), is_right=is_understood)


def ignored_fields(answer: Response) -> list[str]:
    return answer.headers.get(IGNORED_HEADER, "").split(", ")


def unasked_for_bodies(_: DescribedService, operation: Operation) -> Iterator[Case]:
    bodies = (b"", b"x", b"\x00", b"null", b"[" * DEEP, b"{}")
    for body, kind in share_of(list(product(bodies, (JSON, FORM, MULTIPART, "text/plain"))), operation):
        yield Case((body[:9], kind), typed(kind, body), undescribed=REFUSED)


NO_IDS = [
    "0", "-1", "+1", "1.5", "1e3", "true", "null", "None", "x", "%20", "%00", "1%00", "%ed%a0%80", "%ff", "%",
    "%zz", "1%2F2", "%2e%2e", str(2**63), str(2**64), "9" * 5_000, "1;1", "1'", "%0d%0a", "\u0661", "\u4e8c",
]  # fmt: skip
NAMED_BY_CALLERS = {"PUT /giftcard-brands/{brand_code}"}
"""What these name need not be there: it is made."""


def what_cannot_be_an_id(service: DescribedService, operation: Operation) -> Iterator[Case]:
    """It is not found."""
    if str(operation) in NAMED_BY_CALLERS:
        return
    for name, text in share_of(list(product(operation.parameters, NO_IDS)), operation):
        url = service.url(operation, **{name: text})
        yield Case((name, text), {"url": url} | good_body(service, operation), range(404, 406))


Place = tuple[str | int, ...]

# Of the values of a row one is as odd as another: each field is given one of them, the next field the next.
OF_ANY_KIND: list[list[Any]] = [
    [None], [True, 1.5, -1], [[], {}], ["\x00", "a\x00b", "\u202e\u0000"], ["\ud800", "\udfff\ud800"],
    ["x" * 100_000, "\u00e9 " * 50_000, "x" * 1_000_000],
]  # fmt: skip
NEAR: dict[str, list[list[Any]]] = {
    "integer": [
        [0], [-1, "-1"], [2**31], [2**63 - 1], [2**63, 2**64, 10**400], [1e308, 1.5], [True], ["1e3", "9" * 5_000],
    ],
    "string": [["", " "], ["'; drop table orders; --", "%s%n%", "\r\nX: 1"]],
    "array": [[[[]], [{}], [None]], [["\x00"], ["\ud800"]], [{"k": "\x00"}, {"k": "\ud800"}, {"\x00": 1}]],
    "object": [[{"k": [[{}]]}], [{"k": "\x00"}, {"k": "\ud800"}, {"\x00": 1}], [["\x00"], ["\ud800"], [[]], [{}]]],
}  # fmt: skip
UNSAYABLE = ("\x00", "a\x00b", "\ud800", "\udfff\ud800")


def odd_values(schema: Json, turn: int) -> list[Any]:
    """One of every third row: of any kind, and near to what the field is. `turn` says which."""
    rows = OF_ANY_KIND + [row for kind in sorted(kinds_of(schema)) for row in NEAR.get(kind, ())]
    return [row[turn // 3 % len(row)] for row in rows[turn % 3 :: 3]]


def places(schema: Json, depth: int = 2) -> Iterator[tuple[Place, Json]]:
    """Every field of a body, those of objects within and of an array's first object too."""
    for choice in schema.get("anyOf", ()):
        yield from places(resolved(choice), depth)
    for name, inner in schema.get("properties", {}).items():
        yield (name,), inner
        for choice in (inner, *inner.get("anyOf", ())) if depth else ():
            for path, found in places(resolved(choice), depth - 1):
                yield (name, *path), found
    if schema.get("type") == "array" and depth:
        for path, found in places(resolved(schema["items"]), depth - 1):
            yield (0, *path), found


def put(body: Any, path: Place, value: Any) -> Any:
    """The body with this value at that place; whatever leads there is made if need be."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        return [put(body[0] if isinstance(body, list) and body else {}, tuple(rest), value)]
    inside = body if isinstance(body, dict) else {}
    return inside | {step: put(inside.get(step), tuple(rest), value)}


def fields_once() -> dict[str, list[tuple[Place, Json]]]:
    """Of each operation the fields that no earlier one has: those of a name and schema are read alike."""
    seen: set[str] = set()
    found: dict[str, list[tuple[Place, Json]]] = {}
    for operation in WITH_BODY:
        for path, schema in places(operation.body_schema or {}):
            if (key := json.dumps([str(path[-1]).rstrip("0123456789"), schema])) not in seen:
                seen.add(key)
                found.setdefault(str(operation), []).append((path, schema))
    return found


FIELDS = fields_once()


def odd_fields(service: DescribedService, operation: Operation) -> Iterator[Case]:
    for number, (path, schema) in enumerate(FIELDS.get(str(operation), ())):
        for value in chain.from_iterable(odd_values(schema, number + turn) for turn in TURNS):
            body = json.dumps(put(service.body(operation), path, value)).encode()
            yield Case((path, value), typed(JSON, body), REFUSED if _must_be_refused(schema, value) else MAY_BE_FINE)


def _must_be_refused(schema: Json, value: Any) -> bool:
    """What no integer, flag or text can be."""
    kinds = kinds_of(schema) - {"null"}
    if isinstance(value, str) and value in UNSAYABLE:
        return bool(kinds)
    if kinds == {"integer"}:
        return isinstance(value, (bool, float, list, dict)) or value in ("1e3", "-1", 2**64)
    return kinds == {"boolean"} and not isinstance(value, bool) and value is not None


ODD_QUERIES = [
    "%", "%zz", "%00", "%00=%00", "=", "&&&", "a[]=1", "a[b][c]=1", "a[=1", "%ed%a0%80=1", "%ff=%ff", "+",
    "a=" + "x" * 8_000, "&".join(f"k{n}={n}" for n in range(300)),
]  # fmt: skip
ODD_TEXTS = [
    "", "0", "-1", "1e9", "abc", "%00", "%ed%a0%80", "9" * 5_000, str(2**63), "'", "\u0661", "%5C%25",
    "0001-01-01", "9999-12-31T23:59:59Z", "2026-02-30", "2026-01-01T00:00:00%2B99:99",
]  # fmt: skip
UNKNOWN = {"serch": "Jane", "page[size]": "3", "filter[name]": "Jane"}


def odd_queries(service: DescribedService, operation: Operation) -> Iterator[Case]:
    queries, url = [*ODD_QUERIES], service.url(operation)
    for name in operation.query:
        queries += [f"{name}={text}" for text in ODD_TEXTS]
        queries += [f"{name}=1&{name}=2", f"{name}=1&{name}=x", f"{name}[]=1", f"{name}[a]=%00"]
    if operation.method != "GET" and not operation.query:
        # What has a body reads no query: all of them at once, with a good one as far as that gets.
        yield Case("all", {"url": f"{url}?{'&'.join(queries)}"} | good_body(service, operation))
        return
    for query in share_of(queries, operation):
        yield Case(query, {"url": f"{service.url(operation)}?{query}"} | good_body(service, operation))
    if operation.method == "GET" and not operation.parameters:
        named = sorted(UNKNOWN)
        yield Case("unknown", {"params": UNKNOWN}, is_right=lambda answer: ignored_fields(answer) == named)


PAGE_SIZES: list[tuple[str, int | None]] = [
    # items_per_page, and how many are shown: None where it is refused, 0 for the most that there may be.
    ("0", None), ("-1", None), ("abc", None), ("1.5", None), ("1e9", 0), ("7.0", 7), ("", 25), ("%2030%20", 30),
    ("7", 7), ("1000000000", 0), ("9" * 400, 0),
]  # fmt: skip


def page_sizes(service: DescribedService, operation: Operation) -> Iterator[Case]:
    for given, expected in share_of(PAGE_SIZES, operation):

        def is_right(answer: Response, expected: int | None = expected) -> bool:
            body = answer.json()
            if expected is None:
                return answer.status_code == 422 and list(body["errors"]) == ["items_per_page"]
            shown = body.get("meta", body)["per_page"]
            return shown == expected if expected else shown in (100, 10_000)

        yield Case(given, {"url": f"{service.url(operation)}?items_per_page={given}"}, is_right=is_right)


def odd_idempotency_keys(service: DescribedService, operation: Operation) -> Iterator[Case]:
    """They are refused before anything happens; one of letters beyond ASCII may do."""
    for key in share_of([b"", b"x" * 300, b"a\tb", b"\x7f", "é".encode()], operation):
        how = {"headers": {"Idempotency-Key": key}} | good_body(service, operation)
        yield Case(key[:9], how, range(422, 423) if key.isascii() else MAY_BE_FINE, undescribed=REFUSED)


def odd_authorizations(service: DescribedService, operation: Operation) -> Iterator[Case]:
    token = service.caller.token
    odd = [
        b"", b"Bearer", b"Bearer ", b"Basic eDp5", f"Basic {token}".encode(), token.encode(), b"Bearer \xff",
        f"Bearer {token}x".encode(), f"Bearer {token} {token}".encode(), f"Bearer,{token}".encode(),
        b"Bearer " + b"x" * 20_000, f'Bearer "{token}"'.encode(), b"Bearer null", b"\x7f",
    ]  # fmt: skip
    for text in share_of(odd, operation):
        yield Case(text[:30], {"headers": {"Authorization": text}}, range(401, 402))


def kinds_for(operation: Operation) -> Iterator[Cases]:
    """The kinds of odd calls that can be made of it."""
    if operation in WITH_BODY:
        yield from (unreadable_bodies, bodies_of_other_kinds, good_bodies_in_other_wrappings, odd_fields)
    else:
        yield unasked_for_bodies
    if "items_per_page" in operation.query:
        yield page_sizes
    if operation.method == "POST":
        yield odd_idempotency_keys
    yield from (what_cannot_be_an_id, odd_queries, odd_authorizations)


NOTED_READS = {"GET /mailing-lists/{mailing_list_id}/export", "GET /print/batches/{batch_id}/files/{name}"}
"""Of which the audit log has a line, once they are granted: whoever takes all people of a list with them, or
what gift cards are claimed with."""


class Checker:
    """Makes calls one after the other and remembers what was wrong with their answers.

    What those left behind that are bound to be refused, or only read, is asked once, when another comes.
    """

    def __init__(self, service: DescribedService, operation: Operation) -> None:
        self._service, self._operation = service, operation
        self._only_reads = operation.method == "GET" and str(operation) not in NOTED_READS
        self._before = service.watch.traces()
        self._unseen: list[str] = []
        self._errors: list[str] = []

    def see(self, kind: str, case: Case) -> None:
        may_change = not self._only_reads and case.expect.start < REFUSED.start
        if may_change:
            self._look()
        answer = self._service.call(self._operation, **case.how)
        found, name = described_operations.find_violations(answer), f"{kind}: {str(case.name)[:60]}"
        if answer.status_code not in case.undescribed:
            found += described_operations.find_undescribed(self._operation, answer)
        is_expected = answer.status_code in case.expect and case.is_right(answer)
        if not is_expected and answer.status_code < 500:
            found.append(f"answered {answer.status_code}: {answer.headers} {answer.text[:120]}")
        self._errors += [f"{name}: {error}" for error in found]
        self._unseen.append(f"{name}: {answer.status_code}")
        if may_change and answer.is_success:
            self._service.renew(self._operation)
            self._unseen, self._before = [], self._service.watch.traces()

    def _look(self) -> None:
        if self._unseen:
            before, self._before = self._before, self._service.watch.traces()
            if self._before != before:
                self._errors.append(f"left something behind: one of {self._unseen}")
            self._unseen = []

    def errors(self) -> list[str]:
        """What was wrong."""
        self._look()
        return self._errors


def test_every_value_is_tried_with_some_operation() -> None:
    paged = [operation for operation in OPERATIONS if "items_per_page" in operation.query]
    asked = [operation for operation in OPERATIONS if operation.method == "GET"]
    unreadable: list[Any] = list(UNREADABLE)
    for operations, values in ((WITH_BODY, unreadable), (paged, PAGE_SIZES), (asked, ODD_QUERIES)):
        tried = [value for operation in operations for value in share_of(values, operation)]
        assert [value for value in values if value not in tried] == []


def test_no_odd_value_breaks_an_operation(service: DescribedService, subtests: pytest.Subtests) -> None:
    assert set(service.ids) == {
        *described_operations.MAKERS,
        described_operations.BATCHES,
        described_operations.STYLES,
    }, "else the calls would end at 404 and prove little"
    for operation in OPERATIONS:
        with subtests.test(str(operation)):
            service.replace_what_is_gone(operation)
            checker = Checker(service, operation)
            for kind in kinds_for(operation):
                for case in kind(service, operation):
                    checker.see(kind.__name__, case)
            assert checker.errors() == []
