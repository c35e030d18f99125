"""Orders and items on the wire, key for key as the interface has them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from fastapi import Request

from quillpost.accounts.service import SubAccount
from quillpost.api.answers import verbatim
from quillpost.audience.rules import Person
from quillpost.kit.times import iso, plain_time
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus, display_type
from quillpost.parts import Parts

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
        "front_image": front_image(base, order),
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


def front_image(base: str, order: Order) -> str:
    """The caller's picture, or that of the plain front which is printed without one."""
    return order.front_image_url or f"{base}/art/postcard-{order.size}.png"


def send_shape(
    request: Request,
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
        "front_image": front_image(base_of(request), order),
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
        "giftcard_brand": None,
        "giftcard_image": None,
        "giftcard_amount": None,
        "giftcard_brand_longname": "",
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


def inline_shape(person: Person) -> dict[str, str | None]:
    """A recipient as the answer to a send repeats it."""
    names = ("name", "address", "address2", "city", "province", "postal_code", "country")
    return {name: getattr(person, name) for name in names}


def sub_account_shape(sub_account: SubAccount | None) -> dict[str, Any] | None:
    if sub_account is None:
        return None
    shown = asdict(sub_account)
    return {"id": shown.pop("id"), "user_id": shown.pop("account_id"), **shown}


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
        "giftcard": None,
        "created_at": iso(item.created_at),
    }


def track_shape(
    shown: Mapping[str, Any], order: Order, *, failed: Sequence[Item], returned: Sequence[Item]
) -> dict[str, Any]:
    stats = {status.tally: order.tally[status] for status in ItemStatus}
    return {
        "data": {
            "id": order.id,
            "order": shown,
            "stats": stats | {"scans": order.total_scans, "multi_scans": order.multi_scans},
            "errors": [recipient_shape(item) | {"failure": item.failure} for item in failed],
            "returned": [recipient_shape(item) | {"failure": item.failure} for item in returned],
        }
    }
