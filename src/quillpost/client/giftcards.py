"""Gift cards: the brands that there are, and cards that are taken back."""

from collections.abc import Sequence
from typing import Annotated, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.orders import OrderItemDetails
from quillpost.client.requests import Kind, Request, Resource, operation
from quillpost.client.types import Doc, Id, MessageResponse

BrandGroupName = Literal["main", "food", "entertainment", "gifts", "travel", "big_box", "other"]


class Brand(TypedDict):
    brand_code: Annotated[str, Doc("What a send names it by.")]
    title: str
    image: Annotated[str, Doc("A PNG of it; it needs no token.")]
    available_amounts: Annotated[list[int], Doc("What a card of it may be worth, in cents.")]


class BrandGroup(TypedDict):
    title: Annotated[str, Doc("What the group is called.")]
    brands: list[Brand]


class BrandGroups(TypedDict):
    """By the names of the groups, whether or not there is a brand in them."""

    main: BrandGroup
    food: BrandGroup
    entertainment: BrandGroup
    gifts: BrandGroup
    travel: BrandGroup
    big_box: BrandGroup
    other: BrandGroup


class BrandOfGroup(Brand):
    group: Annotated[str, Doc("The title of its group.")]


class BrandList(TypedDict):
    brands: list[BrandOfGroup]


class ManagedBrand(Brand):
    """A brand as an operator sees it."""

    group: BrandGroupName
    color: str
    issuer_code: Annotated[str | None, Doc("What a live issuer calls it, where that is not its code.")]
    offered: bool


class BrandOptions(TypedDict, total=False):
    title: str
    group: BrandGroupName
    available_amounts: Sequence[int]
    color: str
    issuer_code: str | None


class InvalidatedItem(OrderItemDetails):
    reissued_as: Annotated[int | None, Doc("The order that brings another card in its place.")]


class InvalidationOptions(TypedDict, total=False):
    reissue: bool
    reason: str


class Giftcards(Resource[Kind]):
    @operation("GET /giftcard-brands")
    def brands(self) -> Request[BrandGroups]:
        """The brands in their groups."""
        return Request()

    @operation("GET /giftcard-brands-list")
    def brand_list(self) -> Request[BrandList]:
        """The brands in one list."""
        return Request()

    @operation("PUT /giftcard-brands/{brand_code}")
    def put_brand(self, brand_code: str, **fields: Unpack[BrandOptions]) -> Request[ManagedBrand]:
        """Make a brand, or change what is named. For operators."""
        return Request(brand_code, body=fields)

    @operation("DELETE /giftcard-brands/{brand_code}")
    def delete_brand(self, brand_code: str) -> Request[MessageResponse]:
        """Offer a brand no more; what was sent goes on. For operators."""
        return Request(brand_code)

    @operation("PUT /order-items/{item_id}/invalidate-giftcard")
    def invalidate(self, item_id: Id, **how: Unpack[InvalidationOptions]) -> Request[InvalidatedItem]:
        """Take a card back that nobody has claimed, its value with it; `reissue`: send another instead."""
        return Request(item_id, body=how)
