"""Bodies of mailing lists."""

from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field

from quillpost.app.container import Container
from quillpost.client import recipients as wire
from quillpost.client.mailing_lists import ListUpdate
from quillpost.core.errors import Invalid
from quillpost.orders.templates.rules import MAX_URL_LENGTH, saved_url_error
from quillpost.web.api.schemas import (
    NOT_BLANK,
    NULL_MEANS_DEFAULT,
    Body,
    Flag,
    Id,
    OptionalFlag,
    Text,
    accepts,
    strip_or_none,
)

MAX_DESCRIPTION_LENGTH = 300


def _require_description(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the list a description.")
    return text.strip()


Description = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_description)]


class ListFields(Body):
    """What both a new list and a changed one may have."""

    qrcode_url: Annotated[Text | None, AfterValidator(strip_or_none)] = Field(
        None, max_length=MAX_URL_LENGTH, description="Where QR codes on mail to this list lead."
    )
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that it belongs to; null is none.",
    )

    suppress_by: wire.SuppressBy | None = Field(
        None,
        description="Of a suppression list, whom an entry bars: everyone at its address, as when nothing is"
        " said; its household, those of its family name at its address; or its email, wherever they live.",
    )

    def columns(self, container: Container) -> dict[str, Any]:
        error = saved_url_error(self.qrcode_url, container.check_url) if self.qrcode_url else None
        if error is not None:
            raise Invalid({"qrcode_url": [error]})
        columns = self.provided_fields()
        if columns.get("suppress_by", "") is None:
            del columns["suppress_by"]
        return columns


@accepts(ListUpdate)
class NewMailingList(ListFields):
    description: Description = Field(
        max_length=MAX_DESCRIPTION_LENGTH,
        validation_alias=AliasChoices("description", "name"),
        description="What you call it.",
        examples=["Open house visitors"],
    )
    type: Annotated[wire.ListType, NULL_MEANS_DEFAULT] = Field("manual", description="Where its people come from.")
    is_suppression_list: OptionalFlag = Field(False, description="Whoever is on it is mailed nothing.")

    def columns(self, container: Container) -> dict[str, Any]:
        defaults = {"type": self.type, "is_suppression_list": self.is_suppression_list}
        return defaults | super().columns(container)


@accepts(ListUpdate)
class ChangedMailingList(ListFields):
    # Each default stands for "stays"; null is none of them.
    description: Description = Field(
        default_factory=str,
        max_length=MAX_DESCRIPTION_LENGTH,
        validation_alias=AliasChoices("description", "name"),
        description="What you call it.",
    )
    type: wire.ListType = Field(default_factory=lambda: "manual", description="Where its people come from.")
    is_suppression_list: Flag = Field(default_factory=bool, description="Whoever is on it is mailed nothing.")


class Merge(Body):
    into: Id = Field(description="The list that takes everyone in.")
