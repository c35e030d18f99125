"""Files and pictures that open without a token."""

import hashlib
import re
from collections.abc import Callable, Hashable
from functools import cache
from threading import BoundedSemaphore, Lock
from typing import Annotated, Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Header, Request, Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import files
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches.files import batch_file_key
from quillpost.fulfillment.batches.rules import download_name
from quillpost.fulfillment.print_room.queries import find_file as find_batch_file
from quillpost.fulfillment.service import draw_front, draw_proof
from quillpost.orders.giftcards.queries import find_brands
from quillpost.orders.handwriting.service import read_sample
from quillpost.orders.templates.images import limit_heavy_work
from quillpost.rendering.handwriting.sheet.pages import make_sheet_pdf
from quillpost.rendering.models import parse_color
from quillpost.rendering.pdf.files import PdfFile
from quillpost.rendering.previews import render_brand_picture, render_sample, sample_version
from quillpost.rendering.service import Renderer
from quillpost.web.api.responses import without_length
from quillpost.web.dependencies import Services, parse_path_id
from quillpost.web.rendering import download_headers

Name = TypeVar("Name", bound=Hashable)

MAX_WAITING = 8  # fonts that are not ready take seconds: other callers must still find a thread
MAX_SAMPLE_WAIT_SECONDS = 1.0  # pages show many samples at once: what their reader does next must find a place


class ImageCache(Generic[Name]):
    def __init__(self, render: Callable[[Name], bytes], *, max_wait_seconds: float | None = None) -> None:
        """`max_wait_seconds` for pages that ask again by themselves."""
        self._render = render
        self._lock_timeout = -1 if max_wait_seconds is None else max_wait_seconds
        self._images: dict[Name, bytes] = {}
        self._waiting_slots = BoundedSemaphore(MAX_WAITING)
        self._render_lock = Lock()

    def get(self, name: Name) -> bytes:
        return self._images.get(name) or self._render_missing(name)

    def _render_missing(self, name: Name) -> bytes:
        has_slot = self._waiting_slots.acquire(blocking=False)
        try:
            if not has_slot or not self._render_lock.acquire(timeout=self._lock_timeout):
                raise Unavailable("The hands are being made ready. Try again shortly.")
            try:
                if name not in self._images:
                    self._images[name] = self._render(name)
                return self._images[name]
            finally:
                self._render_lock.release()
        finally:
            if has_slot:
                self._waiting_slots.release()


router = APIRouter(include_in_schema=False)

PROOF_SUBJECT, FRONT_SUBJECT = re.compile(r"proof-(\d{1,18})"), re.compile(r"front-(\d{1,18})")
HAND_SUBJECT = re.compile(r"hand-(\d{1,18})")
BATCH_FILE_SUBJECT = re.compile(r"batch-(\d{1,18})/(.+)")
FRONT_DPI = 100
WEEK_CACHE = "private, max-age=604800, immutable"


def create_front_cache(renderer: Renderer) -> ImageCache[str]:
    """The fronts that are printed when an order brings no picture."""

    def render(product_name: str) -> bytes:
        with limit_heavy_work():
            return renderer.render_plain_front(product_name, dpi=FRONT_DPI)

    return ImageCache(render)


@router.get("/files/{token}")
def open_file(token: str, container: Services) -> Response:
    """A stored file, the proof or the front of an order, or a file of a batch."""
    subject = container.storage.verify_token(token, now=container.clock())
    if subject is None:
        raise NotFound
    if proof := PROOF_SUBJECT.fullmatch(subject):
        return Response(draw_proof(container.production, int(proof[1])), media_type="application/pdf")
    if front := FRONT_SUBJECT.fullmatch(subject):
        image = draw_front(container.production, int(front[1]), dpi=FRONT_DPI)
        return Response(image, media_type="image/png", headers={"Cache-Control": WEEK_CACHE})
    if hand := HAND_SUBJECT.fullmatch(subject):
        with container.db.system_transaction() as tx:
            return Response(
                read_sample(tx, int(hand[1])), media_type="image/png", headers={"Cache-Control": WEEK_CACHE}
            )
    if batch_file := BATCH_FILE_SUBJECT.fullmatch(subject):
        return _batch_file_response(container, int(batch_file[1]), batch_file[2])
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(files).where(files.c.id == UUID(subject))).first()
    if row is None:
        raise NotFound
    return Response(_read_bytes(container, row.key), media_type=row.content_type, headers={"Cache-Control": WEEK_CACHE})


def _read_bytes(container: Container, key: str) -> bytes:
    try:
        return container.storage.store.get(key)
    except FileMissing:
        raise NotFound from None


def _batch_file_response(container: Container, batch_id: int, name: str) -> Response:
    """A download under the batch's name. Links can be passed on without a trace, so they open no secret file."""
    with container.db.system_transaction() as tx:
        file = find_batch_file(tx, batch_id, name)
    if file.is_secret:
        raise NotFound
    return Response(
        _read_bytes(container, batch_file_key(batch_id, file.name)),
        media_type=file.content_type,
        headers=download_headers(download_name(batch_id, file.name)),
    )


@router.head("/files/{token}")
def head_file(token: str, container: Services) -> Response:
    """Whether the link is valid. Proofs and fronts are rendered only for those who look."""
    subject = container.storage.verify_token(token, now=container.clock())
    if subject is not None and PROOF_SUBJECT.fullmatch(subject):
        return without_length(Response(media_type="application/pdf"))
    if subject is not None and FRONT_SUBJECT.fullmatch(subject):
        return without_length(Response(media_type="image/png"))
    return open_file(token, container)


@router.get("/handwriting-sheet.pdf")
def download_sheet() -> Response:
    """What a sender writes to get a style of their own: the same for everybody."""
    return Response(_draw_sheet(), media_type="application/pdf", headers={"Cache-Control": HOUR_CACHE})


@cache
def _draw_sheet() -> bytes:
    return make_sheet_pdf(PdfFile())


@router.get("/art/{piece}.png")
def show_plain_front(request: Request, piece: str, container: Services) -> Response:
    if piece not in container.renderer.products:
        raise NotFound
    fronts: ImageCache[str] = request.app.state.front_cache
    return Response(fronts.get(piece), media_type="image/png", headers={"Cache-Control": "public, max-age=86400"})


HOUR_CACHE = "public, max-age=3600"

BrandAppearance = tuple[str, str]  # title and accent, all that the picture is made of


def create_brand_cache(renderer: Renderer) -> ImageCache[BrandAppearance]:
    def render(appearance: BrandAppearance) -> bytes:
        title, accent = appearance
        with limit_heavy_work():
            return render_brand_picture(renderer, title, parse_color(accent).ink)

    return ImageCache(render)


@router.get("/giftcards/{brand_code}.png")
def show_brand(
    request: Request, brand_code: str, container: Services, if_none_match: Annotated[str, Header()] = ""
) -> Response:
    """Also of a withdrawn brand: orders that were sent still show it."""
    with container.db.system_transaction() as tx:
        brand = find_brands(tx, [brand_code]).get(brand_code)
    if brand is None:
        raise NotFound
    brands: ImageCache[BrandAppearance] = request.app.state.brand_cache
    return _picture_response(brands.get((brand.title, brand.accent)), HOUR_CACHE, if_none_match)


def _picture_response(picture: bytes, cache_control: str, if_none_match: str) -> Response:
    tag = f'"{hashlib.sha256(picture).hexdigest()[:24]}"'
    headers = {"Cache-Control": cache_control, "ETag": tag}
    if tag in if_none_match or if_none_match.strip() == "*":
        return Response(status_code=304, headers=headers)
    return Response(picture, media_type="image/png", headers=headers)


IMMUTABLE_CACHE = "public, max-age=31536000, immutable"


def create_sample_cache(renderer: Renderer) -> ImageCache[int]:
    return ImageCache(lambda number: render_sample(renderer, number), max_wait_seconds=MAX_SAMPLE_WAIT_SECONDS)


@router.get("/hands/{number}.png")
def show_sample(
    request: Request, number: str, container: Services, v: str = "", if_none_match: Annotated[str, Header()] = ""
) -> Response:
    """A URL with the right `v` names its content, so it can be kept for ever."""
    style = container.renderer.hands.styles.get(parse_path_id(number))
    if style is None:
        raise NotFound
    samples: ImageCache[int] = request.app.state.sample_cache
    cache_control = IMMUTABLE_CACHE if v == sample_version(style) else HOUR_CACHE
    return _picture_response(samples.get(style.number), cache_control, if_none_match)
