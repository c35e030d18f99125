"""Orders and items on the wire, key for key as the interface has them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from fastapi import Request

from quillpost.accounts.sub_accounts import SubAccount
from quillpost.app.container import Parts
from quillpost.core.clock import iso, plain_time
from quillpost.fulfillment.readiness import for_senders
from quillpost.orders.models import Gift, Item, Order
from quillpost.orders.products import display_type
from quillpost.orders.queries import Step
from quillpost.orders.rules import ItemStatus
from quillpost.orders.search import Found
from quillpost.orders.stats import Totals
from quillpost.recipients.rules import Person
from quillpost.web.api.responses import verbatim
from quillpost.web.api.sub_accounts import endpoints as sub_account_endpoints

PROOF_LINK = timedelta(days=7)


def base_of(request: Request) -> str:
    """The host that the caller used."""
    return str(request.base_url).rstrip("/")


def order_shape(request: Request, parts: Parts, order: Order) -> dict[str, Any]:
    base = base_of(request)
    proof = parts.shelf.path(f"proof-{order.id}", expires=parts.clock() + PROOF_LINK)
    return {
        "id": order.id,
        "message": order.message,
        "size": order.size,
        "sub_account_id": order.sub_account_id,
        "type": order.type,
        "display_type": display_type(order.type, order.size),
        "style": order.style,
        "front_image": front_image(base, parts, order),
        "high_quality_preview": base + proof,
        "authorization_total": order.authorization_total,
        "grand_total": order.grand_total,
        "order_total": order.order_total,
        "total_estimated_recipients": order.total_estimated_recipients,
        "total_recipients": order.total_recipients,
        "recipient_count": order.recipient_count,
        "status": order.status.display,
        "method": order.method,
        "cancellable": order.is_cancellable,
        "total_scans": order.total_scans,
        "metadata": verbatim(order.metadata),
        "created_at": iso(order.created_at),
        "updated_at": iso(order.updated_at),
    }


def order_read_shape(request: Request, parts: Parts, order: Order) -> dict[str, Any]:
    """An order by itself: with what deserves a look, or why it is held."""
    reasons = for_senders(order.hold_reasons, parts.worlds[order.mode])
    return order_shape(request, parts, order) | {"warnings": [*order.warnings, *reasons]}


def front_image(base: str, parts: Parts, order: Order) -> str:
    """The caller's picture, the template's, or that of the front which is printed without one."""
    if order.front_image_url is not None:
        return order.front_image_url
    if order.front_file_id is not None:
        return base + parts.shelf.lasting_path(order.front_file_id)
    if order.brand is not None:
        return base + parts.shelf.lasting_path(f"front-{order.id}")
    return f"{base}/art/{order.piece}.png"


def send_shape(
    request: Request,
    parts: Parts,
    order: Order,
    *,
    recipients: Sequence[Mapping[str, Any]],
    sub_account: SubAccount | None,
) -> dict[str, Any]:
    """The answer to a send."""
    home = order.return_address
    return {
        "id": order.id,
        "total_estimated_recipients": order.total_estimated_recipients,
        "authorization_total": order.authorization_total,
        "leads_fee": order.leads_fee,
        "mailing_list_ids_used": ",".join(map(str, order.mailing_list_ids)),
        "handwriting_color": order.handwriting_color,
        "front_image": front_image(base_of(request), parts, order),
        "message": order.message,
        "append_or_current_resident": order.append_or_current_resident,
        "type": order.type,
        "size": order.size,
        "return_name": home.name,
        "return_address": home.address,
        "return_address2": home.address2,
        "return_city": home.city,
        "return_province": home.province,
        "return_postal_code": home.postal_code,
        "message_template_id": order.message_template_id,
        "image_template_id": order.image_template_id,
        "method": order.method,
        "sub_account_id": order.sub_account_id,
        "sub_account": sub_account_shape(sub_account),
        "font_size": order.font_size,
        "qrcode_url": order.qrcode_url,
        "custom_background_url": order.background_url,
        **gift_shape(base_of(request), order.gift),
        "status": order.status.value,
        "display_status": order.status.display,
        "display_trigger": "API" if order.method == "api" else order.method,
        "display_type": display_type(order.type, order.size),
        "style": order.style,
        "user_id": order.account_id,
        "created_at": plain_time(order.created_at),
        "updated_at": plain_time(order.updated_at),
        "recipients": list(recipients),
    }


def gift_shape(base: str, gift: Gift | None) -> dict[str, Any]:
    """What each piece of an order brings, as the answer to a send says it."""
    return {
        "giftcard_brand": gift.brand if gift else None,
        "giftcard_image": brand_image(base, gift.brand) if gift else None,
        "giftcard_amount": gift.cents if gift else None,
        "giftcard_brand_longname": gift.title if gift else "",
    }


def brand_image(base: str, code: str) -> str:
    """Where the catalogue's picture of a brand is."""
    return f"{base}/giftcards/{quote(code, safe='')}.png"


def inline_shape(person: Person) -> dict[str, str | None]:
    """A recipient as the answer to a send repeats it."""
    names = ("name", "address", "address2", "city", "province", "postal_code", "country")
    return {name: getattr(person, name) for name in names}


def sub_account_shape(sub_account: SubAccount | None) -> dict[str, Any] | None:
    return None if sub_account is None else sub_account_endpoints.shape(sub_account)


def recipient_shape(item: Item) -> dict[str, Any]:
    return {
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


def item_shape(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "status": item.status.value,
        "delivery_date": item.delivery_date.isoformat() if item.delivery_date else None,
        "scans": item.scans,
        "failure": item.failure,
        "recipient": recipient_shape(item),
        "giftcard": card_shape(item),
        "created_at": iso(item.created_at),
    }


def card_shape(item: Item) -> dict[str, Any] | None:
    """The card that a piece brings, once it is issued; never what it is redeemed with."""
    if item.giftcard_brand is None:
        return None
    return {"brand": item.giftcard_brand, "amount": item.gift_cents}


def item_read_shape(item: Item, steps: Sequence[Step]) -> dict[str, Any]:
    """An item by itself."""
    events = [
        {
            "status": step.status.value,
            "previous_status": step.previous and step.previous.value,
            "at": iso(step.at),
            "place": step.place,
            "reason": step.reason,
            "inferred": step.inferred,
        }
        for step in steps
    ]
    return item_shape(item) | {
        "order_id": item.order_id,
        "delivery_inferred": item.delivery_inferred,
        "events": events,
    }


def search_shape(request: Request, parts: Parts, found: Found) -> dict[str, Any]:
    return {
        "matched_order_items": [item_shape(item) | {"order_id": item.order_id} for item in found.items],
        "orders": [order_shape(request, parts, order) for order in found.orders],
        "truncated": found.is_cut,
    }


def counters(tally: Mapping[ItemStatus, int], *, scans: int, multi_scans: int) -> dict[str, int]:
    """The eleven counters of pieces, of one order or of many."""
    return {status.tally: tally[status] for status in ItemStatus} | {
        "scans": scans,
        "multi_scans": multi_scans,
    }


def stats_shape(totals: Totals) -> dict[str, Any]:
    return {
        **counters(totals.tally, scans=totals.scans, multi_scans=totals.multi_scans),
        "total_cost": dollars(totals.cents),
        "total_requests": totals.orders,
        "total_sent": totals.sent,
    }


def dollars(cents: int) -> str:
    """Money as a person reads it."""
    sign, whole = "-" if cents < 0 else "", abs(cents)
    return f"{sign}${whole // 100:,}.{whole % 100:02d}"


def track_shape(
    shown: Mapping[str, Any], order: Order, *, failed: Sequence[Item], returned: Sequence[Item]
) -> dict[str, Any]:
    return {
        "data": {
            "id": order.id,
            "order": shown,
            "stats": counters(order.tally, scans=order.total_scans, multi_scans=order.multi_scans),
            "errors": [recipient_shape(item) | {"failure": item.failure} for item in failed],
            "returned": [recipient_shape(item) | {"failure": item.failure} for item in returned],
        }
    }
