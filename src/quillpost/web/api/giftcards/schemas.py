"""Gift card brands, and how a send names its card."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema

from quillpost.orders.giftcards.rules import BRAND_GROUPS
from quillpost.web.api.bodies import DIGITS, WholeNumber

Group = Literal["main", "food", "entertainment", "gifts", "travel", "big_box", "other"]

BRAND_EXAMPLE: JsonDict = {
    "brand_code": "brindlewick",
    "title": "Brindlewick Coffee",
    "image": "https://mail.example.com/giftcards/brindlewick.png",
    "available_amounts": [500, 1000, 1500, 2500, 5000],
}
MANAGED_BRAND_EXAMPLE: JsonDict = {
    **BRAND_EXAMPLE,
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
                    name: {"title": title, "brands": [BRAND_EXAMPLE] if name == "main" else []}
                    for name, title in BRAND_GROUPS.items()
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
        json_schema_extra={"examples": [{"brands": [{**BRAND_EXAMPLE, "group": BRAND_GROUPS["main"]}]}]}
    )

    brands: list[BrandOfGroup]


class ManagedBrand(Brand):
    """A brand as an operator sees it."""

    model_config = ConfigDict(json_schema_extra={"examples": [MANAGED_BRAND_EXAMPLE]})

    group: Group
    color: str
    issuer_code: str | None = Field(description="What a live issuer calls it, where that is not its code.")
    offered: bool


LEGACY_AMOUNT_FIELD = "giftcard_amount_in_cents"
"""What the amount was called in earlier versions. It is no field of this one and is not described: silence
would lose money, so it is refused, unless the operator has turned it on for old clients."""

Amount = WholeNumber
"""Without bounds: the brand answers for every amount that is none of its own, and names those that are."""
SavedAmount = Annotated[int, Field(ge=1, le=2**31 - 1), DIGITS]
"""With bounds, as it may be saved with a template of another piece, where no brand answers for it."""
LegacyAmount = Annotated[Amount | None, SkipJsonSchema()]


def check_legacy_amount(legacy_amount: int | None, *, is_allowed: bool) -> str | None:
    """What is wrong with an amount under its old name, where one was given. Where it is taken, the specified
    name wins."""
    return None if legacy_amount is None or is_allowed else "Use giftcard_amount: it is in cents, too."


def find_ignored_legacy_amount(payload: Any) -> set[str]:
    """The old name beside the specified one, which wins: it changes nothing."""
    names = ("giftcard_amount", LEGACY_AMOUNT_FIELD)
    has_both = isinstance(payload, Mapping) and all(payload.get(name) is not None for name in names)
    return {LEGACY_AMOUNT_FIELD} if has_both else set()
