"""The gift cards that can be sent: brands in their groups, and how operators change them."""

from dataclasses import replace
from typing import Annotated, Any, cast

from fastapi import Depends, Path, Request, Response
from pydantic import Field

from quillpost.client import giftcards as wire
from quillpost.client.types import MessageResponse
from quillpost.core.errors import Invalid
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import (
    BRAND_GROUPS,
    DEFAULT_ACCENT,
    MAX_AMOUNT_CENTS,
    MAX_AMOUNTS,
    MAX_ISSUER_CODE_LENGTH,
    MAX_TITLE_LENGTH,
    GiftcardBrand,
)
from quillpost.web.api.dependencies import (
    RequestAuditWriter,
    RequestTransaction,
    ServiceTransaction,
    require_live_operator,
)
from quillpost.web.api.errors import BODY_ERRORS
from quillpost.web.api.orders.responses import brand_image_url
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import DIGITS, Body, Text, accepts, strip_or_none
from quillpost.web.api.templates.schemas import NOT_NULL
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Gift cards")

CAN_MANAGE_BRANDS = [Depends(require_live_operator("templates:write"))]
BrandCode = Annotated[str, Path(description="The brand's code.", examples=["brindlewick"])]

BRAND_CHANGED, BRAND_RETIRED = "brand.changed", "brand.retired"


@accepts(wire.BrandOptions)
class BrandFields(Body):
    """What is not named stays; a new brand needs a title, a group and amounts."""

    title: Annotated[Text, Field(max_length=MAX_TITLE_LENGTH), NOT_NULL] = Field(
        default_factory=str, description="What the card says."
    )
    group: Annotated[wire.BrandGroupName, NOT_NULL] = Field(
        default_factory=lambda: "other", description="The group that it is shown in."
    )
    available_amounts: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_AMOUNT_CENTS), DIGITS]],
        Field(min_length=1, max_length=MAX_AMOUNTS),
        NOT_NULL,
    ] = Field(default_factory=list, description="In cents, the smallest first.")
    color: Annotated[Text, Field(max_length=7), NOT_NULL] = Field(
        default_factory=lambda: DEFAULT_ACCENT, description="The card's color, as #rrggbb."
    )
    issuer_code: Text | None = Field(
        None, max_length=MAX_ISSUER_CODE_LENGTH, description="What a live issuer calls it; null where that is its code."
    )

    def to_brand(self, code: str, before: GiftcardBrand | None) -> GiftcardBrand:
        provided = self.provided_fields()
        if before is None:
            missing = {name for name in ("title", "group", "available_amounts") if name not in provided}
            if missing:
                raise Invalid({name: [f"A new brand needs {name}."] for name in sorted(missing)})
            before = GiftcardBrand(code, self.title, self.group, (), DEFAULT_ACCENT)
        changes: dict[str, Any] = {
            "title": self.title.strip(),
            "section": self.group,
            "amounts": tuple(self.available_amounts),
            "accent": self.color.lower(),
            "issuer_code": strip_or_none(self.issuer_code),
        }
        column_names = {"group": "section", "available_amounts": "amounts", "color": "accent"}
        columns = {column_names.get(name, name) for name in provided}
        return replace(before, is_offered=True, **{name: value for name, value in changes.items() if name in columns})


def serialize_brand(base: str, brand: GiftcardBrand) -> wire.Brand:
    return {
        "brand_code": brand.code,
        "title": brand.title,
        "image": brand_image_url(base, brand.code),
        "available_amounts": list(brand.amounts),
    }


def serialize_managed_brand(base: str, brand: GiftcardBrand) -> wire.ManagedBrand:
    return {
        **serialize_brand(base, brand),
        "group": cast(wire.BrandGroupName, brand.section),
        "color": brand.accent,
        "issuer_code": brand.issuer_code,
        "offered": brand.is_offered,
    }


@router.get(
    "/giftcard-brands", wire.BrandGroups, scope="templates:read", summary="List gift card brands in their groups"
)
def list_giftcard_brands(request: Request, tx: RequestTransaction) -> Response:
    """Give `POST /send/giftcard` a brand_code as `giftcard_brand`, and one of its amounts."""
    base, offered = base_url(request), giftcard_queries.list_offered_brands(tx)
    groups = {
        name: {"title": title, "brands": [serialize_brand(base, brand) for brand in offered if brand.section == name]}
        for name, title in BRAND_GROUPS.items()
    }
    return json_response(groups)


def list_brands_flat(request: Request, tx: RequestTransaction) -> Response:
    """The same brands in one list, each with the title of its group. Also at `/giftcard-brands/flat`."""
    base = base_url(request)
    return json_response(
        {
            "brands": [
                wire.BrandOfGroup(**serialize_brand(base, brand), group=BRAND_GROUPS[brand.section])
                for brand in giftcard_queries.list_offered_brands(tx)
            ]
        }
    )


for path in ("/giftcard-brands-list", "/giftcard-brands/flat"):
    router.get(
        path,
        wire.BrandList,
        scope="templates:read",
        summary="List gift card brands",
        include_in_schema=path == "/giftcard-brands-list",
    )(list_brands_flat)


@router.put(
    "/giftcard-brands/{brand_code}",
    wire.ManagedBrand,
    errors=[404, *BODY_ERRORS],
    dependencies=CAN_MANAGE_BRANDS,
    summary="Make or change a gift card brand",
)
def put_giftcard_brand(
    request: Request,
    brand_code: BrandCode,
    body: BrandFields,
    tx: ServiceTransaction,
    container: Services,
    audit: RequestAuditWriter,
) -> Response:
    """For operators, with a live token. What was sent before keeps the title and amount that it was sent
    with; one that was deleted is offered again."""
    before = giftcard_queries.find_brands(tx, [brand_code], locked=True).get(brand_code)
    brand = body.to_brand(brand_code, before)
    if giftcard_queries.save_brand(tx, brand, now=container.clock()):
        audit.record(tx, BRAND_CHANGED, {"name": brand.code})
    return json_response(serialize_managed_brand(base_url(request), brand))


@router.delete(
    "/giftcard-brands/{brand_code}",
    MessageResponse,
    errors=[404],
    dependencies=CAN_MANAGE_BRANDS,
    summary="Offer a gift card brand no more",
)
def delete_giftcard_brand(
    brand_code: BrandCode, tx: ServiceTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """For operators, with a live token. Orders that were sent go on."""
    if giftcard_queries.retire_brand(tx, brand_code, now=container.clock()):
        audit.record(tx, BRAND_RETIRED, {"name": brand_code})
    return json_response({"message": "success"})
