"""A radius search as callers write it, within a send or by itself."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict

from quillpost.api.bodies import (
    NOT_BLANK,
    NULL_IS_LEFT_OUT,
    Body,
    FormText,
    Id,
    Switch,
    Text,
    integer_of,
    said,
    written_integer,
)
from quillpost.leads.rules import FEWEST, MOST, Search, read_record_types
from quillpost.leads.tags import ALL, RECORD_TYPES

LONGEST = 300
LONGEST_TYPES = 1_000
MOST_DAYS = 3_650

EXAMPLE: JsonDict = {
    "address": "1100 Congress Ave, Austin, TX 78701",
    "record_count": 100,
    "record_types": "all",
}


def _digits_of_form(value: object) -> object:
    """A form knows texts alone; in JSON a number is a number."""
    number = written_integer(value) if isinstance(value, FormText) else None
    return integer_of(value) if number is None else number


def _countable(number: int) -> int:
    if not FEWEST <= number <= MOST:
        raise ValueError(f"Ask for {FEWEST:,} to {MOST:,} records.")
    return number


def _some_days(number: int | None) -> int | None:
    if number is not None and not 1 <= number <= MOST_DAYS:
        raise ValueError(f"Give 1 to {MOST_DAYS:,} days.")
    return number


def _addressed(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the address to search around, as 12 Main St, Austin, TX 78701.")
    return text.strip()


def _known_types(text: str) -> str:
    read_record_types(text)
    return text


class RadiusFields(Body):
    """The nearest addresses to one that is known."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    address: Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_addressed)] = (
        Field(
            max_length=LONGEST,
            description="What to search around: the full street address on one line.",
            examples=[EXAMPLE["address"]],
        )
    )
    postal_code: Text | None = Field(
        None, max_length=20, description="Its ZIP code, where the address does not end with it."
    )
    record_count: Annotated[
        int,
        Field(json_schema_extra={"minimum": FEWEST, "maximum": MOST}),
        BeforeValidator(_digits_of_form),
        AfterValidator(_countable),
    ] = Field(description="How many to find, 1 to 10,000; each costs 5 cents.", examples=[100])
    record_types: Annotated[Text, AfterValidator(_known_types), NULL_IS_LEFT_OUT] = Field(
        ALL,
        max_length=LONGEST_TYPES,
        description=f"Records of any of these kinds, with commas between them: {', '.join(RECORD_TYPES)}.",
        examples=["newhomeowner,likelytomove"],
    )
    include_condos: Switch = Field(True, description="False: no condominiums.")
    include_businesses: Switch = Field(True, description="False: homes alone.")
    use_property_owner: Switch = Field(
        False,
        description="Write to the owner, where that is someone who lives elsewhere; `absentee_address` of"
        " events is the address that was found.",
    )
    include_search_address: Switch = Field(False, description="True: the address itself may be among them.")
    exclude_already_mailed: Switch = Field(
        False, description="Leave out addresses that mail of this account went to."
    )
    mailed_within_days: Annotated[
        int | None,
        Field(json_schema_extra={"minimum": 1, "maximum": MOST_DAYS}),
        BeforeValidator(_digits_of_form),
        AfterValidator(_some_days),
    ] = Field(None, description="With exclude_already_mailed: only those of the last so many days.")

    def search(self) -> Search:
        return Search(
            address=self.address,
            postal_code=said(self.postal_code),
            record_count=self.record_count,
            record_types=read_record_types(self.record_types),
            include_condos=self.include_condos,
            include_businesses=self.include_businesses,
            use_property_owner=self.use_property_owner,
            include_search_address=self.include_search_address,
            exclude_already_mailed=self.exclude_already_mailed,
            mailed_within_days=self.mailed_within_days,
        )


class RadiusOfSend(RadiusFields):
    """The nearest addresses to one that is known, bought for this send."""

    preview: Switch = Field(
        False, description="Answer with how many there are and what it would cost; no order is made."
    )


class RadiusCall(RadiusFields):
    """A search by itself."""

    mailing_list_id: Id | None = Field(
        None, description="The list that they go onto, or would; who is on it already is not bought again."
    )
    sub_account_id: Id | None = Field(None, description="The sub account that a new list belongs to.")
    description: Text | None = Field(
        None, max_length=LONGEST, description="What a new list is called; else it is named after the address."
    )
    name: Text | None = Field(None, max_length=LONGEST, description="The same as description.")


def ignored_in_radius(sent: Any) -> set[str]:
    """Fields of a send's search that mean nothing to us."""
    given = sent.get("radius_search") if isinstance(sent, dict) else None
    return {f"radius_search.{name}" for name in RadiusOfSend.ignored_in(given)}
