"""Orders and items on the wire, key for key as the interface has them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

from fastapi import Request

from quillpost.accounts.billing.rules import format_dollars
from quillpost.accounts.sub_accounts.queries import SubAccount
from quillpost.app.container import Container
from quillpost.client import orders as wire
from quillpost.client.recipients import MailedRecipient
from quillpost.client.send import SendResponse
from quillpost.core.text import format_iso, format_time
from quillpost.fulfillment.review.service import texts_for_sender
from quillpost.orders.items.models import Item
from quillpost.orders.items.queries import HistoryStep, ItemSearchResult
from quillpost.orders.models import Order
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.orders.queries import OrderTotals
from quillpost.orders.rules import ItemStatus
from quillpost.recipients.models import Person
from quillpost.web.api.responses import raw_json, to_wire
from quillpost.web.api.sub_accounts.endpoints import serialize_sub_account
from quillpost.web.dependencies import base_url

PROOF_LINK_LIFETIME = timedelta(days=7)
REPEATED_FIELDS = ("name", "address", "address2", "city", "province", "postal_code", "country")
"""What the answer to a send repeats of its recipients."""


def serialize_order(request: Request, container: Container, order: Order) -> wire.Order:
    base = base_url(request)
    proof = container.storage.signed_path(f"proof-{order.id}", expires_at=container.clock() + PROOF_LINK_LIFETIME)
    return to_wire(
        wire.Order,
        order,
        display_type=DISPLAY_TYPES[order.type, order.size],
        front_image=front_image_url(base, container, order),
        high_quality_preview=base + proof,
        status=order.status.capitalize(),
        cancellable=order.is_cancellable,
        metadata=raw_json(order.metadata),
    )


def serialize_order_details(request: Request, container: Container, order: Order) -> wire.OrderDetails:
    reasons = texts_for_sender(order.hold_reasons)
    return {**serialize_order(request, container, order), "warnings": [*order.warnings, *reasons]}


def front_image_url(base: str, container: Container, order: Order) -> str:
    """The caller's picture, the template's, or that of the front which is printed without one."""
    if order.front_image_url is not None:
        return order.front_image_url
    if order.front_file_id is not None:
        return base + container.storage.permanent_path(order.front_file_id)
    if order.brand is not None:
        return base + container.storage.permanent_path(f"front-{order.id}")
    return f"{base}/art/{order.piece}.png"


def serialize_send(
    request: Request, container: Container, order: Order, *, people: Sequence[Person], sub_account: SubAccount | None
) -> SendResponse:
    base, return_address, gift = base_url(request), order.return_address, order.gift
    values: dict[str, Any] = {
        "mailing_list_ids_used": ",".join(map(str, order.mailing_list_ids)),
        "front_image": front_image_url(base, container, order),
        "return_name": return_address.name,
        "return_address": return_address.address,
        "return_address2": return_address.address2,
        "return_city": return_address.city,
        "return_province": return_address.province,
        "return_postal_code": return_address.postal_code,
        "sub_account": None if sub_account is None else serialize_sub_account(sub_account),
        "custom_background_url": order.background_url,
        "giftcard_brand": gift.brand if gift else None,
        "giftcard_image": brand_image_url(base, gift.brand) if gift else None,
        "giftcard_amount": gift.cents if gift else None,
        "giftcard_brand_longname": gift.title if gift else "",
        "status": order.status.value,
        "display_status": order.status.capitalize(),
        "display_trigger": "API" if order.method == "api" else order.method,
        "display_type": DISPLAY_TYPES[order.type, order.size],
        "user_id": order.account_id,
        "created_at": format_time(order.created_at),
        "updated_at": format_time(order.updated_at),
        "recipients": [{name: getattr(person, name) for name in REPEATED_FIELDS} for person in people],
    }
    return to_wire(SendResponse, order, **values)


def brand_image_url(base: str, code: str) -> str:
    return f"{base}/giftcards/{quote(code, safe='')}.png"


def serialize_recipient(item: Item) -> MailedRecipient:
    content = {
        "name": item.name,
        "company": item.company,
        "address": item.address,
        "address2": item.address2,
        "city": item.city,
        "province": item.province,
        "postal_code": item.postal_code,
        "country": item.country,
        "email": item.email,
        "phone": item.phone,
        **{f"custom{n}": value for n, value in enumerate(item.custom, 1)},
    }
    return cast(MailedRecipient, content)


def serialize_item(item: Item) -> wire.OrderItem:
    return {
        "id": item.id,
        "status": item.status.value,
        "delivery_date": item.delivery_date.isoformat() if item.delivery_date else None,
        "scans": item.scans,
        "failure": item.failure,
        "recipient": serialize_recipient(item),
        # Once it is issued; never what it is redeemed with.
        "giftcard": None if item.giftcard_brand is None else {"brand": item.giftcard_brand, "amount": item.gift_cents},
        "created_at": format_iso(item.created_at),
    }


def serialize_item_details(item: Item, steps: Sequence[HistoryStep]) -> wire.OrderItemDetails:
    return {
        **serialize_item(item),
        "order_id": item.order_id,
        "delivery_inferred": item.delivery_inferred,
        "events": [_serialize_step(step) for step in steps],
    }


def _serialize_step(step: HistoryStep) -> wire.ItemHistoryEvent:
    return {
        "status": cast(wire.ItemStatus | wire.GiftcardEvent, step.status.value),
        "previous_status": None if step.previous is None else step.previous.value,
        "at": format_iso(step.at),
        "place": step.place,
        "reason": step.reason,
        "inferred": step.inferred,
    }


def serialize_search(request: Request, container: Container, result: ItemSearchResult) -> wire.SearchResponse:
    return {
        "matched_order_items": [{**serialize_item(item), "order_id": item.order_id} for item in result.items],
        "orders": [serialize_order(request, container, order) for order in result.orders],
        "truncated": result.is_cut,
    }


def serialize_counts(counts: Mapping[ItemStatus, int], *, scans: int, multi_scans: int) -> wire.StatusCounts:
    by_status = {status.count_name: counts[status] for status in ItemStatus}
    return cast(wire.StatusCounts, {**by_status, "scans": scans, "multi_scans": multi_scans})


def serialize_stats(totals: OrderTotals) -> wire.OrderStats:
    return {
        **serialize_counts(totals.item_counts, scans=totals.scans, multi_scans=totals.multi_scans),
        "total_cost": format_dollars(totals.cents),
        "total_requests": totals.orders,
        "total_sent": totals.sent,
    }


def serialize_tracking(
    wire_order: wire.Order, order: Order, *, failed: Sequence[Item], returned: Sequence[Item]
) -> wire.TrackResponse:
    return {
        "data": {
            "id": order.id,
            "order": wire_order,
            "stats": serialize_counts(order.status_counts, scans=order.total_scans, multi_scans=order.multi_scans),
            "errors": [{**serialize_recipient(item), "failure": item.failure} for item in failed],
            "returned": [{**serialize_recipient(item), "failure": item.failure} for item in returned],
        }
    }
