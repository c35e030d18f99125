"""The gift cards that can be sent: brands in their groups, and how operators change them."""

from typing import Annotated, cast

from fastapi import Path, Request, Response

from quillpost.client import giftcards as wire
from quillpost.client.types import MessageResponse
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import BRAND_GROUPS, GiftcardBrand
from quillpost.web.api.dependencies import (
    RequestAuditWriter,
    RequestTransaction,
    ServiceTransaction,
    require_live_operator,
)
from quillpost.web.api.giftcards.schemas import BrandFields
from quillpost.web.api.orders.responses import brand_image_url
from quillpost.web.api.responses import json_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.dependencies import Services, base_url

router = ApiRouter("Gift cards", resource="templates")

BrandCode = Annotated[str, Path(description="The brand's code.", examples=["brindlewick"])]


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


@router.get("/giftcard-brands", wire.BrandGroups, summary="List gift card brands in their groups")
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
        path, wire.BrandList, summary="List gift card brands", include_in_schema=path == "/giftcard-brands-list"
    )(list_brands_flat)


@router.put(
    "/giftcard-brands/{brand_code}",
    wire.ManagedBrand,
    authorize=require_live_operator,
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
        audit.record(tx, "brand.changed", {"name": brand.code})
    return json_response(serialize_managed_brand(base_url(request), brand))


@router.delete(
    "/giftcard-brands/{brand_code}",
    MessageResponse,
    authorize=require_live_operator,
    summary="Offer a gift card brand no more",
)
def delete_giftcard_brand(
    brand_code: BrandCode, tx: ServiceTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """For operators, with a live token. Orders that were sent go on."""
    if giftcard_queries.retire_brand(tx, brand_code, now=container.clock()):
        audit.record(tx, "brand.retired", {"name": brand_code})
    return json_response({"message": "success"})
