"""A radius search as callers write it, within a send or by itself."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from quillpost.client import mailing_lists as wire
from quillpost.core.errors import Invalid
from quillpost.recipients.leads.rules import (
    ALL_RECORDS,
    DEFAULT_RECORDS,
    MAX_MILES,
    MAX_RECORDS,
    MIN_RECORDS,
    RECORD_TYPES,
    LeadSearch,
    read_record_types,
)
from quillpost.web.api.schemas import (
    NOT_BLANK,
    NULL_MEANS_DEFAULT,
    Body,
    FormText,
    Id,
    OptionalFlag,
    Text,
    accepts,
    parse_integer,
    strip_or_none,
    to_integer,
    validate_body,
)
from quillpost.web.api.send.schemas import STATE_NAMES, ZIP_NAMES

MAX_LENGTH = 300
CENTER_REQUIRED = "Give radius_center, the address to search around, as well."
MAX_TYPES_LENGTH = 1_000
MAX_DAYS = 3_650


def _parse_form_integer(value: object) -> object:
    """A form knows texts alone; in JSON a number is a number."""
    number = parse_integer(value) if isinstance(value, FormText) else None
    return to_integer(value) if number is None else number


def _check_record_count(number: int) -> int:
    if not MIN_RECORDS <= number <= MAX_RECORDS:
        raise ValueError(f"Ask for {MIN_RECORDS:,} to {MAX_RECORDS:,} records.")
    return number


def _parse_form_decimal(value: object) -> object:
    with suppress(ValueError):
        return float(value) if isinstance(value, FormText) else value
    return value


def _check_miles(miles: float) -> float:
    if not 0 < miles <= MAX_MILES:
        raise ValueError(f"Give more than 0 and at most {MAX_MILES} miles.")
    return miles


Miles = Annotated[
    float,
    Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": MAX_MILES}),
    BeforeValidator(_parse_form_decimal),
    AfterValidator(_check_miles),
]


def _check_days(number: int | None) -> int | None:
    if number is not None and not 1 <= number <= MAX_DAYS:
        raise ValueError(f"Give 1 to {MAX_DAYS:,} days.")
    return number


def _require_address(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the address to search around, as 12 Main St, Austin, TX 78701.")
    return text.strip()


def _check_record_types(text: str) -> str:
    read_record_types(text)
    return text


RecordCount = Annotated[
    int,
    Field(json_schema_extra={"minimum": MIN_RECORDS, "maximum": MAX_RECORDS}),
    BeforeValidator(_parse_form_integer),
    AfterValidator(_check_record_count),
]

RecordTypes = Annotated[Text, Field(max_length=MAX_TYPES_LENGTH), AfterValidator(_check_record_types)]


class RadiusCenter(Body):
    """What other clients search around: an address whole on one line, or in parts."""

    address: Annotated[Text, AfterValidator(_require_address)] = Field(max_length=MAX_LENGTH)
    address2: Text | None = Field(None, max_length=MAX_LENGTH)
    city: Text | None = Field(None, max_length=MAX_LENGTH)
    province: Text | None = Field(None, max_length=MAX_LENGTH, validation_alias=STATE_NAMES)
    postal_code: Text | None = Field(None, max_length=20, validation_alias=ZIP_NAMES)
    country: Text | None = Field(None, max_length=MAX_LENGTH)

    @property
    def single_line(self) -> str:
        region = " ".join(filter(None, (strip_or_none(self.province), strip_or_none(self.postal_code))))
        return ", ".join(filter(None, (self.address, strip_or_none(self.address2), strip_or_none(self.city), region)))

    @classmethod
    def from_value(cls, value: object) -> object:
        """The address alone is as good as an object with nothing else."""
        return {"address": str(value)} if isinstance(value, str) else value


Center = Annotated[RadiusCenter, BeforeValidator(RadiusCenter.from_value)]


class RadiusCenterFields(Body):
    """A search as other clients write it into a send: beside each other what we have in one object."""

    radius_center: Annotated[Center | None, SkipJsonSchema()] = None
    radius_distance_miles: Annotated[Miles | None, SkipJsonSchema()] = None
    record_count: Annotated[RecordCount | None, SkipJsonSchema()] = None
    record_types: Annotated[RecordTypes | None, SkipJsonSchema()] = None

    def center_search(self, errors: dict[str, list[str]]) -> LeadSearch | None:
        if self.radius_center is None:
            if self.radius_distance_miles is not None:
                errors["radius_distance_miles"] = [CENTER_REQUIRED]
            return None
        return LeadSearch(
            address=self.radius_center.single_line,
            postal_code=strip_or_none(self.radius_center.postal_code),
            record_count=self.record_count or DEFAULT_RECORDS,
            record_types=read_record_types(self.record_types or ALL_RECORDS),
            within_miles=self.radius_distance_miles,
            field="radius_center",
        )


@accepts(wire.RadiusSearch)
class RadiusFields(Body):
    """The nearest addresses to one that is known."""

    address: Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_address)] = Field(
        max_length=MAX_LENGTH,
        description="What to search around: the full street address on one line.",
        examples=["1100 Congress Ave, Austin, TX 78701"],
    )
    postal_code: Text | None = Field(
        None,
        max_length=20,
        validation_alias=ZIP_NAMES,
        description="Its ZIP code, where the address does not end with it; `zip` is taken, too.",
    )
    record_count: Annotated[RecordCount, NULL_MEANS_DEFAULT] = Field(
        DEFAULT_RECORDS, description="How many to find at most, 1 to 10,000; each costs 5 cents.", examples=[100]
    )
    distance_miles: Miles | None = Field(
        None,
        validation_alias=AliasChoices("distance_miles", "radius_distance_miles"),
        description="None that is farther; `radius_distance_miles` is taken, too.",
        examples=[2.5],
    )
    record_types: Annotated[RecordTypes, NULL_MEANS_DEFAULT] = Field(
        ALL_RECORDS,
        description=f"Records of any of these kinds, with commas between them: {', '.join(RECORD_TYPES)}.",
        examples=["newhomeowner,likelytomove"],
    )
    include_condos: OptionalFlag = Field(True, description="False: no condominiums.")
    include_businesses: OptionalFlag = Field(True, description="False: homes alone.")
    use_property_owner: OptionalFlag = Field(
        False,
        description="Write to the owner, where that is someone who lives elsewhere; `absentee_address` of"
        " events is the address that was found.",
    )
    include_search_address: OptionalFlag = Field(False, description="True: the address itself may be among them.")
    exclude_already_mailed: OptionalFlag = Field(
        False, description="Leave out addresses that mail of this account went to."
    )
    mailed_within_days: Annotated[
        int | None,
        Field(json_schema_extra={"minimum": 1, "maximum": MAX_DAYS}),
        BeforeValidator(_parse_form_integer),
        AfterValidator(_check_days),
    ] = Field(None, description="With exclude_already_mailed: only those of the last so many days.")

    def to_search(self) -> LeadSearch:
        return LeadSearch(
            address=self.address,
            postal_code=strip_or_none(self.postal_code),
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


@accepts(wire.RadiusSearch, beside={"preview"})
class RadiusOfSend(RadiusFields):
    """The nearest addresses to one that is known, bought for this send."""

    preview: OptionalFlag = Field(
        False, description="Answer with how many there are and what it would cost; no order is made."
    )


@accepts(wire.RadiusOptions)
class RadiusCall(RadiusFields):
    """A search by itself."""

    mailing_list_id: Id | None = Field(
        None, description="The list that they go onto, or would; who is on it already is not bought again."
    )
    sub_account_id: Id | None = Field(None, description="The sub account that a new list belongs to.")
    description: Text | None = Field(
        None, max_length=MAX_LENGTH, description="What a new list is called; else it is named after the address."
    )
    name: Text | None = Field(None, max_length=MAX_LENGTH, description="The same as description.")
    radius_center: Annotated[Center | None, SkipJsonSchema()] = None

    @model_validator(mode="before")
    @classmethod
    def _address_from_center(cls, payload: Any) -> Any:
        """`radius_center` is as good as an address, where there is none."""
        center = payload.get("radius_center") if isinstance(payload, Mapping) else None
        if center is None or payload.get("address") is not None:
            return payload
        try:
            address = validate_body(RadiusCenter, RadiusCenter.from_value(center)).single_line
        except Invalid as error:
            raise Invalid({f"radius_center.{name}": messages for name, messages in error.fields.items()}) from None
        return {**payload, "address": address[:MAX_LENGTH]}

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        has_address = isinstance(payload, Mapping) and payload.get("address") is not None
        return super().ignored_in(payload) | ({"radius_center"} & _names_with_value(payload) if has_address else set())


def find_ignored_in_radius(payload: Any) -> set[str]:
    if not isinstance(payload, dict):
        return set()
    names = {f"radius_search.{name}" for name in RadiusOfSend.ignored_in(payload.get("radius_search"))}
    if payload.get("radius_search") is not None:
        return names | (CENTER_FIELDS & _names_with_value(payload))
    if payload.get("radius_center") is None:
        return names | ((CENTER_FIELDS - {"radius_distance_miles"}) & _names_with_value(payload))
    center = RadiusCenter.from_value(payload["radius_center"])
    return names | {f"radius_center.{name}" for name in RadiusCenter.ignored_in(center)}


def _names_with_value(payload: Mapping[str, Any]) -> set[str]:
    """Fields that have a value: null is as good as left out."""
    return {name for name, value in payload.items() if value is not None}


CENTER_FIELDS = RadiusCenterFields.model_fields.keys()
