"""A batch's files in the file store. Those with secrets are sealed there, and opened here alone.

Secret is what holds the claims of gift cards: whoever reads it may claim them. It is sealed in pieces, so
that a print file of hundreds of megabytes is in memory once, as it was composed, and not three times.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.print_room import batch_files
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.ports import FileStore
from quillpost.fulfillment.drawing import PRINT_FILE
from quillpost.rendering.layout.products import Piece

PIECE_BYTES = 4_000_000
LENGTH = struct.Struct(">I")
LONGEST_SEALED = PIECE_BYTES + 1_000
"""With the name of its key, a nonce and a tag."""
LONGEST_HEADER = 2 + 255
"""Of sealed bytes: what says by what key they were sealed."""


def place_of(batch_id: int, name: str) -> str:
    """Where a file of the batch lies in the store."""
    return f"batches/{batch_id}/{name}"


def secret_among(names: Iterable[str], piece: Piece) -> frozenset[str]:
    """Of a piece that brings a gift card the sheets are secret: the claim is on no other file."""
    has_card = any(side.card for side in piece.every_side())
    return frozenset(names) & {PRINT_FILE} if has_card else frozenset()


def all_secret(tx: Tx) -> list[tuple[int, str]]:
    """Every file that lies sealed in the store: its batch, and its name."""
    wanted = sa.select(batch_files.c.batch_id, batch_files.c.name).where(batch_files.c.is_secret)
    return [(row.batch_id, row.name) for row in tx.execute(wanted.order_by(*wanted.selected_columns))]


@dataclass(frozen=True, slots=True)
class BatchStore:
    store: FileStore
    sealer: Sealer

    def put(self, batch_id: int, files: Mapping[str, bytes], *, secret: Iterable[str]) -> None:
        """All of them, in the place of those that were there."""
        for name, data in files.items():
            place = place_of(batch_id, name)
            if name in secret:
                self._put_sealed(place, BytesIO(data))
            else:
                self.store.put(place, data)

    def get(self, batch_id: int, name: str, *, is_secret: bool) -> bytes:
        """The file as it was composed; or `FileMissing`, or `SealBroken`."""
        place = place_of(batch_id, name)
        if not is_secret:
            return self.store.get(place)
        plain = BytesIO()
        with self.store.open(place) as file:
            plain.writelines(_opened(self.sealer, place, file))
        return plain.getvalue()

    def header(self, batch_id: int, name: str) -> bytes:
        """How a sealed file begins, which says by what key it was sealed; or `FileMissing`."""
        with self.store.open(place_of(batch_id, name)) as file:
            return file.read(LENGTH.size + LONGEST_HEADER)[LENGTH.size :]

    def reseal(self, batch_id: int, name: str) -> None:
        """Seal it anew, with the present key: the same file."""
        place = place_of(batch_id, name)
        with TemporaryFile() as draft:
            with self.store.open(place) as file:
                _write_sealed(self.sealer, place, _opened(self.sealer, place, file), draft)
            draft.seek(0)
            self.store.put_file(place, draft)

    def remove_all(self, batch_id: int) -> None:
        for key in self.store.keys(place_of(batch_id, "")):
            self.store.delete(key)

    def _put_sealed(self, place: str, plain: IO[bytes]) -> None:
        # What waits on this machine's disk until all of it is there is sealed already.
        with TemporaryFile() as draft:
            _write_sealed(self.sealer, place, iter(lambda: plain.read(PIECE_BYTES), b""), draft)
            draft.seek(0)
            self.store.put_file(place, draft)


def _write_sealed(sealer: Sealer, place: str, pieces: Iterable[bytes], out: IO[bytes]) -> None:
    """Each piece with its length before it, and an empty one that says that it is the last.

    A piece is bound to its place in the file, so that none can be left out, put elsewhere or added.
    """
    number = 0
    for number, piece in enumerate(pieces, start=1):
        _write(out, sealer.seal(piece, context=_context(place, number)))
    _write(out, sealer.seal(b"", context=_context(place, number + 1)))


def _write(out: IO[bytes], sealed: bytes) -> None:
    out.write(LENGTH.pack(len(sealed)))
    out.write(sealed)


def _opened(sealer: Sealer, place: str, file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while (sealed := _next_sealed(file)) is not None:
        number += 1
        piece = sealer.open(sealed, context=_context(place, number))
        if not piece:
            return
        yield piece
    raise SealBroken(f"{place} was cut short.")


def _next_sealed(file: IO[bytes]) -> bytes | None:
    """The next piece as it is written; None where the file ends, or is none of ours."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    [length] = LENGTH.unpack(head)
    return file.read(length) if length <= LONGEST_SEALED else None


def _context(place: str, number: int) -> str:
    return f"{place}:{number}"
