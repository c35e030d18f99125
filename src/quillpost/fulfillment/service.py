"""Proofs and previews: items of an order, drawn as they are printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from quillpost.core.database import Tx
from quillpost.core.errors import Refused
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches.queries import read_barcodes, read_file_keys
from quillpost.fulfillment.models import ProductionContext
from quillpost.orders import designs as order_designs
from quillpost.orders.designs import DesignKey
from quillpost.orders.handwriting.models import OwnHandwriting
from quillpost.orders.handwriting.queries import read_own_handwriting
from quillpost.orders.items.models import Item
from quillpost.orders.items.queries import list_first_items
from quillpost.orders.models import Order
from quillpost.orders.queries import read_order
from quillpost.orders.templates.images import file_reader, limit_heavy_work
from quillpost.rendering.decoder.service import join_pdfs_in_sandbox
from quillpost.rendering.images.rules import UnprintableArt
from quillpost.rendering.layout.models import DoesNotFit
from quillpost.rendering.models import Addressee, Copy, Design
from quillpost.rendering.service import PreviewImages

PROOF_ITEMS = 3


@dataclass(frozen=True, slots=True)
class _DesignParts:
    """What the designs of an order are made of."""

    keys: Sequence[DesignKey]
    own_handwriting: Mapping[int, OwnHandwriting]
    file_keys: Mapping[UUID, str]


def _read_parts(tx: Tx, order: Order, keys: Sequence[DesignKey]) -> _DesignParts:
    return _DesignParts(keys, read_own_handwriting(tx, [(order.id, order)]), read_file_keys(tx, keys))


def _build_designs(production: ProductionContext, order: Order, parts: _DesignParts) -> Mapping[DesignKey, Design]:
    indicia = production.environments[order.mode].indicia[order.mail_class]
    read_file = file_reader(production.storage.store, parts.file_keys)
    return order_designs.build_designs(parts.keys, {order.id: order}, parts.own_handwriting, read_file, indicia=indicia)


def draw_proof(production: ProductionContext, order_id: int) -> bytes:
    """The pages of the order's first items, then their envelopes; gift cards with a specimen code. Reads with the
    service's rights: the caller has checked that the order may be seen."""
    with production.db.system_transaction() as tx:
        order = read_order(tx, order_id)
        stored_items = list_first_items(tx, order_id, limit=PROOF_ITEMS)
        barcodes = read_barcodes(tx, [item.id for item in stored_items])
        proof_items = [replace(item, tracking=barcodes.get(item.id)) for item in stored_items]
        parts = _read_parts(tx, order, [DesignKey.for_item(item, order) for item in proof_items])
    if not proof_items:
        raise Refused("This order has no pieces yet. Try again shortly.")
    designs = _build_designs(production, order, parts)
    # A proof shows no claim: only the printed item may be used to claim a card.
    claim = order_designs.build_specimen_claim(order.gift, qr_base=production.qr_base)
    copies = [
        order_designs.build_copy(item, order, qr_base=production.qr_base, opt_out=production.opt_out, claim=claim)
        for item in proof_items
    ]
    try:
        with limit_heavy_work():
            drawn = production.renderer.compose(
                designs, copies, title=f"Proof of order {order.id}", made_at=order.created_at
            )
            return drawn.sheets if drawn.envelopes is None else join_pdfs_in_sandbox([drawn.sheets, drawn.envelopes])
    except (DoesNotFit, UnprintableArt) as error:
        raise Refused(f"No piece of this order can be drawn: {error}") from error


def draw_item(production: ProductionContext, order: Order, item: Item) -> PreviewImages:
    """One item as it is printed, side by side; a gift card with a specimen code. Reads with the service's rights: the
    caller has checked that the item may be seen."""
    with production.db.system_transaction() as tx:
        barcodes = read_barcodes(tx, [item.id])
        key = DesignKey.for_item(item, order)
        parts = _read_parts(tx, order, [key])
    claim = order_designs.build_specimen_claim(order.gift, qr_base=production.qr_base)
    item_with_barcode = replace(item, tracking=barcodes.get(item.id))
    copy = order_designs.build_copy(
        item_with_barcode, order, qr_base=production.qr_base, opt_out=production.opt_out, claim=claim
    )
    try:
        designs = _build_designs(production, order, parts)
        with limit_heavy_work():
            return production.renderer.preview(designs[key], copy)
    except (DoesNotFit, UnprintableArt) as error:
        raise Refused(f"This piece cannot be drawn: {error}") from error
    except (FileMissing, KeyError):
        raise Refused("The pictures of this order are no longer kept.") from None


def draw_front(production: ProductionContext, order_id: int, *, dpi: int) -> bytes:
    """The front of an order without an image of its own, as a PNG."""
    with production.db.system_transaction() as tx:
        order = read_order(tx, order_id)
        key = DesignKey(order.id, order.front_file_id, None, None, order.logo_file_id)
        parts = _read_parts(tx, order, [key])
    designs = _build_designs(production, order, parts)
    front = next(iter(production.renderer.products[order.piece].previews))
    blank_copy = Copy(item_id=0, design=key, addressee=Addressee())
    try:
        with limit_heavy_work():
            return production.renderer.preview(designs[key], blank_copy, dpi=dpi, only_preview=front).sides[front]
    except (DoesNotFit, UnprintableArt) as error:
        raise Refused(f"The front of this order cannot be drawn: {error}") from error
