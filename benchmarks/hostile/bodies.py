"""Bodies that hold far more than anyone needs, and for each an honest one of about its size."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from PIL import Image

from benchmarks.compose.recipients import recipient

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
BOUNDARY = "part"
PARTS = f"multipart/form-data; boundary={BOUNDARY}"

ESTIMATE = "/api/v2/estimate/postcard"
MANY = "/api/v2/recipients-utils/create-multiple"
IMAGES = "/api/v2/image-templates"
MOST = 5_000
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """One call."""

    path: str
    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """A hostile call, and an honest one of about the same size to the same door where that has any."""

    name: str
    hostile: Sent
    honest: Sent


def hostile_bodies(hook: str, list_id: int) -> Iterator[Case]:
    """Some are past a bound, others just within; `hook` is a list's own address, `list_id` the list."""

    def send(name: str, body: bytes) -> Case:
        return Case(name, Sent(ESTIMATE, JSON, body), Sent(ESTIMATE, JSON, honest_send(len(body))))

    yield send("1,000,000 empty recipients", b'{"recipients":[' + b"{}," * 999_999 + b"{}]}")
    yield send("9,000,000 numbers", b"[" + b"1," * 8_999_999 + b"1]")
    yield send("one key of 10 MB", b'{"' + b"k" * (10 * MEGABYTE) + b'":1}')
    yield send("200,000 unknown keys", _object(b'"k%d":%d' % (n, n) for n in range(200_000)))
    yield send("1,000,000 levels", b"[" * MEGABYTE + b"]" * MEGABYTE)
    yield send("190,000 times the same key", _object(b'"message":""' for _ in range(190_000)))
    yield send("20 MB of spaces", b" " * (20 * MEGABYTE - 100))
    yield send("20 MB of escapes", b'{"message":"' + b"\\u00e9" * 3_300_000 + b'"}')
    yield send("20 MB of emoji", ('{"message":"' + "\U0001f600" * 4_900_000 + '"}').encode())
    yield send("a number of 19 MB", b'{"preview_recipient":1.' + b"3" * (19 * MEGABYTE) + b"}")
    yield send("99,000 nodes nobody asked for", b'{"x":[' + b"{}," * 98_990 + b"{}]}")
    wide = _object(b'"k%d":1' % n for n in range(190_000))
    yield send("metadata of 190,000 keys", b'{"metadata":' + wide + b"}")
    texts = b",".join(b'"' + b"\\u00e9" * 160_000 + b'"' for _ in range(20))
    yield send("20 texts of 960 kB of escapes", b'{"recipients":[' + texts + b"]}")
    emoji = ",".join('"' + "\U0001f600" * 245_000 + '"' for _ in range(20)).encode()
    yield send("20 texts of 980 kB of emoji", b'{"recipients":[' + emoji + b"]}")
    wide = b",".join(_object(b'"k%d":1' % n for n in range(9_900)) for _ in range(20))
    yield send("20 recipients of 9,900 keys", b'{"recipients":[' + wide + b"]}")
    yield send("20 MB of spaces, 15,000 in a row", b"[" + (b"1," + b" " * 15_000) * 1_300 + b"1]")
    yield send("5,000 recipients of wrong types", _people(lambda n: dict.fromkeys(_FIELDS, n)))
    yield send("5,000 recipients of wrong addresses", _people(lambda n: {**_person(n), "postal_code": "1"}))
    yield send("5,000 recipients with 1,000 unknown keys", _people(lambda n: {f"k{n % 1_000}": "x"}))
    wrong = _people(lambda n: dict.fromkeys(_FIELDS, n))
    right = _people(lambda n: {**_padded(n, len(wrong) // MOST), "mailing_list_id": list_id})
    yield Case("create-multiple: 5,000 wrong rows", Sent(MANY, JSON, wrong), Sent(MANY, JSON, right))
    yield _list_webhook_case(hook, "hook: 1,000,000 numbers", JSON, b"[" + b"1," * 999_999 + b"1]")
    rows = [{f"k{n % 25 * 39 + m}": "x" for m in range(39)} for n in range(MOST)]
    yield _list_webhook_case(hook, "hook: 5,000 rows of unknown keys", JSON, json.dumps(rows).encode())
    pairs = b"&".join(b"contacts[%d][k%d]=%%41" % (n // 25, n % 25) for n in range(99_000))
    yield _list_webhook_case(hook, "hook: a form of 99,000 fields", FORM, pairs)
    form = b"&".join(b"k%d=%%41" % n for n in range(MEGABYTE))
    yield Case("a form of 1,000,000 fields", Sent(ESTIMATE, FORM, form), Sent(ESTIMATE, JSON, honest_send(len(form))))
    parts = _parts((f'name="k{n}"', b"x") for n in range(20_000))
    fields = [('name="type"', b"postcard"), ('name="name"', b"Front")]
    picture = _parts([*fields, ('name="image"; filename="front.jpg"', _picture())])
    yield Case("20,000 parts of a form", Sent(IMAGES, PARTS, parts), Sent(IMAGES, PARTS, picture))


@cache
def honest_send(size: int) -> bytes:
    """To 5,000 people, or fewer where they do not fit; what is missing is in fields of theirs."""
    size = min(size, 19 * MEGABYTE)
    people = max(1, min(MOST, size // 150))
    rows = [_padded(n, size // people) for n in range(people)]
    return json.dumps({"recipients": rows, "message": "Hello %FIRST_NAME%!"}).encode()


def _list_webhook_case(hook: str, name: str, kind: str, body: bytes) -> Case:
    people = max(1, min(MOST, len(body) // 150))
    rows = [_padded(n, len(body) // people) for n in range(people)]
    return Case(name, Sent(hook, kind, body), Sent(hook, JSON, json.dumps(rows).encode()))


_FIELDS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    "dob", "anniversary", *(f"custom{n}" for n in range(1, 11)),
)  # fmt: skip


def _person(number: int) -> dict[str, str]:
    one = recipient(number)
    return {
        "name": one.name,
        "address": f"{number + 1} Main St",
        "city": one.city,
        "province": one.state,
        "postal_code": one.postal_code,
    }


def _padded(number: int, size: int) -> dict[str, str]:
    """A person of about so many bytes."""
    person = _person(number)
    missing = max(0, size - len(json.dumps(person)))
    room = min(250, missing // 10)
    custom = {f"custom{n}": "x" * room for n in range(1, 11)} if room > 20 else {}
    return person | custom | _rest(missing - 10 * room)


def _rest(size: int) -> dict[str, str]:
    """What a field of ours does not take: a note of the sender's own."""
    return {"note": "x" * size} if size > 300 else {}


def _people(one: Callable[[int], object]) -> bytes:
    return json.dumps({"recipients": [one(n) for n in range(MOST)], "message": "Hello"}).encode()


def _object(pairs: Iterator[bytes]) -> bytes:
    return b"{" + b",".join(pairs) + b"}"


def _parts(parts: Iterator[tuple[str, bytes]] | list[tuple[str, bytes]]) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode()
    body = b"".join(head + how.encode() + b"\r\n\r\n" + held + b"\r\n" for how, held in parts)
    return body + f"--{BOUNDARY}--\r\n".encode()


def _picture() -> bytes:
    """A photo of about the size of twenty thousand parts."""
    file = io.BytesIO()
    Image.effect_noise((1_900, 1_300), 60).convert("RGB").save(file, "JPEG", quality=85)
    return file.getvalue()
