"""Bodies and responses of recipients."""

from collections.abc import Mapping, Set
from typing import Annotated, Any, ClassVar, Optional

from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)

from quillpost.client import recipients as wire
from quillpost.recipients.rules import MAX_FIELD_LENGTH
from quillpost.web.api.errors import to_invalid
from quillpost.web.api.schemas import (
    Body,
    Id,
    QueryText,
    accepts,
    drop_shadowed_nulls,
    find_ignored_in_rows,
    require_one_text,
)
from quillpost.web.api.send.schemas import (
    RECIPIENT_FIELDS,
    STATE_DESCRIPTION,
    STATE_NAMES,
    ZIP_DESCRIPTION,
    ZIP_NAMES,
    OptionalLine,
    RecipientRow,
    drop_alias_nulls,
    known_names,
)


class RecipientsAdded(RootModel[list[wire.Recipient | wire.RefusedRecipient]]):
    """A row for each that was given, in their order."""


LIST_FIELD, LIST_ALIAS = "mailing_list_id", "mailing_list"
LIST_NAMES = AliasChoices(LIST_FIELD, LIST_ALIAS)


class AddressParts(Body):
    address2: OptionalLine = Field(None, description="Unit.")
    city: OptionalLine = Field(None, description="City.")
    province: OptionalLine = Field(None, validation_alias=STATE_NAMES, description=STATE_DESCRIPTION)
    postal_code: OptionalLine = Field(None, validation_alias=ZIP_NAMES, description=ZIP_DESCRIPTION)
    country: OptionalLine = Field(None, description="Two letters; US when missing.")

    def person_fields(self) -> dict[str, str | None]:
        return {name: value for name, value in self.provided_fields().items() if name in RECIPIENT_FIELDS}


@accepts(wire.InlineRecipient)
class PersonFields(AddressParts):
    name: OptionalLine = Field(None, description="Whom to write to.")
    company: OptionalLine = Field(None, description="The company, below the name.")
    address: OptionalLine = Field(None, description="Street and number, or the whole address on one line.")
    dob: OptionalLine = Field(None, description="YYYY-MM-DD or MM/DD/YYYY.")
    anniversary: OptionalLine = Field(None, description="Any day of each year: YYYY-MM-DD or MM/DD/YYYY.")
    email: OptionalLine = Field(None, description="E-mail address.")
    phone: OptionalLine = Field(None, description="Phone.")
    custom1: OptionalLine = Field(None, description="Yours; %CUSTOM1% shows it.")
    custom2: OptionalLine = Field(None, description="Yours; %CUSTOM2% shows it.")
    custom3: OptionalLine = Field(None, description="Yours; %CUSTOM3% shows it.")
    custom4: OptionalLine = Field(None, description="Yours; %CUSTOM4% shows it.")
    custom5: OptionalLine = Field(None, description="Yours; %CUSTOM5% shows it.")
    custom6: OptionalLine = Field(None, description="Yours; %CUSTOM6% shows it.")
    custom7: OptionalLine = Field(None, description="Yours; %CUSTOM7% shows it.")
    custom8: OptionalLine = Field(None, description="Yours; %CUSTOM8% shows it.")
    custom9: OptionalLine = Field(None, description="Yours; %CUSTOM9% shows it.")
    custom10: OptionalLine = Field(None, description="Yours; %CUSTOM10% shows it.")


@accepts(wire.ListedRecipient)
class NewRecipient(PersonFields):
    """An address in parts, or whole on one line, or at least an e-mail."""

    model_config = ConfigDict(json_schema_extra=require_one_text("address", "email"))

    mailing_list_id: Id = Field(validation_alias=LIST_NAMES, description="The list to be on.")


@accepts(wire.RecipientUpdate)
class ChangedRecipient(PersonFields):
    mailing_list_id: Id = Field(
        default_factory=int,  # stands for "stays"; null is no list
        validation_alias=LIST_NAMES,
        description="Another list to be on instead.",
    )


def _drop_alias_nulls(row: Any) -> Any:
    return drop_shadowed_nulls(drop_alias_nulls(row), [(LIST_FIELD, LIST_ALIAS)])


@accepts(wire.ListedRecipient)
@with_config(ConfigDict(strict=True, extra="allow"))
class BulkRecipient(RecipientRow, total=False):
    """One of many: on a list, with an address in parts, or whole on one line, or at least an e-mail."""

    mailing_list_id: Annotated[
        Optional[Id],  # noqa: UP045 (an Annotated alias in a TypedDict)
        Field(validation_alias=LIST_NAMES, description="The list to be on.", examples=[12]),
    ]


_ROW_ADAPTER = TypeAdapter(Annotated[BulkRecipient, BeforeValidator(_drop_alias_nulls)])


def _describe_object_or_array(schema: dict[str, Any]) -> None:
    wrapped = dict(schema)
    bare = wrapped["properties"]["recipients"]
    schema.clear()
    schema |= {"title": wrapped.pop("title"), "anyOf": [bare, wrapped]}


def _wrap_array(payload: Any) -> Any:
    return {"recipients": payload} if isinstance(payload, list) else payload


class ManyRecipients(Body):
    """A bare array, or `{"recipients": [...]}`. What is wrong with one row concerns that row alone."""

    model_config = ConfigDict(json_schema_extra=_describe_object_or_array)

    rows: ClassVar[str | None] = "recipients"

    recipients: list[Any] = Field(
        description="At most 5,000, each with mailing_list_id and the fields of a recipient. A row that"
        " cannot be stored comes back with its `error`."
    )

    @model_validator(mode="before")
    @classmethod
    def _wrap(cls, payload: Any) -> Any:
        return _wrap_array(payload)

    def parse_rows(self) -> list[BulkRecipient | str]:
        """Each row, or what is wrong with it."""
        return [_parse_row(row) for row in self.recipients]

    @classmethod
    def check_rows(cls, payload: Any, max_rows: int) -> None:
        super().check_rows(_wrap_array(payload), max_rows)

    @classmethod
    def too_many_message(cls, max_rows: int) -> str:
        return f"At most {max_rows:,} recipients in one call, please."

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        """Those of the rows are named once, whichever rows they were in."""
        return super().ignored_in(payload) | find_ignored_in_rows(_wrap_array(payload), "recipients", _known_names)


def _parse_row(row: Any) -> BulkRecipient | str:
    try:
        return _ROW_ADAPTER.validate_python(row)
    except ValidationError as error:
        field, (message, *_) = next(iter(to_invalid(error.errors()).fields.items()))
        return message if field == "body" else f"{field}: {message}"


def get_person_fields(row: BulkRecipient) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in RECIPIENT_FIELDS}


def keep_known_fields(row: Any) -> dict[str, Any]:
    """The row as it was given, without what means nothing to us."""
    if not isinstance(row, dict):
        return {}
    names = _known_names(row)
    return {name: row[name] for name in row if name in names}


def _known_names(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something: the list's other name where its own is not given."""
    lists = {LIST_FIELD, LIST_ALIAS} if row.get(LIST_FIELD) is None else {LIST_FIELD}
    return known_names(row) | lists


@accepts(wire.AddressOrEmail, beside={"mailing_list_id"})
class WhomToRemove(AddressParts):
    """Where someone of a list lives, or their e-mail."""

    model_config = ConfigDict(json_schema_extra=require_one_text("address", "email"))

    mailing_list_id: Id = Field(validation_alias=LIST_NAMES, description="The list to be taken off.")
    address: OptionalLine = Field(
        None, description="Whole on one line or beside its parts; a street alone if only one on the list has it."
    )
    email: OptionalLine = Field(None, description="E-mail address, in any case.")


@accepts(wire.AddressOrEmail)
class WhomToErase(AddressParts):
    """An address, whole on one line or in parts, an e-mail, or both: everyone who has one of them is meant."""

    model_config = ConfigDict(json_schema_extra=require_one_text("address", "email"))

    address: OptionalLine = Field(
        None, description="Whole on one line, or the street beside its parts; everyone at that door is meant."
    )
    email: OptionalLine = Field(None, description="E-mail address, in any case; whoever has it is meant too.")


class WhomToFind(Body):
    email: QueryText = Field(min_length=1, max_length=MAX_FIELD_LENGTH, description="E-mail address, in any case.")
