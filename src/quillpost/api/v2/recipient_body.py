"""Recipients as callers write them: one, some fields of one, many at once, or where one lives."""

from collections.abc import Mapping, Set
from typing import Annotated, Any, ClassVar, Optional

from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)

from quillpost.api.bodies import Body, Id, SoughtText, Text, ignored_in_rows, without_nulls
from quillpost.api.errors import invalid_of
from quillpost.api.requirements import one_of_texts
from quillpost.api.v2.inline_recipients import (
    KNOWN,
    STATE,
    STATE_NAMES,
    ZIP,
    ZIP_NAMES,
    InlineRecipient,
    known_in,
    with_other_names,
)
from quillpost.audience.rules import LONGEST

LIST, OTHER_NAME = "mailing_list_id", "mailing_list"
LIST_NAMES = AliasChoices(LIST, OTHER_NAME)
EXAMPLE: dict[str, Any] = {
    "mailing_list_id": 12,
    "name": "Jane Doe",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "email": "jane@example.com",
    "dob": "02/29/1980",
    "custom1": "a blue door",
}


class PersonFields(Body):
    """The fields of a person."""

    name: Text | None = Field(None, max_length=LONGEST, description="Whom to write to.")
    company: Text | None = Field(None, max_length=LONGEST, description="The company, below the name.")
    address: Text | None = Field(
        None, max_length=LONGEST, description="Street and number, or the whole address on one line."
    )
    address2: Text | None = Field(None, max_length=LONGEST, description="Unit.")
    city: Text | None = Field(None, max_length=LONGEST, description="City.")
    province: Text | None = Field(None, max_length=LONGEST, validation_alias=STATE_NAMES, description=STATE)
    postal_code: Text | None = Field(None, max_length=LONGEST, validation_alias=ZIP_NAMES, description=ZIP)
    country: Text | None = Field(None, max_length=LONGEST, description="Two letters; US when missing.")
    dob: Text | None = Field(None, max_length=LONGEST, description="YYYY-MM-DD or MM/DD/YYYY.")
    anniversary: Text | None = Field(
        None, max_length=LONGEST, description="Any day of each year: YYYY-MM-DD or MM/DD/YYYY."
    )
    email: Text | None = Field(None, max_length=LONGEST, description="E-mail address.")
    phone: Text | None = Field(None, max_length=LONGEST, description="Phone.")
    custom1: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM1% shows it.")
    custom2: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM2% shows it.")
    custom3: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM3% shows it.")
    custom4: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM4% shows it.")
    custom5: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM5% shows it.")
    custom6: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM6% shows it.")
    custom7: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM7% shows it.")
    custom8: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM8% shows it.")
    custom9: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM9% shows it.")
    custom10: Text | None = Field(None, max_length=LONGEST, description="Yours; %CUSTOM10% shows it.")

    def person(self) -> dict[str, str | None]:
        """What was said of the person."""
        return {name: value for name, value in self.given().items() if name in KNOWN}


class NewRecipient(PersonFields):
    """An address in parts, or whole on one line, or at least an e-mail."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE], **one_of_texts("address", "email")})

    mailing_list_id: Id = Field(validation_alias=LIST_NAMES, description="The list to be on.")


class ChangedRecipient(PersonFields):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"address": "9 Oak Ave, Dallas, TX 75201", "phone": None}]}
    )

    mailing_list_id: Id = Field(
        default_factory=int,  # stands for "stays"; null is no list
        validation_alias=LIST_NAMES,
        description="Another list to be on instead.",
    )


def _with_other_names(row: Any) -> Any:
    return without_nulls(with_other_names(row), [(LIST, OTHER_NAME)])


@with_config(ConfigDict(strict=True, extra="allow"))
class RecipientOfMany(InlineRecipient, total=False):
    """One of many: on a list, with an address in parts, or whole on one line, or at least an e-mail."""

    mailing_list_id: Annotated[
        Optional[Id],  # noqa: UP045 (an Annotated alias in a TypedDict)
        Field(validation_alias=LIST_NAMES, description="The list to be on.", examples=[12]),
    ]


_ROW = TypeAdapter(Annotated[RecipientOfMany, BeforeValidator(_with_other_names)])


def _or_bare(schema: dict[str, Any]) -> None:
    """The description of the object, or of its array alone."""
    wrapped = dict(schema)
    bare = wrapped["properties"]["recipients"]
    schema.clear()
    schema |= {"title": wrapped.pop("title"), "anyOf": [bare, wrapped], "examples": [[EXAMPLE]]}


def _in_an_object(sent: Any) -> Any:
    return {"recipients": sent} if isinstance(sent, list) else sent


class ManyRecipients(Body):
    """A bare array, or `{"recipients": [...]}`. What is wrong with one row concerns that row alone."""

    model_config = ConfigDict(json_schema_extra=_or_bare)

    rows: ClassVar[str | None] = "recipients"

    recipients: list[Any] = Field(
        description="At most 5,000, each with mailing_list_id and the fields of a recipient. A row that"
        " cannot be stored comes back with its `error`."
    )

    @model_validator(mode="before")
    @classmethod
    def _wrapped(cls, sent: Any) -> Any:
        return _in_an_object(sent)

    def read(self) -> list[RecipientOfMany | str]:
        """Each row, or what is wrong with its form."""
        return [_read(row) for row in self.recipients]

    @classmethod
    def check_rows(cls, sent: Any, most: int) -> None:
        super().check_rows(_in_an_object(sent), most)

    @classmethod
    def too_many(cls, most: int) -> str:
        return f"At most {most:,} recipients in one call, please."

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        """Those of the rows are named once, whichever rows they were in."""
        return super().ignored_in(sent) | ignored_in_rows(_in_an_object(sent), "recipients", _known_in)


def _read(row: Any) -> RecipientOfMany | str:
    try:
        return _ROW.validate_python(row)
    except ValidationError as wrong:
        field, (sentence, *_) = next(iter(invalid_of(wrong.errors()).fields.items()))
        return sentence if field == "body" else f"{field}: {sentence}"


def person_of(row: RecipientOfMany) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in KNOWN}


def known_fields(row: Any) -> dict[str, Any]:
    """The row as it was given, without what means nothing to us."""
    if not isinstance(row, dict):
        return {}
    known = _known_in(row)
    return {name: row[name] for name in row if name in known}


def _known_in(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something: the list's other name where its own is not given."""
    lists = {LIST, OTHER_NAME} if row.get(LIST) is None else {LIST}
    return known_in(row) | lists


class WhomToRemove(Body):
    """Where someone of a list lives, or their e-mail."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"mailing_list_id": 12, "address": "12 Main St, Austin, TX 78701"}],
            **one_of_texts("address", "email"),
        }
    )

    mailing_list_id: Id = Field(validation_alias=LIST_NAMES, description="The list to be taken off.")
    address: Text | None = Field(
        None,
        max_length=LONGEST,
        description="Whole on one line or beside its parts; a street alone if only one on the list has it.",
    )
    address2: Text | None = Field(None, max_length=LONGEST, description="Unit.")
    city: Text | None = Field(None, max_length=LONGEST, description="City.")
    province: Text | None = Field(None, max_length=LONGEST, validation_alias=STATE_NAMES, description=STATE)
    postal_code: Text | None = Field(None, max_length=LONGEST, validation_alias=ZIP_NAMES, description=ZIP)
    country: Text | None = Field(None, max_length=LONGEST, description="Two letters; US when missing.")
    email: Text | None = Field(None, max_length=LONGEST, description="E-mail address, in any case.")

    def whereabouts(self) -> dict[str, str | None]:
        return {name: value for name, value in self.given().items() if name in KNOWN}


class WhomToFind(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "jane@example.com"}]})

    email: SoughtText = Field(min_length=1, max_length=LONGEST, description="E-mail address, in any case.")
