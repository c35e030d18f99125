"""A picture of each brand of gift cards, for whoever chooses one. No token needed: everyone sees the same."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response

from quillpost.api.needs import parts_of
from quillpost.composition.brand_pictures import brand_picture
from quillpost.composition.content import parse_colour
from quillpost.composition.studio import Studio
from quillpost.creative.images import heavy_work
from quillpost.doors.drawn_once import DrawnOnce
from quillpost.giftcards.catalogue import find_brands
from quillpost.kit.errors import NotFound
from quillpost.parts import Parts

router = APIRouter(include_in_schema=False)

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
