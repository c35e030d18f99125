"""Proofs: the first pieces of an order, drawn as the press draws them, in one file."""

from dataclasses import replace

from quillpost.core.errors import Refused
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.models import Press
from quillpost.fulfillment.queries import file_keys, trackings
from quillpost.orders import designs as look
from quillpost.orders.items import read_order
from quillpost.orders.models import Item, Order
from quillpost.orders.queries import first_items
from quillpost.orders.templates.images import heavy_work, kept_files
from quillpost.rendering.decoder.sandbox import joined_pages
from quillpost.rendering.images.limits import BadArt
from quillpost.rendering.layout.paragraphs import DoesNotFit
from quillpost.rendering.models import Addressee, Copy
from quillpost.rendering.renderer import Previews

PIECES = 3


def draw_proof(press: Press, order_id: int) -> bytes:
    """The pages of the order's first pieces, then their envelopes; gift cards with a specimen of their code.

    It looks with the service's eyes, for a caller need not see the files of a whole account: whoever
    asks has made sure that the order is theirs to see.
    """
    with press.db.work() as tx:
        order = read_order(tx, order_id)
        found = first_items(tx, order_id, most=PIECES)
        codes = trackings(tx, [item.id for item in found])
        pieces = [replace(item, tracking=codes.get(item.id)) for item in found]
        keys = [look.DesignKey.of(item, order) for item in pieces]
        pictures = file_keys(tx, keys)
    if not pieces:
        raise Refused("This order has no pieces yet. Try again shortly.")
    designs = look.designs(
        keys,
        {order.id: order},
        kept_files(press.shelf.store, pictures),
        indicia=press.worlds[order.mode].indicia[order.mail_class],
    )
    # Whoever may see an order may see its proof: a card is claimed with the printed piece alone.
    claim = look.specimen_claim(order.gift, qr_base=press.qr_base)
    copies = [
        look.copy(item, order, qr_base=press.qr_base, opt_out=press.opt_out, claim=claim) for item in pieces
    ]
    try:
        with heavy_work():
            drawn = press.studio.compose(
                designs, copies, title=f"Proof of order {order.id}", made_at=order.created_at
            )
            return drawn.sheets if drawn.envelopes is None else joined_pages([drawn.sheets, drawn.envelopes])
    except (DoesNotFit, BadArt) as fault:
        raise Refused(f"No piece of this order can be drawn: {fault}") from fault


def draw_piece(press: Press, order: Order, item: Item) -> Previews:
    """One piece as it is printed, side by side, for the eye; a gift card with a specimen of its code.

    With the service's eyes, too: whoever asks has made sure that order and piece are theirs to see.
    """
    with press.db.work() as tx:
        codes = trackings(tx, [item.id])
        key = look.DesignKey.of(item, order)
        pictures = file_keys(tx, [key])
    indicia = press.worlds[order.mode].indicia[order.mail_class]
    claim = look.specimen_claim(order.gift, qr_base=press.qr_base)
    seen = replace(item, tracking=codes.get(item.id))
    copy = look.copy(seen, order, qr_base=press.qr_base, opt_out=press.opt_out, claim=claim)
    try:
        designs = look.designs(
            [key], {order.id: order}, kept_files(press.shelf.store, pictures), indicia=indicia
        )
        with heavy_work():
            return press.studio.preview(designs[key], copy)
    except (DoesNotFit, BadArt) as fault:
        raise Refused(f"This piece cannot be drawn: {fault}") from fault
    except (FileMissing, KeyError):
        raise Refused("The pictures of this order are no longer kept.") from None


def draw_front(press: Press, order_id: int, *, dpi: int) -> bytes:
    """The front that everyone sees on an order without a picture of its own: a PNG."""
    with press.db.work() as tx:
        order = read_order(tx, order_id)
        key = look.DesignKey(order.id, order.front_file_id, None, None, order.logo_file_id)
        pictures = file_keys(tx, [key])
    indicia = press.worlds[order.mode].indicia[order.mail_class]
    designs = look.designs([key], {order.id: order}, kept_files(press.shelf.store, pictures), indicia=indicia)
    front = next(iter(press.studio.pieces[order.piece].previews))
    nobody = Copy(item_id=0, design=key, addressee=Addressee())
    try:
        with heavy_work():
            return press.studio.preview(designs[key], nobody, dpi=dpi, only=front).sides[front]
    except (DoesNotFit, BadArt) as fault:
        raise Refused(f"The front of this order cannot be drawn: {fault}") from fault
