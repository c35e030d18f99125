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
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.ports import FileStore
from quillpost.fulfillment.batch_files import PRINT_FILE
from quillpost.rendering.layout.products import ProductLayout

CHUNK_BYTES = 4_000_000
LENGTH_PREFIX = struct.Struct(">I")
MAX_ENCRYPTED_BYTES = CHUNK_BYTES + 1_000
"""With the name of its key, a nonce and a tag."""
MAX_HEADER_BYTES = 2 + 255
"""Of sealed bytes: what says by what key they were sealed."""


def batch_file_key(batch_id: int, name: str) -> str:
    """Where a file of the batch lies in the store."""
    return f"batches/{batch_id}/{name}"


def find_secret_names(names: Iterable[str], layout: ProductLayout) -> frozenset[str]:
    """Of a piece that brings a gift card the sheets are secret: the claim is on no other file."""
    has_card = any(side.card for side in layout.all_sides())
    return frozenset(names) & {PRINT_FILE} if has_card else frozenset()


def list_all_secret_files(tx: Tx) -> list[tuple[int, str]]:
    """Every file that lies sealed in the store: its batch, and its name."""
    query = sa.select(batch_files.c.batch_id, batch_files.c.name).where(batch_files.c.is_secret)
    return [(row.batch_id, row.name) for row in tx.execute(query.order_by(*query.selected_columns))]


@dataclass(frozen=True, slots=True)
class BatchFileStorage:
    store: FileStore
    encryptor: Encryptor

    def put_files(self, batch_id: int, files: Mapping[str, bytes], *, secret_names: Iterable[str]) -> None:
        """All of them, in the place of those that were there."""
        for name, data in files.items():
            key = batch_file_key(batch_id, name)
            if name in secret_names:
                self._put_encrypted(key, BytesIO(data))
            else:
                self.store.put(key, data)

    def read_file(self, batch_id: int, name: str, *, is_secret: bool) -> bytes:
        """The file as it was composed; or `FileMissing`, or `SealBroken`."""
        key = batch_file_key(batch_id, name)
        if not is_secret:
            return self.store.get(key)
        decrypted = BytesIO()
        with self.store.open(key) as file:
            decrypted.writelines(_decrypt_chunks(self.encryptor, key, file))
        return decrypted.getvalue()

    def read_header(self, batch_id: int, name: str) -> bytes:
        """How a sealed file begins, which says by what key it was sealed; or `FileMissing`."""
        with self.store.open(batch_file_key(batch_id, name)) as file:
            return file.read(LENGTH_PREFIX.size + MAX_HEADER_BYTES)[LENGTH_PREFIX.size :]

    def reencrypt(self, batch_id: int, name: str) -> None:
        """Seal it anew, with the present key: the same file."""
        key = batch_file_key(batch_id, name)
        with TemporaryFile() as temporary_file:
            with self.store.open(key) as file:
                _write_encrypted(self.encryptor, key, _decrypt_chunks(self.encryptor, key, file), temporary_file)
            temporary_file.seek(0)
            self.store.put_file(key, temporary_file)

    def delete_all(self, batch_id: int) -> None:
        for key in self.store.keys(batch_file_key(batch_id, "")):
            self.store.delete(key)

    def _put_encrypted(self, key: str, plain: IO[bytes]) -> None:
        # What waits on this machine's disk until all of it is there is sealed already.
        with TemporaryFile() as temporary_file:
            _write_encrypted(self.encryptor, key, iter(lambda: plain.read(CHUNK_BYTES), b""), temporary_file)
            temporary_file.seek(0)
            self.store.put_file(key, temporary_file)


def _write_encrypted(encryptor: Encryptor, key: str, chunks: Iterable[bytes], out: IO[bytes]) -> None:
    """Each piece with its length before it, and an empty one that says that it is the last.

    A piece is bound to its place in the file, so that none can be left out, put elsewhere or added.
    """
    number = 0
    for number, chunk in enumerate(chunks, start=1):
        _write_chunk(out, encryptor.encrypt(chunk, context=_chunk_context(key, number)))
    _write_chunk(out, encryptor.encrypt(b"", context=_chunk_context(key, number + 1)))


def _write_chunk(out: IO[bytes], encrypted: bytes) -> None:
    out.write(LENGTH_PREFIX.pack(len(encrypted)))
    out.write(encrypted)


def _decrypt_chunks(encryptor: Encryptor, key: str, file: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while (encrypted := _read_chunk(file)) is not None:
        number += 1
        chunk = encryptor.decrypt(encrypted, context=_chunk_context(key, number))
        if not chunk:
            return
        yield chunk
    raise DecryptionFailed(f"{key} was cut short.")


def _read_chunk(file: IO[bytes]) -> bytes | None:
    """The next piece as it is written; None where the file ends, or is none of ours."""
    prefix = file.read(LENGTH_PREFIX.size)
    if len(prefix) < LENGTH_PREFIX.size:
        return None
    [length] = LENGTH_PREFIX.unpack(prefix)
    return file.read(length) if length <= MAX_ENCRYPTED_BYTES else None


def _chunk_context(key: str, number: int) -> str:
    return f"{key}:{number}"
