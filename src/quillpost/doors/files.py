"""Signed links: whoever holds one may look, until it ends. No token needed."""

import re
from typing import Annotated
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request, Response

from quillpost.api.answers import unmeasured
from quillpost.api.needs import parts_of
from quillpost.composition.studio import Studio
from quillpost.creative.images import heavy_work
from quillpost.database.tables import files
from quillpost.doors.drawn_once import DrawnOnce
from quillpost.fulfilment.batch_store import place_of
from quillpost.fulfilment.proofs import draw_front, draw_proof
from quillpost.fulfilment.rules import saved_as
from quillpost.fulfilment.shown import find_file as find_batch_file
from quillpost.kit.errors import NotFound
from quillpost.parts import Parts
from quillpost.ports.files import FileMissing

router = APIRouter(include_in_schema=False)

PROOF, FRONT = re.compile(r"proof-(\d{1,18})"), re.compile(r"front-(\d{1,18})")
OF_BATCH = re.compile(r"batch-(\d{1,18})/(.+)")
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
    """A kept file, the proof or the front of an order, or a file of a batch."""
    subject = parts.shelf.subject(token, now=parts.clock())
    if subject is None:
        raise NotFound
    if proof := PROOF.fullmatch(subject):
        return Response(draw_proof(parts.press, int(proof[1])), media_type="application/pdf")
    if front := FRONT.fullmatch(subject):
        drawn = draw_front(parts.press, int(front[1]), dpi=FRONT_DPI)
        return Response(drawn, media_type="image/png", headers={"Cache-Control": A_WEEK})
    if of_batch := OF_BATCH.fullmatch(subject):
        return _batch_file(parts, int(of_batch[1]), of_batch[2])
    with parts.db.work() as tx:
        row = tx.execute(sa.select(files).where(files.c.id == UUID(subject))).first()
    if row is None:
        raise NotFound
    return Response(_bytes(parts, row.key), media_type=row.content_type, headers={"Cache-Control": A_WEEK})


def _bytes(parts: Parts, key: str) -> bytes:
    try:
        return parts.shelf.store.get(key)
    except FileMissing:
        raise NotFound from None


def _batch_file(parts: Parts, batch_id: int, name: str) -> Response:
    """To be saved: whoever prints it needs it under the batch's name. A link may be passed on, and nobody
    notes who follows it, so that it leads to no secret file."""
    with parts.db.work() as tx:
        file = find_batch_file(tx, batch_id, name)
    if file.is_secret:
        raise NotFound
    to_be_saved = f'attachment; filename="{saved_as(batch_id, file.name)}"'
    return Response(
        _bytes(parts, place_of(batch_id, file.name)),
        media_type=file.content_type,
        headers={"Content-Disposition": to_be_saved, "Cache-Control": "no-store"},
    )


@router.head("/files/{token}")
def find_file(token: str, parts: OurParts) -> Response:
    """Whether the link still leads somewhere. A proof or a front is drawn for those who will look."""
    subject = parts.shelf.subject(token, now=parts.clock())
    if subject is not None and PROOF.fullmatch(subject):
        return unmeasured(Response(media_type="application/pdf"))
    if subject is not None and FRONT.fullmatch(subject):
        return unmeasured(Response(media_type="image/png"))
    return open_file(token, parts)


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
