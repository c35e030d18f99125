"""A radius search as callers write it, within a send or by itself."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic.json_schema import SkipJsonSchema

from quillpost.core.errors import Invalid
from quillpost.recipients.leads.rules import (
    ALL,
    FARTHEST_MILES,
    FEWEST,
    MOST,
    RECORD_TYPES,
    UNLESS_SAID,
    Search,
    read_record_types,
)
from quillpost.web.api.bodies import (
    NOT_BLANK,
    NULL_IS_LEFT_OUT,
    Body,
    FormText,
    Id,
    Switch,
    Text,
    integer_of,
    read_body,
    said,
    written_integer,
)
from quillpost.web.api.send.schemas import STATE_NAMES, ZIP_NAMES

LONGEST = 300
NO_CENTER = "Give radius_center, the address to search around, as well."
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


def _decimal_of_form(value: object) -> object:
    with suppress(ValueError):
        return float(value) if isinstance(value, FormText) else value
    return value


def _reachable(miles: float) -> float:
    if not 0 < miles <= FARTHEST_MILES:
        raise ValueError(f"Give more than 0 and at most {FARTHEST_MILES} miles.")
    return miles


Miles = Annotated[
    float,
    Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": FARTHEST_MILES}),
    BeforeValidator(_decimal_of_form),
    AfterValidator(_reachable),
]


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


RecordCount = Annotated[
    int,
    Field(json_schema_extra={"minimum": FEWEST, "maximum": MOST}),
    BeforeValidator(_digits_of_form),
    AfterValidator(_countable),
]


RecordTypes = Annotated[Text, Field(max_length=LONGEST_TYPES), AfterValidator(_known_types)]


class RadiusCenter(Body):
    """What other clients search around: an address whole on one line, or in parts."""

    address: Annotated[Text, AfterValidator(_addressed)] = Field(max_length=LONGEST)
    address2: Text | None = Field(None, max_length=LONGEST)
    city: Text | None = Field(None, max_length=LONGEST)
    province: Text | None = Field(None, max_length=LONGEST, validation_alias=STATE_NAMES)
    postal_code: Text | None = Field(None, max_length=20, validation_alias=ZIP_NAMES)
    country: Text | None = Field(None, max_length=LONGEST)

    @property
    def line(self) -> str:
        """The whole on one line."""
        region = " ".join(filter(None, (said(self.province), said(self.postal_code))))
        return ", ".join(filter(None, (self.address, said(self.address2), said(self.city), region)))

    @classmethod
    def of(cls, value: object) -> object:
        """The address alone is as good as an object with nothing else."""
        return {"address": str(value)} if isinstance(value, str) else value


Center = Annotated[RadiusCenter, BeforeValidator(RadiusCenter.of)]


class AroundCenter(Body):
    """A search as other clients write it into a send: beside each other what we have in one object."""

    radius_center: Annotated[Center | None, SkipJsonSchema()] = None
    radius_distance_miles: Annotated[Miles | None, SkipJsonSchema()] = None
    record_count: Annotated[RecordCount | None, SkipJsonSchema()] = None
    record_types: Annotated[RecordTypes | None, SkipJsonSchema()] = None

    def around(self, faults: dict[str, list[str]]) -> Search | None:
        if self.radius_center is None:
            if self.radius_distance_miles is not None:
                faults["radius_distance_miles"] = [NO_CENTER]
            return None
        return Search(
            address=self.radius_center.line,
            postal_code=said(self.radius_center.postal_code),
            record_count=self.record_count or UNLESS_SAID,
            record_types=read_record_types(self.record_types or ALL),
            within_miles=self.radius_distance_miles,
            field="radius_center",
        )


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
        None,
        max_length=20,
        validation_alias=ZIP_NAMES,
        description="Its ZIP code, where the address does not end with it; `zip` is taken, too.",
    )
    record_count: Annotated[RecordCount, NULL_IS_LEFT_OUT] = Field(
        UNLESS_SAID, description="How many to find at most, 1 to 10,000; each costs 5 cents.", examples=[100]
    )
    distance_miles: Miles | None = Field(
        None,
        validation_alias=AliasChoices("distance_miles", "radius_distance_miles"),
        description="None that is farther; `radius_distance_miles` is taken, too.",
        examples=[2.5],
    )
    record_types: Annotated[RecordTypes, NULL_IS_LEFT_OUT] = Field(
        ALL,
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
            within_miles=self.distance_miles,
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
    radius_center: Annotated[Center | None, SkipJsonSchema()] = None

    @model_validator(mode="before")
    @classmethod
    def _around_a_center(cls, sent: Any) -> Any:
        """`radius_center` is as good as an address, where there is none."""
        center = sent.get("radius_center") if isinstance(sent, Mapping) else None
        if center is None or sent.get("address") is not None:
            return sent
        try:
            line = read_body(RadiusCenter, RadiusCenter.of(center)).line
        except Invalid as wrong:
            raise Invalid({f"radius_center.{name}": told for name, told in wrong.fields.items()}) from None
        return {**sent, "address": line[:LONGEST]}

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        is_beside = isinstance(sent, Mapping) and sent.get("address") is not None
        return super().ignored_in(sent) | ({"radius_center"} & _given(sent) if is_beside else set())


def ignored_in_radius(sent: Any) -> set[str]:
    """Fields of a send's search that mean nothing to us."""
    if not isinstance(sent, dict):
        return set()
    names = {f"radius_search.{name}" for name in RadiusOfSend.ignored_in(sent.get("radius_search"))}
    if sent.get("radius_search") is not None:
        return names | (OF_CENTER & _given(sent))
    if sent.get("radius_center") is None:
        return names | ((OF_CENTER - {"radius_distance_miles"}) & _given(sent))
    center = RadiusCenter.of(sent["radius_center"])
    return names | {f"radius_center.{name}" for name in RadiusCenter.ignored_in(center)}


def _given(sent: Mapping[str, Any]) -> set[str]:
    """Fields that have a value: null is as good as left out."""
    return {name for name, value in sent.items() if value is not None}


OF_CENTER = AroundCenter.model_fields.keys()
