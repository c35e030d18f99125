"""Gift cards: the brands that there are, and cards that are taken back."""

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from quillpost.client.orders import OrderItemRead
from quillpost.client.requests import Id, Kind, Request, Resource, operation
from quillpost.client.responses import Message

BrandGroupName = Literal["main", "food", "entertainment", "gifts", "travel", "big_box", "other"]


class Brand(TypedDict):
    """`available_amounts` are in cents."""

    brand_code: str
    title: str
    image: str
    available_amounts: list[int]


class BrandGroup(TypedDict):
    title: str
    brands: list[Brand]


class BrandGroups(TypedDict):
    main: BrandGroup
    food: BrandGroup
    entertainment: BrandGroup
    gifts: BrandGroup
    travel: BrandGroup
    big_box: BrandGroup
    other: BrandGroup


class BrandOfGroup(Brand):
    """`group` is the title of its group."""

    group: str


class BrandList(TypedDict):
    brands: list[BrandOfGroup]


class ManagedBrand(Brand):
    """A brand as an operator sees it; `group` is the group's name."""

    group: BrandGroupName
    color: str
    issuer_code: str | None
    offered: bool


class BrandFields(TypedDict, total=False):
    title: str
    group: BrandGroupName
    available_amounts: Sequence[int]
    color: str
    issuer_code: str | None


class InvalidatedItem(OrderItemRead):
    """`reissued_as` is the order that brings another card."""

    reissued_as: int | None


class Invalidation(TypedDict, total=False):
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
    def put_brand(self, brand_code: str, **fields: Unpack[BrandFields]) -> Request[ManagedBrand]:
        """Make a brand, or change what is named. For operators."""
        return Request(brand_code, body=fields)

    @operation("DELETE /giftcard-brands/{brand_code}")
    def delete_brand(self, brand_code: str) -> Request[Message]:
        """Offer a brand no more; what was sent goes on. For operators."""
        return Request(brand_code)

    @operation("PUT /order-items/{item_id}/invalidate-giftcard")
    def invalidate(self, item_id: Id, **how: Unpack[Invalidation]) -> Request[InvalidatedItem]:
        """Take a card back that nobody has claimed, its value with it; `reissue`: send another instead."""
        return Request(item_id, body=how)
