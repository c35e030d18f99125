"""From a batch's rows to its files, and what is done about pieces that cannot be drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
import structlog

from quillpost.core.database import Tx
from quillpost.core.errors import Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment import queries, rules
from quillpost.fulfillment.giftcards import Claims, opened, read_claims
from quillpost.fulfillment.models import Press
from quillpost.fulfillment.tickets import statement, statement_json
from quillpost.orders import designs as look
from quillpost.orders.designs import DesignKey
from quillpost.orders.models import Item, Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items
from quillpost.orders.templates.images import kept_files
from quillpost.recipients.addresses.service import PARTS
from quillpost.rendering.images.limits import BadArt
from quillpost.rendering.layout.paragraphs import DoesNotFit
from quillpost.rendering.models import Copy, Design
from quillpost.rendering.renderer import Printed

log = structlog.get_logger(__name__)

PRINT_FILE, ENVELOPE_FILE = "print.pdf", "envelopes.pdf"
NOT_DRAWABLE = "The piece could not be composed"

OURS = (MemoryError, OSError, sa.exc.SQLAlchemyError, Unavailable)
"""Trouble of this machine or of the database, whichever order it meets: nobody's pieces fail for it."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is printed in one batch, by position."""

    batch: queries.Batch
    items: dict[int, Item]
    orders: dict[int, Order]
    designs: list[DesignKey]
    pictures: dict[UUID, str]
    claims: Claims

    @property
    def gifts(self) -> list[int]:
        """The pieces that bring a card."""
        return [item.id for item in self.items.values() if self.orders[item.order_id].gift is not None]


@dataclass(frozen=True, slots=True)
class _Drawable:
    designs: Mapping[DesignKey, Design]
    copies: Sequence[Copy]


def read_contents(tx: Tx, batch: queries.Batch) -> Contents:
    orders = {order.id: order for order in queries.batch_orders(tx, batch.id)}
    items = queries.batch_items(tx, batch.id)
    designs = [DesignKey.of(item, orders[item.order_id]) for item in items.values()]
    pictures, claims = queries.file_keys(tx, designs), read_claims(tx, batch.id)
    return Contents(batch, items, orders, designs, pictures, claims)


def draw(
    press: Press, contents: Contents, *, indicia: Sequence[str], qr_base: str, opt_out: str | None
) -> dict[str, bytes]:
    """The batch's files by name; the same rows, postage mark and addresses give the same bytes."""
    drawable = _drawable(press, contents, indicia=indicia, qr_base=qr_base, opt_out=opt_out)
    printed = _compose(press, contents.batch, drawable)
    rows = _manifest(contents, printed)
    summary = statement(
        rows,
        reference=rules.reference(contents.batch.id),
        piece=contents.batch.piece,
        mail_class=contents.batch.mail_class,
        mailer_id=contents.batch.mailer_id,
        indicia=indicia,
        made_at=contents.batch.created_at,
    )
    files = {PRINT_FILE: printed.sheets}
    if printed.envelopes is not None:
        files[ENVELOPE_FILE] = printed.envelopes
    return files | {
        "manifest.csv": rules.manifest_csv(rows),
        "manifest.json": rules.manifest_json(rows),
        "statement.json": statement_json(summary),
    }


def remade(press: Press, batch: queries.Batch) -> dict[str, bytes]:
    """The batch's files as they were composed, to the byte; or `Unavailable` with the reason."""
    with press.db.work() as tx:
        contents, known = read_contents(tx, batch), queries.file_digests(tx, batch.id)
    if batch.indicia is None or batch.qr_base is None:
        raise Unavailable(f"Batch {batch.id} has not been composed yet.")
    try:
        files = draw(press, contents, indicia=batch.indicia, qr_base=batch.qr_base, opt_out=batch.opt_out)
    except FileMissing:
        raise Unavailable(
            f"A picture of batch {batch.id} is no longer in the file store. Bring it back from a backup."
        ) from None
    queries.require_same(files, known)
    return files


def part_from(
    press: Press,
    contents: Contents,
    *,
    indicia: Sequence[str],
    qr_base: str,
    opt_out: str | None,
    now: datetime,
) -> bool:
    """Fail the pieces that stop their batch from being drawn, so that the others go on; whether it has any.

    A batch pools many senders: what one of them brought must not hold up the rest.
    """
    drawable = _drawable(press, contents, indicia=indicia, qr_base=qr_base, opt_out=opt_out)
    faulty = _misfits(press, drawable) or _faulty_orders(press, contents.batch, drawable)
    with press.db.work() as tx:
        move_items(tx, faulty, now=now)
    return bool(faulty)


def _drawable(
    press: Press, contents: Contents, *, indicia: Sequence[str], qr_base: str, opt_out: str | None
) -> _Drawable:
    # Pictures are read when no transaction is open; orders of one sender often share them.
    designs = look.designs(
        contents.designs,
        contents.orders,
        kept_files(press.shelf.store, contents.pictures),
        indicia=indicia,
    )
    claims = opened(press.sealer, contents.batch.id, contents.claims, qr_base=qr_base)
    if bare := set(contents.gifts) - claims.keys():
        raise Unavailable(f"Item {min(bare)} has no claim to its gift card: it is not printed without.")
    copies = [
        look.copy(
            item,
            contents.orders[item.order_id],
            qr_base=qr_base,
            opt_out=opt_out,
            claim=claims.get(item.id),
        )
        for item in contents.items.values()
    ]
    return _Drawable(designs, copies)


def _compose(press: Press, batch: queries.Batch, drawable: _Drawable) -> Printed:
    title = rules.reference(batch.id)
    return press.studio.compose(drawable.designs, drawable.copies, title=title, made_at=batch.created_at)


def _misfits(press: Press, drawable: _Drawable) -> list[Move]:
    """Every piece whose own words are too long, with the reason; the rest of its order is printed.

    People of saved lists get here: nobody laid out each one's words before.
    """
    moves = []
    for design, own in _by_order(drawable):
        has_qr = any(copy.qr_url is not None for copy in own)
        try:
            found = press.studio.misfits(design, [copy.addressee for copy in own], qr=has_qr, every=True)
        except OURS:
            raise
        except Exception as fault:
            # It cannot even be laid out, and will be found when each order is drawn by itself.
            log.warning("order.not_laid_out", item=own[0].item_id, error=repr(fault))
            continue
        for place, copy in enumerate(own):
            too_long = found.sender or found.messages.get(place) or found.addresses.get(place)
            if too_long:
                moves.append(Move(copy.item_id, ItemStatus.FAILED, why=too_long.message))
    return moves


def _by_order(drawable: _Drawable) -> Iterable[tuple[Design, list[Copy]]]:
    """Each order's copies with one of its designs: pictures, in which they differ, change no fit."""
    by_order: dict[int, tuple[Design, list[Copy]]] = {}
    for copy in drawable.copies:
        key = copy.design
        assert isinstance(key, DesignKey)
        by_order.setdefault(key.order_id, (drawable.designs[key], []))[1].append(copy)
    return by_order.values()


def _faulty_orders(press: Press, batch: queries.Batch, drawable: _Drawable) -> list[Move]:
    """The pieces of every order that cannot be drawn by itself."""
    faulty, is_theirs = [], False
    for number in dict.fromkeys(key.order_id for key in drawable.designs):
        its = {key: design for key, design in drawable.designs.items() if key.order_id == number}
        own = [copy for copy in drawable.copies if copy.design in its]
        try:
            _compose(press, batch, _Drawable(its, own))
        except OURS:
            raise
        except Exception as fault:
            log.warning("order.not_drawable", order=number, error=repr(fault))
            faulty += [Move(copy.item_id, ItemStatus.FAILED, why=NOT_DRAWABLE) for copy in own]
            is_theirs = is_theirs or isinstance(fault, DoesNotFit | BadArt)
    if len(faulty) == len(drawable.copies) and not is_theirs:
        # Not one can be drawn: that is our trouble, a font that is missing, say. The job is tried again.
        return []
    return faulty


def _manifest(contents: Contents, printed: Printed) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    placed = zip(contents.items.items(), printed.pages, strict=True)
    for number, ((position, item), (first, last)) in enumerate(placed, start=1):
        rows.append(
            {
                "position": position,
                "item_id": item.id,
                "order_id": item.order_id,
                "first_page": first,
                "last_page": last,
                "envelope_page": None if printed.envelopes is None else number,
            }
            | {name: getattr(item, name) for name in rules.MANIFEST_COLUMNS[6:]}
            | dict(zip(PARTS, look.addressee(item).block, strict=True))
        )
    return rows
