"""Bodies of gift card brands."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from quillpost.client import giftcards as wire
from quillpost.core.errors import Invalid
from quillpost.orders.giftcards.rules import (
    DEFAULT_ACCENT,
    MAX_AMOUNT_CENTS,
    MAX_AMOUNTS,
    MAX_ISSUER_CODE_LENGTH,
    MAX_TITLE_LENGTH,
    GiftcardBrand,
)
from quillpost.web.api.schemas import DIGITS, Body, Text, accepts, strip_or_none
from quillpost.web.api.templates.schemas import NOT_NULL


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
