"""Processes that examine rows: chunks of them come in, and what the database copies goes out.

They are started by `crew.py`, import no more than they need, and end when nobody is left to ask them.
"""

import gc
import marshal
import os
import resource
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from quillpost.recipients.imports.rows import Plan, RowReader
from quillpost.recipients.rules import Person

SIZE = struct.Struct("<Q")
ANSWER = struct.Struct("<QQQQ")
"""People, rejected rows, and the bytes of each."""

MEMORY = 1_500_000_000
"""Bytes of address space: a chunk of rows takes a hundredth of it."""

NULL = "\\N"
_NOTHING = "\x1f"
_QUOTED_NOTHING = f'"{_NOTHING}"'
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_IN_ARRAY = str.maketrans({"\\": "\\\\", '"': '\\"'})


def main() -> None:
    """Load all that it takes, then divide: those who work share what was loaded."""
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (most, most))
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
        RowReader(Plan([(0, "address")], 1)).person([line])


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
    reader = RowReader(Plan(*order))
    gc.disable()  # rows make no circles: it is enough to look for some after each chunk
    while (chunk := _frame(source)) is not None:
        people, rejects = examined(reader, *chunk)
        good, bad = "".join(people).encode(), "".join(rejects).encode()
        door.sendall(ANSWER.pack(len(people), len(rejects), len(good), len(bad)) + good + bad)
        gc.collect()


def examined(
    reader: RowReader,
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
            people.append(_line(place, line, found, reader.told_apart(found)))
    return people, rejects


def _line(place: int, line: int, person: Person, apart: str) -> str:
    """In the order of the staging table's columns."""
    values = (
        str(place), str(line),
        person.name, person.company, person.address, person.address2, person.city, person.province,
        person.postal_code, person.country, person.email, person.phone,
        str(person.dob) if person.dob else None, str(person.anniversary) if person.anniversary else None,
        *person.custom, person.surname, person.address_key, _array(person.standard),
        person.deliverability, _array(person.reasons), apart,
    )  # fmt: skip
    # Nearly every line is plain: one look at the whole tells, and one pass writes what is null.
    whole = "\t".join([_NOTHING if value is None else value for value in values])
    is_plain = whole.count("\t") == len(values) - 1 and whole.count(_NOTHING) == values.count(None)
    if is_plain and not ("\\" in whole or "\n" in whole or "\r" in whole):
        return whole.replace(_NOTHING, NULL) + "\n"
    return "\t".join(map(_copied, values)) + "\n"


def _copied(text: str | None) -> str:
    """A value as COPY reads it."""
    return NULL if text is None else text.translate(_ESCAPES)


def _array(texts: Sequence[str | None] | None) -> str | None:
    """As PostgreSQL writes an array."""
    if texts is None:
        return None
    if not texts:
        return "{}"
    inner = '","'.join([_NOTHING if text is None else text for text in texts])
    if "\\" not in inner and inner.count('"') == 2 * len(texts) - 2:
        return f'{{"{inner}"}}'.replace(_QUOTED_NOTHING, "NULL")
    quoted = ["NULL" if text is None else f'"{text.translate(_IN_ARRAY)}"' for text in texts]
    return f"{{{','.join(quoted)}}}"


def _frame(source: IO[bytes]) -> Any:
    head = source.read(SIZE.size)
    if len(head) < SIZE.size:
        return None
    (size,) = SIZE.unpack(head)
    return marshal.loads(source.read(size))  # noqa: S302 (our own parent wrote it)


if __name__ == "__main__":
    main()
