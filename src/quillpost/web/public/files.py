"""Files and pictures that open without a token."""

import hashlib
import re
from collections.abc import Callable, Hashable
from threading import BoundedSemaphore, Lock
from typing import Annotated, Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Header, Request, Response

from quillpost.app.container import Parts
from quillpost.core.database.tables.base import files
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.files import place_of
from quillpost.fulfillment.print_room.queries import find_file as find_batch_file
from quillpost.fulfillment.proofs import draw_front, draw_proof
from quillpost.fulfillment.rules import saved_as
from quillpost.orders.giftcards.brands import find_brands
from quillpost.orders.templates.images import heavy_work
from quillpost.rendering.models import parse_colour
from quillpost.rendering.renderer import Studio
from quillpost.rendering.samples import brand_picture, sample, sample_version
from quillpost.web.api.dependencies import id_in_path, parts_of
from quillpost.web.api.responses import unmeasured

Name = TypeVar("Name", bound=Hashable)

WAITING_AT_ONCE = 8
"""A hand that is not ready takes seconds: so few wait for it that other callers still find a thread."""


class DrawnOnce(Generic[Name]):
    def __init__(self, draw: Callable[[Name], bytes]) -> None:
        self._draw = draw
        self._drawn: dict[Name, bytes] = {}
        self._places = BoundedSemaphore(WAITING_AT_ONCE)
        self._pen = Lock()

    def of(self, name: Name) -> bytes:
        return self._drawn.get(name) or self._wait_for(name)

    def _wait_for(self, name: Name) -> bytes:
        if not self._places.acquire(blocking=False):
            raise Unavailable("The hands are being made ready. Try again shortly.")
        try:
            with self._pen:
                if name not in self._drawn:
                    self._drawn[name] = self._draw(name)
                return self._drawn[name]
        finally:
            self._places.release()


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


AN_HOUR = "public, max-age=3600"

Look = tuple[str, str]
"""A brand's title and accent: all that its picture is made of, so that another look is another picture."""


def remembered_brands(studio: Studio) -> DrawnOnce[Look]:
    def draw(look: Look) -> bytes:
        title, accent = look
        with heavy_work():
            return brand_picture(studio, title, parse_colour(accent).ink)

    return DrawnOnce(draw)


def brands_of(request: Request) -> DrawnOnce[Look]:
    brands: DrawnOnce[Look] = request.app.state.brands
    return brands


@router.get("/giftcards/{brand_code}.png")
def show_brand(
    brand_code: str,
    parts: Annotated[Parts, Depends(parts_of)],
    brands: Annotated[DrawnOnce[Look], Depends(brands_of)],
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """Of a brand that is offered no more as well: orders that were sent still show it."""
    with parts.db.work() as tx:
        brand = find_brands(tx, [brand_code]).get(brand_code)
    if brand is None:
        raise NotFound
    picture = brands.of((brand.title, brand.accent))
    tag = f'"{hashlib.sha256(picture).hexdigest()[:24]}"'
    headers = {"Cache-Control": AN_HOUR, "ETag": tag}
    if tag in if_none_match or if_none_match.strip() == "*":
        return Response(status_code=304, headers=headers)
    return Response(picture, media_type="image/png", headers=headers)


FOR_EVER = "public, max-age=31536000, immutable"


def remembered_samples(studio: Studio) -> DrawnOnce[int]:
    return DrawnOnce(lambda number: sample(studio, number))


def samples_of(request: Request) -> DrawnOnce[int]:
    samples: DrawnOnce[int] = request.app.state.samples
    return samples


@router.get("/hands/{number}.png")
def show_sample(
    number: str,
    parts: Annotated[Parts, Depends(parts_of)],
    samples: Annotated[DrawnOnce[int], Depends(samples_of)],
    v: str = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The address with the right `v` names what it shows, so that it can be kept for ever."""
    style = parts.studio.hands.styles.get(id_in_path(number))
    if style is None:
        raise NotFound
    picture = samples.of(style.number)
    tag = f'"{hashlib.sha256(picture).hexdigest()[:24]}"'
    headers = {"Cache-Control": FOR_EVER if v == sample_version(style) else AN_HOUR, "ETag": tag}
    if tag in if_none_match or if_none_match.strip() == "*":
        return Response(status_code=304, headers=headers)
    return Response(picture, media_type="image/png", headers=headers)
