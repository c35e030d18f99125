"""The gift cards that can be sent: brands in their groups, and how operators change them."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import ConfigDict, Field

from quillpost.core.errors import Invalid
from quillpost.orders.giftcards import brands
from quillpost.orders.giftcards.rules import (
    GROUPS,
    HOUSE_ACCENT,
    LARGEST_AMOUNT,
    LONGEST_ISSUER_CODE,
    LONGEST_TITLE,
    MOST_AMOUNTS,
    Brand,
)
from quillpost.web.api.bodies import DIGITS, Body, Text, said
from quillpost.web.api.dependencies import InServiceTx, InTx, Log, Services, live_operator, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.giftcards import schemas as schemas
from quillpost.web.api.image_templates.schemas import NOT_NULL
from quillpost.web.api.orders.responses import base_of, brand_image
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Gift cards"])

MAY_READ = [Depends(may("templates:read"))]
MAY_STOCK = [Depends(live_operator("templates:write"))]
BrandCode = Annotated[str, Path(description="The brand's code.", examples=["brindlewick"])]

CHANGED, RETIRED = "brand.changed", "brand.retired"


class BrandFields(Body):
    """What is not named stays; a new brand needs a title, a group and amounts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "title": "Brindlewick Coffee",
                    "group": "main",
                    "available_amounts": [500, 1000, 2500],
                    "color": "#5b3a29",
                }
            ]
        }
    )

    title: Annotated[Text, Field(max_length=LONGEST_TITLE), NOT_NULL] = Field(
        default_factory=str, description="What the card says."
    )
    group: Annotated[schemas.Group, NOT_NULL] = Field(
        default_factory=lambda: "other", description="The group that it is shown in."
    )
    available_amounts: Annotated[
        list[Annotated[int, Field(ge=1, le=LARGEST_AMOUNT), DIGITS]],
        Field(min_length=1, max_length=MOST_AMOUNTS),
        NOT_NULL,
    ] = Field(default_factory=list, description="In cents, the smallest first.")
    color: Annotated[Text, Field(max_length=7), NOT_NULL] = Field(
        default_factory=lambda: HOUSE_ACCENT, description="The card's colour, as #rrggbb."
    )
    issuer_code: Text | None = Field(
        None,
        max_length=LONGEST_ISSUER_CODE,
        description="What a live issuer calls it; null where that is its code.",
    )

    def of(self, code: str, before: Brand | None) -> Brand:
        """The brand as it is to be."""
        given = self.given()
        if before is None:
            needed = {name for name in ("title", "group", "available_amounts") if name not in given}
            if needed:
                raise Invalid({name: [f"A new brand needs {name}."] for name in sorted(needed)})
            before = Brand(code, self.title, self.group, (), HOUSE_ACCENT)
        changes: dict[str, Any] = {
            "title": self.title.strip(),
            "section": self.group,
            "amounts": tuple(self.available_amounts),
            "accent": self.color.lower(),
            "issuer_code": said(self.issuer_code),
        }
        ours = {"group": "section", "available_amounts": "amounts", "color": "accent"}
        named = {ours.get(name, name) for name in given}
        return replace(
            before, is_offered=True, **{name: value for name, value in changes.items() if name in named}
        )


def shape(base: str, brand: Brand) -> dict[str, Any]:
    return {
        "brand_code": brand.code,
        "title": brand.title,
        "image": brand_image(base, brand.code),
        "available_amounts": list(brand.amounts),
    }


def managed_shape(base: str, brand: Brand) -> dict[str, Any]:
    """The brand as an operator sees it."""
    return shape(base, brand) | {
        "group": brand.section,
        "color": brand.accent,
        "issuer_code": brand.issuer_code,
        "offered": brand.is_offered,
    }


@router.get(
    "/giftcard-brands",
    response_model=schemas.BrandGroups,
    responses=errors(),
    dependencies=MAY_READ,
    summary="List gift card brands in their groups",
)
def list_giftcard_brands(request: Request, tx: InTx) -> Response:
    """Give `POST /send/giftcard` a brand_code as `giftcard_brand`, and one of its amounts."""
    base, offered = base_of(request), brands.offered(tx)
    groups = {
        name: {"title": title, "brands": [shape(base, brand) for brand in offered if brand.section == name]}
        for name, title in GROUPS.items()
    }
    return answer(groups)


def list_brands_flat(request: Request, tx: InTx) -> Response:
    """The same brands in one list, each with the title of its group. Also at `/giftcard-brands/flat`."""
    base = base_of(request)
    return answer(
        {"brands": [shape(base, brand) | {"group": GROUPS[brand.section]} for brand in brands.offered(tx)]}
    )


for path in ("/giftcard-brands-list", "/giftcard-brands/flat"):
    router.get(
        path,
        response_model=schemas.BrandList,
        responses=errors(),
        dependencies=MAY_READ,
        summary="List gift card brands",
        include_in_schema=path == "/giftcard-brands-list",
    )(list_brands_flat)


@router.put(
    "/giftcard-brands/{brand_code}",
    response_model=schemas.ManagedBrand,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_STOCK,
    summary="Make or change a gift card brand",
)
def put_giftcard_brand(
    request: Request,
    brand_code: BrandCode,
    body: BrandFields,
    tx: InServiceTx,
    parts: Services,
    log: Log,
) -> Response:
    """For operators, with a live token. What was sent before keeps the title and amount that it was sent
    with; one that was deleted is offered again."""
    before = brands.find_brands(tx, [brand_code], locked=True).get(brand_code)
    brand = body.of(brand_code, before)
    if brands.put_brand(tx, brand, now=parts.clock()):
        log.note(tx, CHANGED, {"name": brand.code})
    return answer(managed_shape(base_of(request), brand))


@router.delete(
    "/giftcard-brands/{brand_code}",
    response_model=Message,
    responses=errors(404),
    dependencies=MAY_STOCK,
    summary="Offer a gift card brand no more",
)
def delete_giftcard_brand(brand_code: BrandCode, tx: InServiceTx, parts: Services, log: Log) -> Response:
    """For operators, with a live token. Orders that were sent go on."""
    if brands.retire(tx, brand_code, now=parts.clock()):
        log.note(tx, RETIRED, {"name": brand_code})
    return answer({"message": "success"})
