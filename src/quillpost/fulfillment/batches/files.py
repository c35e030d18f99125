"""Draws the files of a batch and stores them, encrypted where they hold gift card claims."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from tempfile import TemporaryFile
from typing import IO
from uuid import UUID

import sqlalchemy as sa
import structlog

from quillpost.core.database import Tx
from quillpost.core.database.tables.fulfillment import batch_files
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import Unavailable
from quillpost.core.ports import FileMissing, FileStore
from quillpost.fulfillment.batches import queries, rules
from quillpost.fulfillment.batches.giftcards import EncryptedClaims, decrypt_claims, read_claims
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import build_statement, statement_to_json
from quillpost.fulfillment.models import ProductionContext
from quillpost.orders import designs as order_designs
from quillpost.orders.designs import DesignKey
from quillpost.orders.handwriting.models import OwnHandwriting
from quillpost.orders.handwriting.queries import read_own_handwriting
from quillpost.orders.items.models import Item
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.templates.images import file_reader
from quillpost.recipients.addresses.rules import ADDRESS_PARTS
from quillpost.rendering.files import PrintFiles
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.rendering.layout.models import DoesNotFit, ProductLayout
from quillpost.rendering.models import Copy, Design

log = structlog.get_logger(__name__)
PRINT_FILE, ENVELOPE_FILE = "print.pdf", "envelopes.pdf"
NOT_COMPOSABLE = "The piece could not be composed"
SYSTEM_ERRORS = (MemoryError, OSError, sa.exc.SQLAlchemyError, Unavailable)
"""Errors of this machine or the database: no item fails because of them."""


@dataclass(frozen=True, slots=True)
class BatchContents:
    batch: ProductionBatch
    items: dict[int, Item]
    orders: dict[int, Order]
    designs: list[DesignKey]
    own_handwriting: dict[int, OwnHandwriting]
    file_keys: dict[UUID, str]
    claims: EncryptedClaims

    @property
    def giftcard_item_ids(self) -> list[int]:
        return [item.id for item in self.items.values() if self.orders[item.order_id].gift is not None]


@dataclass(frozen=True, slots=True)
class _DrawableBatch:
    designs: Mapping[DesignKey, Design]
    copies: Sequence[Copy]


def read_batch_contents(tx: Tx, batch: ProductionBatch) -> BatchContents:
    orders = {order.id: order for order in queries.read_batch_orders(tx, batch.id)}
    items = queries.read_batch_items(tx, batch.id)
    designs = [DesignKey.for_item(item, orders[item.order_id]) for item in items.values()]
    own_handwriting = read_own_handwriting(tx, orders.items())
    pictures, claims = queries.read_file_keys(tx, designs), read_claims(tx, batch.id)
    return BatchContents(batch, items, orders, designs, own_handwriting, pictures, claims)


def draw_batch_files(production: ProductionContext, contents: BatchContents) -> dict[str, bytes]:
    """The batch's files by name; the same rows, postage mark and addresses give the same bytes."""
    batch = contents.batch
    printed = _compose(production, batch, _load_drawable(production, contents))
    manifest_rows = _manifest_rows(contents, printed)
    summary = build_statement(
        manifest_rows,
        reference=rules.batch_reference(batch.id),
        product_name=batch.piece,
        mail_class=batch.mail_class,
        mailer_id=batch.mailer_id,
        indicia=batch.indicia or (),
        created_at=batch.created_at,
    )
    files = {PRINT_FILE: printed.sheets}
    if printed.envelopes is not None:
        files[ENVELOPE_FILE] = printed.envelopes
    return files | {
        "manifest.csv": rules.build_manifest_csv(manifest_rows),
        "manifest.json": rules.build_manifest_json(manifest_rows),
        "statement.json": statement_to_json(summary),
    }


def redraw_batch_files(production: ProductionContext, batch: ProductionBatch) -> dict[str, bytes]:
    """The batch's files as they were composed, byte for byte; or `Unavailable`."""
    with production.db.system_transaction() as tx:
        contents, expected_digests = read_batch_contents(tx, batch), queries.read_file_digests(tx, batch.id)
    if batch.indicia is None or batch.qr_base is None:
        raise Unavailable(f"Batch {batch.id} has not been composed yet.")
    try:
        files = draw_batch_files(production, contents)
    except FileMissing:
        raise Unavailable(
            f"A picture of batch {batch.id} is no longer in the file store. Bring it back from a backup."
        ) from None
    queries.require_same_files(files, expected_digests)
    return files


def fail_undrawable_items(production: ProductionContext, contents: BatchContents, *, now: datetime) -> bool:
    """Fail the items that cannot be drawn, so that those of other senders go on; whether there are any."""
    drawable = _load_drawable(production, contents)
    failed_moves = _find_overlong_items(production, drawable) or _find_undrawable_orders(
        production, contents.batch, drawable
    )
    with production.db.system_transaction() as tx:
        change_item_statuses(tx, failed_moves, now=now)
    return bool(failed_moves)


def _load_drawable(production: ProductionContext, contents: BatchContents) -> _DrawableBatch:
    batch, qr_base = contents.batch, contents.batch.qr_base or ""
    # Images are read when no transaction is open; orders of one sender often share them.
    read_file = file_reader(production.storage.store, contents.file_keys)
    designs = order_designs.build_designs(
        contents.designs, contents.orders, contents.own_handwriting, read_file, indicia=batch.indicia or ()
    )
    claims = decrypt_claims(production.encryptor, batch.id, contents.claims, qr_base=qr_base)
    if without_claim := set(contents.giftcard_item_ids) - claims.keys():
        raise Unavailable(f"Item {min(without_claim)} has no claim to its gift card: it is not printed without.")
    copies = [
        order_designs.build_copy(
            item, contents.orders[item.order_id], qr_base=qr_base, opt_out=batch.opt_out, claim=claims.get(item.id)
        )
        for item in contents.items.values()
    ]
    return _DrawableBatch(designs, copies)


def _compose(production: ProductionContext, batch: ProductionBatch, drawable: _DrawableBatch) -> PrintFiles:
    title = rules.batch_reference(batch.id)
    return production.renderer.compose(drawable.designs, drawable.copies, title=title, made_at=batch.created_at)


def _find_overlong_items(production: ProductionContext, drawable: _DrawableBatch) -> list[StatusChange]:
    """Every item whose own text is too long, with the reason; recipients of lists were not laid out before."""
    moves = []
    for design, copies in _group_by_order(drawable):
        has_qr = any(copy.qr_url is not None for copy in copies)
        try:
            misfits = production.renderer.find_misfits(
                design, [copy.addressee for copy in copies], qr=has_qr, find_all=True
            )
        except SYSTEM_ERRORS:
            raise
        except Exception as error:
            # It cannot even be laid out; drawing each order by itself will find it.
            log.warning("orders.layout_failed", item=copies[0].item_id, error=repr(error))
            continue
        for index, copy in enumerate(copies):
            overlong = misfits.sender or misfits.messages.get(index) or misfits.addresses.get(index)
            if overlong:
                moves.append(StatusChange(copy.item_id, ItemStatus.FAILED, reason=overlong.message))
    return moves


def _group_by_order(drawable: _DrawableBatch) -> Iterable[tuple[Design, list[Copy]]]:
    """Each order's copies with one of its designs: images, in which they differ, do not change the fit."""
    by_order: dict[int, tuple[Design, list[Copy]]] = {}
    for copy in drawable.copies:
        key = copy.design
        assert isinstance(key, DesignKey)
        by_order.setdefault(key.order_id, (drawable.designs[key], []))[1].append(copy)
    return by_order.values()


def _find_undrawable_orders(
    production: ProductionContext, batch: ProductionBatch, drawable: _DrawableBatch
) -> list[StatusChange]:
    """Failures for the items of every order that cannot be drawn by itself."""
    failed_moves, is_sender_error = [], False
    for order_id in dict.fromkeys(key.order_id for key in drawable.designs):
        own_designs = {key: design for key, design in drawable.designs.items() if key.order_id == order_id}
        order_copies = [copy for copy in drawable.copies if copy.design in own_designs]
        try:
            _compose(production, batch, _DrawableBatch(own_designs, order_copies))
        except SYSTEM_ERRORS:
            raise
        except Exception as error:
            log.warning("orders.rendering_failed", order=order_id, error=repr(error))
            failed_moves += [
                StatusChange(copy.item_id, ItemStatus.FAILED, reason=NOT_COMPOSABLE) for copy in order_copies
            ]
            is_sender_error = is_sender_error or isinstance(error, DoesNotFit | UnprintableArt)
    if len(failed_moves) == len(drawable.copies) and not is_sender_error:
        # Nothing can be drawn: our own fault, such as a missing font. The job is tried again.
        return []
    return failed_moves


def _manifest_rows(contents: BatchContents, printed: PrintFiles) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    placed_items = zip(contents.items.items(), printed.page_ranges, strict=True)
    for number, ((position, item), (first_page, last_page)) in enumerate(placed_items, start=1):
        rows.append(
            {
                "position": position,
                "item_id": item.id,
                "order_id": item.order_id,
                "first_page": first_page,
                "last_page": last_page,
                "envelope_page": None if printed.envelopes is None else number,
            }
            | {name: getattr(item, name) for name in rules.MANIFEST_COLUMNS[6:]}
            | dict(zip(ADDRESS_PARTS, order_designs.build_addressee(item).address_block, strict=True))
        )
    return rows


CHUNK_BYTES = 4_000_000
LENGTH_PREFIX = struct.Struct(">I")
MAX_ENCRYPTED_BYTES = CHUNK_BYTES + 1_000  # with key id, nonce and tag
MAX_HEADER_BYTES = 2 + 255  # names the key of an encrypted file


def batch_file_key(batch_id: int, name: str) -> str:
    return f"batches/{batch_id}/{name}"


def find_secret_names(names: Iterable[str], layout: ProductLayout) -> frozenset[str]:
    """Of a product with a gift card the sheets are secret: no other file holds the claim."""
    has_card = any(side.card for side in layout.all_sides)
    return frozenset(names) & {PRINT_FILE} if has_card else frozenset()


def list_all_secret_files(tx: Tx) -> list[tuple[int, str]]:
    """Every encrypted file in the store: its batch, and its name."""
    query = sa.select(batch_files.c.batch_id, batch_files.c.name).where(batch_files.c.is_secret)
    return [(row.batch_id, row.name) for row in tx.execute(query.order_by(*query.selected_columns))]


@dataclass(frozen=True, slots=True)
class BatchFileStorage:
    store: FileStore
    encryptor: Encryptor

    def put_files(self, batch_id: int, files: Mapping[str, bytes], *, secret_names: Iterable[str]) -> None:
        for name, data in files.items():
            key = batch_file_key(batch_id, name)
            if name in secret_names:
                chunks = (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))
                self._put_encrypted(key, chunks)
            else:
                self.store.put(key, data)

    def read_file(self, batch_id: int, name: str, *, is_secret: bool) -> bytes:
        """The file as it was composed; or `FileMissing`, or `DecryptionFailed`."""
        key = batch_file_key(batch_id, name)
        if not is_secret:
            return self.store.get(key)
        decrypted = BytesIO()
        with self.store.open(key) as file:
            decrypted.writelines(_decrypt_chunks(self.encryptor, key, file))
        return decrypted.getvalue()

    def read_header(self, batch_id: int, name: str) -> bytes:
        """The start of an encrypted file, which names its key; or `FileMissing`."""
        with self.store.open(batch_file_key(batch_id, name)) as file:
            return file.read(LENGTH_PREFIX.size + MAX_HEADER_BYTES)[LENGTH_PREFIX.size :]

    def reencrypt(self, batch_id: int, name: str) -> None:
        """Encrypt it again with the current key."""
        key = batch_file_key(batch_id, name)
        with self.store.open(key) as file:
            self._put_encrypted(key, _decrypt_chunks(self.encryptor, key, file))

    def delete_all(self, batch_id: int) -> None:
        for key in self.store.keys(batch_file_key(batch_id, "")):
            self.store.delete(key)

    def _put_encrypted(self, key: str, chunks: Iterable[bytes]) -> None:
        # What waits on this machine's disk is already encrypted.
        with TemporaryFile() as temporary_file:
            _write_encrypted(self.encryptor, key, chunks, temporary_file)
            temporary_file.seek(0)
            self.store.put_file(key, temporary_file)


def _write_encrypted(encryptor: Encryptor, key: str, chunks: Iterable[bytes], out: IO[bytes]) -> None:
    """Each chunk with its length before it, and an empty one at the end. A chunk is bound to its position in the file,
    so that none can be left out, moved or added."""
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
    """The next encrypted chunk; None at the end of the file, or where it is damaged."""
    prefix = file.read(LENGTH_PREFIX.size)
    if len(prefix) < LENGTH_PREFIX.size:
        return None
    [length] = LENGTH_PREFIX.unpack(prefix)
    return file.read(length) if length <= MAX_ENCRYPTED_BYTES else None


def _chunk_context(key: str, number: int) -> str:
    return f"{key}:{number}"
