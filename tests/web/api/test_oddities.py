"""Input that no one means: never a crash, always the error shape, and a refused call leaves nothing behind.

The calls are made after the API's own description, so that a new operation is covered the day it is there.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, TypeVar

import pytest
from httpx2 import Response

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.described_operations import (
    BATCHES,
    JSON,
    MAKERS,
    OPERATIONS,
    WITH_BODY,
    DescribedService,
    Json,
    Operation,
    described_service,
    find_violations,
    resolved,
)

pytestmark = pytest.mark.costly

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
DEEP = 10_000

over_every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=str)
over_every_body = pytest.mark.parametrize("operation", WITH_BODY, ids=str)

T = TypeVar("T")
SHARES = 5
in_shares = pytest.mark.parametrize(
    "share", [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, SHARES))]
)


def share_of(values: list[T], operation: Operation, share: int) -> list[T]:
    """Every fifth, from another one on for the next operation. So every run has tried each value and each
    operation; the long one each value with each operation."""
    return values[(OPERATIONS.index(operation) + share) % SHARES :: SHARES]


@pytest.fixture(scope="module")
def environment(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DescribedService]:
    with described_service(postgres, template, tmp_path_factory.mktemp("oddities")) as environment:
        yield environment


@over_every_body
def test_a_field_that_means_nothing_is_named(environment: DescribedService, operation: Operation) -> None:
    """Whether or not the call comes to anything."""
    example = environment.body(operation)
    typo = {"recipients": example, "tpyo": 1} if isinstance(example, list) else example | {"tpyo": 1}
    answer = environment.call_with(operation, typo)
    if answer.is_success:
        environment.renew(operation)
    assert "tpyo" in answer.headers.get("X-Ignored-Fields", "").split(", "), answer.text


REFUSED = range(400, 500)
MAY_BE_FINE = range(200, 500)


NOTED_READS = {"GET /mailing-lists/{mailing_list_id}/export", "GET /print/batches/{batch_id}/files/{name}"}
"""Of which the audit log has a line, once they are granted: whoever takes all people of a list with them, or
what gift cards are claimed with."""


class Checker:
    """Makes calls one after the other and remembers what was wrong with their answers.

    What those left behind that are bound to be refused, or only read, is asked once, when another comes.
    """

    def __init__(self, environment: DescribedService, operation: Operation) -> None:
        self._environment, self._operation = environment, operation
        self._before = environment.watch.traces()
        self._unseen: list[str] = []
        self._errors: list[str] = []

    def see(self, name: object, call: Callable[[], Response], *, expect: range = MAY_BE_FINE) -> Response:
        is_read = self._operation.method == "GET" and str(self._operation) not in NOTED_READS
        may_change = not is_read and expect.start < REFUSED.start
        if may_change:
            self._look()
        answer = call()
        found = find_violations(answer)
        if answer.status_code not in expect and answer.status_code < 500:
            found.append(f"answered {answer.status_code}: {answer.text[:120]}")
        self._errors += [f"{str(name)[:60]}: {error}" for error in found]
        self._unseen.append(f"{str(name)[:60]}: {answer.status_code}")
        if may_change and answer.is_success:
            self._environment.renew(self._operation)
            self._unseen, self._before = [], self._environment.watch.traces()
        return answer

    def _look(self) -> None:
        if self._unseen:
            before, self._before = self._before, self._environment.watch.traces()
            if self._before != before:
                self._errors.append(f"left something behind: one of {self._unseen}")
            self._unseen = []

    def errors(self) -> list[str]:
        """What was wrong."""
        self._look()
        return self._errors


UNREADABLE: dict[str, bytes] = {
    "cut short": b'{"a": ',
    "bare string": b'"text"',
    "bare number": b"5",
    "bare null": b"null",
    "bare true": b"true",
    "array of numbers": b"[1, 2]",
    "NaN": b"NaN",
    "open brackets": b"[" * DEEP,
    "deep array": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep value": b'{"name": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "duplicate key": b'{"name": 1, "name": 1}',
    "NUL": b"\x00",
    "NUL in a text": b'{"name": "a\x00b"}',
    "raw surrogate": b'{"name": "\xed\xa0\x80"}',
    "no UTF-8": b'{"name": "\xff"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "endless number": b'{"name": ' + b"9" * 5_000 + b"}",
    "two values": b"{} {}",
    "comment": b"{} // no",
}


@over_every_body
def test_an_unreadable_body_is_refused(environment: DescribedService, operation: Operation) -> None:
    checker = Checker(environment, operation)
    assert operation.body_schema is not None
    takes_rows = "array" in kinds_of(operation.body_schema)
    may_be_none = not operation.described["requestBody"].get("required")
    for name, body in UNREADABLE.items():
        headers = {"Content-Type": JSON}
        # Of many rows each is refused by itself; null is as good as a body that may be left out.
        may_be_fine = name == "array of numbers" if takes_rows else name == "bare null" and may_be_none
        expected = MAY_BE_FINE if may_be_fine else REFUSED
        checker.see(name, partial(environment.call, operation, content=body, headers=headers), expect=expected)
    assert checker.errors() == []


@over_every_body
def test_a_body_of_another_kind_is_refused(environment: DescribedService, operation: Operation) -> None:
    checker, body = Checker(environment, operation), json.dumps(environment.body(operation)).encode()
    takes = operation.described["requestBody"]["content"]
    for kind in ("text/plain", "text/xml", "application/jsonp", ";", "", "*/*", "application/octet-stream"):
        headers = {"Content-Type": kind}
        call = partial(environment.call, operation, content=body, headers=headers)
        checker.see(kind, call, expect=range(415, 416))
    checker.see("none", lambda: environment.call(operation, content=body), expect=range(415, 416))
    expected = REFUSED if "multipart/form-data" in takes else range(415, 416)
    for name, kind in {"multipart": MULTIPART, "no boundary": "multipart/form-data"}.items():
        headers = {"Content-Type": kind}
        checker.see(name, partial(environment.call, operation, content=body, headers=headers), expect=expected)
    for form in (body, b"a=%zz&%", b"a=%ff", b"a=1&a=2", b"a=%00", b"=", b"&&", b"\xff=1", b"a" * 1_000_000):
        headers = {"Content-Type": FORM}
        checker.see(form[:20], partial(environment.call, operation, content=form, headers=headers))
    assert checker.errors() == []


@over_every_body
def test_a_good_body_in_another_wrapping_is_understood(environment: DescribedService, operation: Operation) -> None:
    """A byte order mark, any spelling of the type, chunks: no reason to refuse."""
    checker, body = Checker(environment, operation), json.dumps(environment.body(operation)).encode()
    wrappings: dict[str, tuple[str, Any]] = {
        "capitals": ("APPLICATION/JSON", body),
        "charset": ("application/json; charset=utf-8", body),
        "suffix": ("application/vnd.api+json", body),
        "BOM": (JSON, b"\xef\xbb\xbf" + body),
        "chunks": (JSON, iter([body[:9], body[9:]])),
    }
    for name, (kind, content) in wrappings.items():
        headers = {"Content-Type": kind}
        answer = checker.see(name, partial(environment.call, operation, content=content, headers=headers))
        assert answer.status_code != 415
        assert answer.status_code != 422 or "body" not in answer.json()["errors"]
    assert checker.errors() == []


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o not in WITH_BODY], ids=str)
@in_shares
def test_an_unasked_for_body_crashes_nothing(environment: DescribedService, operation: Operation, share: int) -> None:
    checker = Checker(environment, operation)
    bodies = (b"", b"x", b"\x00", b"null", b"[" * DEEP, b"{}")
    unasked = list(product(bodies, (JSON, FORM, MULTIPART, "text/plain")))
    for body, kind in share_of(unasked, operation, share):
        headers = {"Content-Type": kind}
        checker.see((body[:9], kind), partial(environment.call, operation, content=body, headers=headers))
    assert checker.errors() == []


NO_IDS = [
    "0", "-1", "+1", "1.5", "1e3", "true", "null", "None", "x", "%20", "%00", "1%00", "%ed%a0%80", "%ff", "%",
    "%zz", "1%2F2", "%2e%2e", str(2**63), str(2**64), "9" * 5_000, "1;1", "1'", "%0d%0a", "\u0661", "\u4e8c",
]  # fmt: skip


NAMED_BY_CALLERS = {"PUT /giftcard-brands/{brand_code}"}
"""What these name need not be there: it is made."""


@pytest.mark.parametrize(
    "operation", [o for o in OPERATIONS if o.parameters and str(o) not in NAMED_BY_CALLERS], ids=str
)
@in_shares
def test_what_cannot_be_an_id_is_not_found(environment: DescribedService, operation: Operation, share: int) -> None:
    checker = Checker(environment, operation)
    body = {"json": environment.body(operation)} if operation.body_schema is not None else {}
    for name, text in share_of(list(product(operation.parameters, NO_IDS)), operation, share):
        url = environment.url(operation, **{name: text})
        checker.see((name, text), partial(environment.call, operation, url=url, **body), expect=range(404, 406))
    assert checker.errors() == []


OF_ANY_KIND: list[Any] = [None, True, [], {}, -1, 1.5, "\x00", "\ud800", "x" * 1_000_000]
NUMBERS: list[Any] = [0, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, 1e308, "1e3", "-1", "9" * 5_000]
TEXTS = ["", " ", "a\x00b", "\udfff\ud800", "'; drop table orders; --", "%s%n%", "\r\nX: 1", "\u202e\u0000"]
STRUCTURES: list[Any] = [
    [[]], [{}], [None], ["\x00"], ["\ud800"], {"k": "\x00"}, {"\x00": 1}, {"k": "\ud800"}, {"k": [[{}]]},
]  # fmt: skip
UNSAYABLE = ("\x00", "a\x00b", "\ud800", "\udfff\ud800")


def odd_values(schema: Json) -> list[Any]:
    """Of any kind, and those that come near what the field is."""
    near = {"integer": NUMBERS, "string": TEXTS, "array": STRUCTURES, "object": STRUCTURES}
    return OF_ANY_KIND + [value for kind in sorted(kinds_of(schema)) for value in near.get(kind, ())]


def kinds_of(schema: Json) -> set[str]:
    """The types that a field may have, behind alternatives and references."""
    choices = [resolved(choice) for choice in (schema, *schema.get("anyOf", ()))]
    return {choice["type"] for choice in choices if "type" in choice}


def places(schema: Json, depth: int = 2) -> Iterator[tuple[tuple[str | int, ...], Json]]:
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


def put(body: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """The body with this value at that place; whatever leads there is made if need be."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        first = body[0] if isinstance(body, list) and body else {}
        return [put(first, tuple(rest), value)]
    inside = body if isinstance(body, dict) else {}
    return inside | {step: put(inside.get(step), tuple(rest), value)}


def fields_once() -> list[tuple[Operation, list[tuple[tuple[str | int, ...], Json]]]]:
    """Each operation with the fields that no earlier one has: those of a name and schema are read alike."""
    seen: set[str] = set()
    found = []
    for operation in WITH_BODY:
        assert operation.body_schema is not None
        new = []
        for path, schema in places(operation.body_schema):
            if (key := json.dumps([str(path[-1]).rstrip("0123456789"), schema])) not in seen:
                seen.add(key)
                new.append((path, schema))
        found += [(operation, new)] if new else []
    return found


@pytest.mark.parametrize(
    ("operation", "fields"), fields_once(), ids=lambda v: str(v) if isinstance(v, Operation) else ""
)
def test_an_odd_value_in_any_field_crashes_nothing(
    environment: DescribedService, operation: Operation, fields: list[tuple[tuple[str | int, ...], Json]]
) -> None:
    checker = Checker(environment, operation)
    for path, schema in fields:
        for value in odd_values(schema):
            body = put(environment.body(operation), path, value)
            checker.see(
                (path, value),
                partial(environment.call_with, operation, body),
                expect=REFUSED if _must_be_refused(schema, value) else MAY_BE_FINE,
            )
    assert checker.errors() == []


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
PEOPLE = b'Name,Address\nJane Doe,"12 Main St, Austin, TX 78701"\n'
ODD_TEXTS = [
    "", "0", "-1", "1e9", "abc", "%00", "%ed%a0%80", "9" * 5_000, str(2**63), "'", "\u0661", "%5C%25",
    "0001-01-01", "9999-12-31T23:59:59Z", "2026-02-30", "2026-01-01T00:00:00%2B99:99",
]  # fmt: skip


def odd_queries(operation: Operation) -> list[str]:
    queries = [*ODD_QUERIES]
    for name in operation.query:
        queries += [f"{name}={text}" for text in ODD_TEXTS]
        queries += [f"{name}=1&{name}=2", f"{name}=1&{name}=x", f"{name}[]=1", f"{name}[a]=%00"]
    return queries


def good_body(environment: DescribedService, operation: Operation) -> dict[str, Any]:
    """A body, or a file, where the operation takes one."""
    if operation.body_schema is not None:
        return {"json": environment.body(operation)}
    takes_file = "multipart/form-data" in operation.described.get("requestBody", {}).get("content", {})
    return {"files": {"file": ("people.csv", PEOPLE)}} if takes_file else {}


@over_every_operation
@in_shares
def test_an_odd_query_crashes_nothing(environment: DescribedService, operation: Operation, share: int) -> None:
    checker, queries = Checker(environment, operation), odd_queries(operation)
    if operation.method == "GET" or operation.query:
        for query in share_of(queries, operation, share):
            url = f"{environment.url(operation)}?{query}"
            checker.see(query, partial(environment.call, operation, url=url, **good_body(environment, operation)))
    else:
        # What has a body reads no query: all of them at once, with a good one as far as that gets.
        url, body = f"{environment.url(operation)}?{'&'.join(queries)}", good_body(environment, operation)
        checker.see("all", lambda: environment.call(operation, url=url, **body))
    assert checker.errors() == []


PAGED = [operation for operation in OPERATIONS if "items_per_page" in operation.query]


@pytest.mark.parametrize("operation", PAGED, ids=str)
@pytest.mark.parametrize(
    ("given", "status", "per_page"),
    [("0", 422, None), ("-1", 422, None), ("abc", 422, None), ("1.5", 422, None), ("1e9", 200, None),
     ("7.0", 200, 7), ("", 200, 25), ("%2030%20", 200, 30), ("7", 200, 7), ("1000000000", 200, None),
     ("9" * 400, 200, None)],
)  # fmt: skip
def test_every_list_reads_items_per_page_alike(
    environment: DescribedService, operation: Operation, given: str, status: int, per_page: int | None
) -> None:
    required = {p["name"] for p in operation.described["parameters"] if p.get("required") and p["in"] == "query"}
    assert not required
    answer = environment.call(operation, url=f"{environment.url(operation)}?items_per_page={given}")
    assert answer.status_code == status
    body = answer.json()
    if status == 422:
        assert list(body["errors"]) == ["items_per_page"]
    else:
        shown = body.get("meta", body)["per_page"]
        assert shown == per_page if per_page else shown in (100, 10_000)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o.method == "POST"], ids=str)
def test_an_odd_idempotency_key_is_refused_before_anything_happens(
    environment: DescribedService, operation: Operation
) -> None:
    checker, body = Checker(environment, operation), good_body(environment, operation)
    for key in (b"", b"x" * 300, b"a\tb", b"\x7f"):
        headers = {"Idempotency-Key": key}
        checker.see(key, partial(environment.call, operation, headers=headers, **body), expect=range(422, 423))
    checker.see("é", lambda: environment.call(operation, headers={"Idempotency-Key": "é".encode()}, **body))
    assert checker.errors() == []


@over_every_operation
def test_an_odd_authorization_is_401(environment: DescribedService, operation: Operation) -> None:
    checker, token = Checker(environment, operation), environment.caller.token
    odd = [
        b"", b"Bearer", b"Bearer ", b"Basic eDp5", f"Basic {token}".encode(), token.encode(), b"Bearer \xff",
        f"Bearer {token}x".encode(), f"Bearer {token} {token}".encode(), f"Bearer,{token}".encode(),
        b"Bearer " + b"x" * 20_000, f'Bearer "{token}"'.encode(), b"Bearer null", b"\x7f",
    ]  # fmt: skip
    for text in odd:
        headers = {"Authorization": text}
        checker.see(text[:30], partial(environment.call, operation, headers=headers), expect=range(401, 402))
    assert checker.errors() == []


def test_the_environment_has_one_of_every_resource(environment: DescribedService) -> None:
    """Else the calls above would end at 404 and prove little."""
    assert set(environment.ids) == {*MAKERS, BATCHES}
