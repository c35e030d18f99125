"""Signed links: whoever holds one may look, until it ends. No token needed."""

import re
from typing import Annotated
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request, Response

from quillpost.api.needs import parts_of
from quillpost.composition.studio import Studio
from quillpost.creative.images import heavy_work, kept_pictures
from quillpost.database.tables import files
from quillpost.doors.drawn_once import DrawnOnce
from quillpost.fulfilment.store import file_keys
from quillpost.kit.errors import NotFound
from quillpost.orders import look, store
from quillpost.parts import Parts
from quillpost.ports import FileMissing

router = APIRouter(include_in_schema=False)

PROOF = re.compile(r"proof-(\d{1,18})")
PROOF_PIECES = 3
FRONT_DPI = 100
A_WEEK = "private, max-age=604800, immutable"

OurParts = Annotated[Parts, Depends(parts_of)]


def remembered_fronts(studio: Studio) -> DrawnOnce[str]:
    """The fronts that are printed when an order brings no picture."""

    def draw(piece: str) -> bytes:
        with heavy_work():
            return studio.plain_front(piece, dpi=FRONT_DPI)

    return DrawnOnce(draw)


def fronts_of(request: Request) -> DrawnOnce[str]:
    fronts: DrawnOnce[str] = request.app.state.fronts
    return fronts


@router.get("/files/{token}")
def open_file(token: str, parts: OurParts) -> Response:
    """A kept file, or the proof of an order."""
    subject = parts.shelf.subject(token, now=parts.clock())
    if subject is None:
        raise NotFound
    if proof := PROOF.fullmatch(subject):
        return Response(_proof(parts, int(proof[1])), media_type="application/pdf")
    with parts.db.work() as tx:
        row = tx.execute(sa.select(files).where(files.c.id == UUID(subject))).first()
    if row is None:
        raise NotFound
    try:
        data = parts.shelf.store.get(row.key)
    except FileMissing:
        raise NotFound from None
    return Response(data, media_type=row.content_type, headers={"Cache-Control": A_WEEK})


@router.get("/art/{piece}.png")
def plain_front(
    piece: str, parts: OurParts, fronts: Annotated[DrawnOnce[str], Depends(fronts_of)]
) -> Response:
    """The front that is printed when an order brings no picture."""
    if piece not in parts.studio.pieces:
        raise NotFound
    return Response(
        fronts.of(piece), media_type="image/png", headers={"Cache-Control": "public, max-age=86400"}
    )


def _proof(parts: Parts, order_id: int) -> bytes:
    """The print file of the order's first pieces, drawn as the press draws it."""
    with parts.db.work() as tx:
        order = store.read_order(tx, order_id)
        pieces = store.first_items(tx, order_id, most=PROOF_PIECES)
        keys = [look.DesignKey.of(item, order) for item in pieces]
        pictures = file_keys(tx, keys)
    designs = look.designs(
        keys,
        {order.id: order},
        kept_pictures(parts.shelf.store, pictures),
        indicia=parts.worlds[order.mode].indicia[order.mail_class],
    )
    copies = [look.copy(item, order, qr_base=parts.press.qr_base) for item in pieces]
    with heavy_work():
        drawn = parts.studio.compose(
            designs, copies, title=f"Proof of order {order.id}", made_at=order.created_at
        )
    return drawn.sheets
