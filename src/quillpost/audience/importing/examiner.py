"""Processes that examine rows: chunks of them come in, and what the database copies goes out.

They are started by `crew.py`, import no more than they need, and end when nobody is left to ask them.
"""

import gc
import marshal
import os
import re
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from quillpost.audience.importing.people import Plan, Reader
from quillpost.audience.rules import Person

SIZE = struct.Struct("<Q")
ANSWER = struct.Struct("<QQQQ")
"""People, rejected rows, and the bytes of each."""

NULL = "\\N"
_SPECIAL = re.compile(r"[\\\t\n\r]").search
_NOTHING = "\x1f"
_QUOTED_NOTHING = f'"{_NOTHING}"'
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_IN_ARRAY = str.maketrans({"\\": "\\\\", '"': '\\"'})
_NO_CUSTOM = (None,) * 10
_NO_CUSTOM_COPIED = "\t".join([NULL] * 10)


def main() -> None:
    """Load all that it takes, then divide: those who work share what was loaded."""
    doors = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    warm_up()
    gc.collect()
    gc.freeze()
    workers = [_divided(door, doors) for door in doors]
    for door in doors:
        door.close()
    for worker in workers:
        os.waitpid(worker, 0)


def warm_up() -> None:
    """The tables of addresses are read at the first question."""
    for line in ("12 N Main St Apt 4, Austin, TX 78701", "The Old Mill, 3 1/2 River Road, Salem, MA 01970"):
        Reader(Plan([(0, "address")], 1)).person([line])


def _divided(mine: socket.socket, doors: Sequence[socket.socket]) -> int:
    worker = os.fork()
    if worker:
        return worker
    for door in doors:
        if door is not mine:
            door.close()
    try:
        with suppress(OSError):  # nobody is left to ask
            _serve(mine)
    finally:
        os._exit(0)


def _serve(door: socket.socket) -> None:
    source = door.makefile("rb")
    order = _frame(source)
    if order is None:
        return
    reader = Reader(Plan(*order))
    while (chunk := _frame(source)) is not None:
        people, rejects = examined(reader, *chunk)
        good, bad = "".join(people).encode(), "".join(rejects).encode()
        door.sendall(ANSWER.pack(len(people), len(rejects), len(good), len(bad)) + good + bad)


def examined(
    reader: Reader,
    import_id: int,
    first: int,
    lines: Sequence[int],
    rows: Sequence[Sequence[str]],
    faults: dict[int, str],
) -> tuple[list[str], list[str]]:
    """Lines for the staging table, and for the table of rejected rows."""
    people, rejects = [], []
    for offset, cells in enumerate(rows):
        place, line = first + offset, lines[offset]
        found = faults[offset] if offset in faults else reader.person(cells)
        if isinstance(found, str):
            rejects.append(f"{import_id}\t{place}\t{line}\t{_copied(found)}\n")
        else:
            apart = _copied(reader.told_apart(found))
            people.append(f"{place}\t{line}\t{_person(found)}\t{apart}\n")
    return people, rejects


def _person(person: Person) -> str:
    """In the order of the staging table's columns."""
    texts = (
        person.name, person.company, person.address, person.address2, person.city, person.province,
        person.postal_code, person.country, person.email, person.phone,
    )  # fmt: skip
    told = "\t".join([_copied(text) for text in texts])
    days = f"{person.dob or NULL}\t{person.anniversary or NULL}"
    custom = (
        _NO_CUSTOM_COPIED
        if person.custom == _NO_CUSTOM
        else "\t".join([_copied(text) for text in person.custom])
    )
    found = (
        _copied(person.surname), _copied(person.address_key), _array(person.standard),
        person.deliverability, _array(person.reasons),
    )  # fmt: skip
    return f"{told}\t{days}\t{custom}\t" + "\t".join(found)


def _copied(text: str | None) -> str:
    """A value as COPY reads it."""
    if text is None:
        return NULL
    return text.translate(_ESCAPES) if _SPECIAL(text) else text


def _array(texts: Sequence[str | None] | None) -> str:
    if texts is None:
        return NULL
    if not texts:
        return "{}"
    inner = '","'.join([_NOTHING if text is None else text for text in texts])
    if not _SPECIAL(inner) and inner.count('"') == 2 * len(texts) - 2:
        return f'{{"{inner}"}}'.replace(_QUOTED_NOTHING, "NULL")
    quoted = ["NULL" if text is None else f'"{text.translate(_IN_ARRAY)}"' for text in texts]
    return f"{{{','.join(quoted)}}}".translate(_ESCAPES)


def _frame(source: IO[bytes]) -> Any:
    head = source.read(SIZE.size)
    if len(head) < SIZE.size:
        return None
    (size,) = SIZE.unpack(head)
    return marshal.loads(source.read(size))  # noqa: S302 (our own parent wrote it)


if __name__ == "__main__":
    main()
