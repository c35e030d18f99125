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

from quillpost.recipients.imports.rows import RowPlan, RowReader
from quillpost.recipients.rules import Person

FRAME_HEADER = struct.Struct("<Q")
RESPONSE_HEADER = struct.Struct("<QQQQ")
"""People, rejected rows, and the bytes of each."""

MAX_MEMORY_BYTES = 1_500_000_000
"""Bytes of address space: a chunk of rows takes a hundredth of it."""

NULL = "\\N"
_NULL_PLACEHOLDER = "\x1f"
_QUOTED_NULL_PLACEHOLDER = f'"{_NULL_PLACEHOLDER}"'
_COPY_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ARRAY_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def main() -> None:
    """Load all that it takes, then divide: those who work share what was loaded."""
    for resource_kind, limit in ((resource.RLIMIT_AS, MAX_MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(resource_kind, (limit, limit))
    sockets = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    warm_up()
    gc.collect()
    gc.freeze()
    workers = [_fork_worker(worker_socket, sockets) for worker_socket in sockets]
    for worker_socket in sockets:
        worker_socket.close()
    for worker in workers:
        os.waitpid(worker, 0)


def warm_up() -> None:
    """The tables of addresses are read at the first question."""
    for line in ("12 N Main St Apt 4, Austin, TX 78701", "The Old Mill, 3 1/2 River Road, Salem, MA 01970"):
        RowReader(RowPlan([(0, "address")], 1)).read_person([line])


def _fork_worker(own_socket: socket.socket, sockets: Sequence[socket.socket]) -> int:
    worker_pid = os.fork()
    if worker_pid:
        return worker_pid
    for worker_socket in sockets:
        if worker_socket is not own_socket:
            worker_socket.close()
    try:
        with suppress(OSError):  # nobody is left to ask
            _serve(own_socket)
    finally:
        os._exit(0)


def _serve(worker_socket: socket.socket) -> None:
    source = worker_socket.makefile("rb")
    plan_values = _read_frame(source)
    if plan_values is None:
        return
    reader = RowReader(RowPlan(*plan_values))
    gc.disable()  # rows make no circles: it is enough to look for some after each chunk
    while (chunk := _read_frame(source)) is not None:
        people, rejects = examine_rows(reader, *chunk)
        accepted_data, rejected_data = "".join(people).encode(), "".join(rejects).encode()
        worker_socket.sendall(
            RESPONSE_HEADER.pack(len(people), len(rejects), len(accepted_data), len(rejected_data))
            + accepted_data
            + rejected_data
        )
        gc.collect()


def examine_rows(
    reader: RowReader,
    import_id: int,
    first_row: int,
    lines: Sequence[int],
    rows: Sequence[Sequence[str]],
    errors: dict[int, str],
) -> tuple[list[str], list[str]]:
    """Lines for the staging table, and for the table of rejected rows."""
    people, rejects = [], []
    for index, cells in enumerate(rows):
        row_number, line = first_row + index, lines[index]
        person_or_reason = errors[index] if index in errors else reader.read_person(cells)
        if isinstance(person_or_reason, str):
            rejects.append(f"{import_id}\t{row_number}\t{line}\t{_escape_copy_value(person_or_reason)}\n")
        else:
            people.append(
                _format_copy_line(row_number, line, person_or_reason, reader.get_distinguishing_key(person_or_reason))
            )
    return people, rejects


def _format_copy_line(row_number: int, line: int, person: Person, distinguishing_key: str) -> str:
    """In the order of the staging table's columns."""
    values = (
        str(row_number), str(line),
        person.name, person.company, person.address, person.address2, person.city, person.province,
        person.postal_code, person.country, person.email, person.phone,
        str(person.dob) if person.dob else None, str(person.anniversary) if person.anniversary else None,
        *person.custom, person.surname, person.address_key, _format_array(person.standard),
        person.deliverability, _format_array(person.reasons), distinguishing_key,
    )  # fmt: skip
    # Nearly every line is plain: one look at the whole tells, and one pass writes what is null.
    line_text = "\t".join([_NULL_PLACEHOLDER if value is None else value for value in values])
    is_plain = line_text.count("\t") == len(values) - 1 and line_text.count(_NULL_PLACEHOLDER) == values.count(None)
    if is_plain and not ("\\" in line_text or "\n" in line_text or "\r" in line_text):
        return line_text.replace(_NULL_PLACEHOLDER, NULL) + "\n"
    return "\t".join(map(_escape_copy_value, values)) + "\n"


def _escape_copy_value(text: str | None) -> str:
    """A value as COPY reads it."""
    return NULL if text is None else text.translate(_COPY_ESCAPES)


def _format_array(texts: Sequence[str | None] | None) -> str | None:
    """As PostgreSQL writes an array."""
    if texts is None:
        return None
    if not texts:
        return "{}"
    inner = '","'.join([_NULL_PLACEHOLDER if text is None else text for text in texts])
    if "\\" not in inner and inner.count('"') == 2 * len(texts) - 2:
        return f'{{"{inner}"}}'.replace(_QUOTED_NULL_PLACEHOLDER, "NULL")
    quoted = ["NULL" if text is None else f'"{text.translate(_ARRAY_ESCAPES)}"' for text in texts]
    return f"{{{','.join(quoted)}}}"


def _read_frame(source: IO[bytes]) -> Any:
    header = source.read(FRAME_HEADER.size)
    if len(header) < FRAME_HEADER.size:
        return None
    (size,) = FRAME_HEADER.unpack(header)
    return marshal.loads(source.read(size))  # noqa: S302 (our own parent wrote it)


if __name__ == "__main__":
    main()
