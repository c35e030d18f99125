"""Where a printed QR code leads: from its short code to the sender's page, the person's words filled in."""

import re
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Response
from starlette.responses import RedirectResponse

from quillpost.api.needs import parts_of
from quillpost.composition.content import Sender
from quillpost.database.tables import items, orders
from quillpost.kit.errors import NotFound
from quillpost.orders import look
from quillpost.orders.records import Item
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

CODE = re.compile(r"[A-Za-z0-9]{6,12}")


@router.api_route("/q/{code}", methods=["GET", "HEAD"])
def follow_code(code: str, parts: Annotated[Parts, Depends(parts_of)]) -> Response:
    """On to the sender's page. The answer is never cached: each scan comes by here."""
    if not CODE.fullmatch(code):
        raise NotFound
    with parts.db.work() as tx:
        row = tx.execute(
            sa.select(items, orders.c.qrcode_url, orders.c.sender_name, orders.c.sender_company)
            .join(orders, orders.c.id == items.c.order_id)
            .where(items.c.code == code)
        ).first()
    if row is None or row.qrcode_url is None:
        raise NotFound
    whom = look.addressee(Item.of(row))
    destination = look.qr_destination(row.qrcode_url, whom, Sender(row.sender_name, row.sender_company))
    return RedirectResponse(destination, 302, headers={"Cache-Control": "no-store"})
