"""Gift card brands as the API description shows them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from quillpost.giftcards.rules import GROUPS

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
