"""Gift card brands, and how a send names its card."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema

from quillpost.orders.giftcards.rules import GROUPS
from quillpost.web.api.bodies import DIGITS, Whole

Group = Literal["main", "food", "entertainment", "gifts", "travel", "big_box", "other"]

BRAND: JsonDict = {
    "brand_code": "brindlewick",
    "title": "Brindlewick Coffee",
    "image": "https://mail.example.com/giftcards/brindlewick.png",
    "available_amounts": [500, 1000, 1500, 2500, 5000],
}
MANAGED: JsonDict = {
    **BRAND,
    "group": "main",
    "color": "#5b3a29",
    "issuer_code": None,
    "offered": True,
}


class Brand(BaseModel):
    brand_code: str = Field(description="What a send names it by.")
    title: str
    image: str = Field(description="A PNG of it; it needs no token.")
    available_amounts: list[int] = Field(description="What a card of it may be worth, in cents.")


class BrandGroup(BaseModel):
    title: str = Field(description="What the group is called.")
    brands: list[Brand]


class BrandGroups(BaseModel):
    """By the names of the groups, whether or not there is a brand in them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    name: {"title": title, "brands": [BRAND] if name == "main" else []}
                    for name, title in GROUPS.items()
                }
            ]
        }
    )

    main: BrandGroup
    food: BrandGroup
    entertainment: BrandGroup
    gifts: BrandGroup
    travel: BrandGroup
    big_box: BrandGroup
    other: BrandGroup


class BrandOfGroup(Brand):
    group: str = Field(description="The title of its group.")


class BrandList(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"brands": [{**BRAND, "group": GROUPS["main"]}]}]}
    )

    brands: list[BrandOfGroup]


class ManagedBrand(Brand):
    """A brand as an operator sees it."""

    model_config = ConfigDict(json_schema_extra={"examples": [MANAGED]})

    group: Group
    color: str
    issuer_code: str | None = Field(description="What a live issuer calls it, where that is not its code.")
    offered: bool


OLD_AMOUNT = "giftcard_amount_in_cents"
"""What the amount was called in earlier versions. It is no field of this one and is not described: silence
would lose money, so it is refused, unless the operator has turned it on for old clients."""

Amount = Whole
"""Without bounds: the brand answers for every amount that is none of its own, and names those that are."""
SavedAmount = Annotated[int, Field(ge=1, le=2**31 - 1), DIGITS]
"""With bounds, as it may be saved with a template of another piece, where no brand answers for it."""
OldAmount = Annotated[Amount | None, SkipJsonSchema()]


def wrong_old_amount(old: int | None, *, is_taken: bool) -> str | None:
    """What is wrong with an amount under its old name, where one was given. Where it is taken, the specified
    name wins."""
    return None if old is None or is_taken else "Use giftcard_amount: it is in cents, too."


def ignored_old_amount(sent: Any) -> set[str]:
    """The old name beside the specified one, which wins: it changes nothing."""
    both = ("giftcard_amount", OLD_AMOUNT)
    is_beside = isinstance(sent, Mapping) and all(sent.get(name) is not None for name in both)
    return {OLD_AMOUNT} if is_beside else set()
