"""Bodies and responses of recipients."""

from collections.abc import Mapping, Set
from typing import Annotated, Any, ClassVar, Literal, Optional

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)

from quillpost.recipients.rules import MAX_FIELD_LENGTH
from quillpost.web.api.bodies import (
    Body,
    Id,
    QueryText,
    Text,
    drop_shadowed_nulls,
    find_ignored_in_rows,
    require_one_text,
)
from quillpost.web.api.errors import to_invalid
from quillpost.web.api.mailing_lists.schemas import EXAMPLE as LIST_EXAMPLE
from quillpost.web.api.mailing_lists.schemas import MailingListShape
from quillpost.web.api.orders.schemas import Links, Meta, Timestamp, page_example
from quillpost.web.api.send.schemas import (
    RECIPIENT_FIELDS,
    STATE_DESCRIPTION,
    STATE_NAMES,
    ZIP_DESCRIPTION,
    ZIP_NAMES,
    InlineRecipient,
    drop_alias_nulls,
    known_names,
)

Day = Annotated[str, Field(description="ISO 8601.", examples=["1980-02-29"])]
OptionalLine = Annotated[Text, Field(max_length=MAX_FIELD_LENGTH)] | None
CUSTOM_FIELDS = tuple(f"custom{n}" for n in range(1, 11))

RESPONSE_EXAMPLE: dict[str, Any] = {
    "id": 340,
    "mailing_list_id": 12,
    "name": "Jane Doe",
    "company": None,
    "address": "12 Main St",
    "address2": "Apt 4",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "country": "US",
    "dob": "1980-02-29",
    "anniversary": None,
    "email": "jane@example.com",
    "phone": None,
    **dict.fromkeys(CUSTOM_FIELDS),
    "custom1": "a blue door",
    "deliverability": "doubtful",
    "can_deliver": True,
    "deliverability_reasons": ["The city and the ZIP code do not belong together."],
    "mailing-list": LIST_EXAMPLE,
    "mailing_list": LIST_EXAMPLE,
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-01T09:30:00Z",
}
REFUSED_EXAMPLE: dict[str, Any] = {
    "mailing_list_id": 12,
    "name": "John Doe",
    "address": "12 Main St",
    "postal_code": "1",
    "error": "postal_code: A ZIP code has 5 digits, or 5-4.",
}


class RecipientRead(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [RESPONSE_EXAMPLE]})

    id: int
    mailing_list_id: int
    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str | None
    dob: Day | None
    anniversary: Day | None
    email: str | None
    phone: str | None
    custom1: str | None
    custom2: str | None
    custom3: str | None
    custom4: str | None
    custom5: str | None
    custom6: str | None
    custom7: str | None
    custom8: str | None
    custom9: str | None
    custom10: str | None
    deliverability: Literal["deliverable", "doubtful", "undeliverable"] = Field(
        description="How sure it is that mail arrives there. What is doubtful is mailed all the same."
    )
    can_deliver: bool = Field(description="Whether there is an address that is mailed to.")
    deliverability_reasons: list[str] = Field(
        description="Why not, or why it is doubtful; also where the post has corrected what was given."
    )
    mailing_list_: MailingListShape = Field(alias="mailing-list", description="The list it is on.")
    mailing_list: MailingListShape = Field(description="The same, as older clients read it.")
    created_at: Timestamp
    updated_at: Timestamp


class RecipientPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/recipients", RESPONSE_EXAMPLE)]})

    data: list[RecipientRead]
    links: Links
    meta: Meta


_EXAMPLE_PATH = "https://mail.example.com/api/v2/mailing-lists-utils/recipients/12"


class ListRecipients(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "current_page": 1,
                    "data": [RESPONSE_EXAMPLE],
                    "first_page_url": f"{_EXAMPLE_PATH}?page=1",
                    "from": 1,
                    "last_page": 10,
                    "last_page_url": f"{_EXAMPLE_PATH}?page=10",
                    "next_page_url": f"{_EXAMPLE_PATH}?page=2",
                    "path": _EXAMPLE_PATH,
                    "per_page": 25,
                    "prev_page_url": None,
                    "to": 25,
                    "total": 240,
                }
            ]
        }
    )

    current_page: int
    data: list[RecipientRead]
    first_page_url: str
    from_: int | None = Field(alias="from")
    last_page: int
    last_page_url: str
    next_page_url: str | None
    path: str
    per_page: int
    prev_page_url: str | None
    to: int | None
    total: int


class RefusedRecipient(BaseModel):
    """A row as it was given, and why it was not stored."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFUSED_EXAMPLE]})

    mailing_list_id: int | None = None
    name: str | None = None
    company: str | None = None
    address: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str | None = None
    dob: str | None = None
    anniversary: str | None = None
    email: str | None = None
    phone: str | None = None
    custom1: str | None = None
    custom2: str | None = None
    custom3: str | None = None
    custom4: str | None = None
    custom5: str | None = None
    custom6: str | None = None
    custom7: str | None = None
    custom8: str | None = None
    custom9: str | None = None
    custom10: str | None = None
    error: str = Field(description="Which field is wrong, and why.")


class RecipientsAdded(RootModel[list[RecipientRead | RefusedRecipient]]):
    model_config = ConfigDict(json_schema_extra={"examples": [[RESPONSE_EXAMPLE, REFUSED_EXAMPLE]]})


class RecipientRemoved(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "Recipient 340 Deleted"}]})

    status: str


LIST_FIELD, LIST_ALIAS = "mailing_list_id", "mailing_list"
LIST_NAMES = AliasChoices(LIST_FIELD, LIST_ALIAS)
REQUEST_EXAMPLE: dict[str, Any] = {
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

    name: OptionalLine = Field(None, description="Whom to write to.")
    company: OptionalLine = Field(None, description="The company, below the name.")
    address: OptionalLine = Field(None, description="Street and number, or the whole address on one line.")
    address2: OptionalLine = Field(None, description="Unit.")
    city: OptionalLine = Field(None, description="City.")
    province: OptionalLine = Field(None, validation_alias=STATE_NAMES, description=STATE_DESCRIPTION)
    postal_code: OptionalLine = Field(None, validation_alias=ZIP_NAMES, description=ZIP_DESCRIPTION)
    country: OptionalLine = Field(None, description="Two letters; US when missing.")
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

    def person_fields(self) -> dict[str, str | None]:
        """What was said of the person."""
        return {name: value for name, value in self.provided_fields().items() if name in RECIPIENT_FIELDS}


class NewRecipient(PersonFields):
    """An address in parts, or whole on one line, or at least an e-mail."""

    model_config = ConfigDict(json_schema_extra={"examples": [REQUEST_EXAMPLE], **require_one_text("address", "email")})

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


def _drop_alias_nulls(row: Any) -> Any:
    return drop_shadowed_nulls(drop_alias_nulls(row), [(LIST_FIELD, LIST_ALIAS)])


@with_config(ConfigDict(strict=True, extra="allow"))
class BulkRecipient(InlineRecipient, total=False):
    """One of many: on a list, with an address in parts, or whole on one line, or at least an e-mail."""

    mailing_list_id: Annotated[
        Optional[Id],  # noqa: UP045 (an Annotated alias in a TypedDict)
        Field(validation_alias=LIST_NAMES, description="The list to be on.", examples=[12]),
    ]


_ROW_ADAPTER = TypeAdapter(Annotated[BulkRecipient, BeforeValidator(_drop_alias_nulls)])


def _describe_object_or_array(schema: dict[str, Any]) -> None:
    """The description of the object, or of its array alone."""
    wrapped = dict(schema)
    bare = wrapped["properties"]["recipients"]
    schema.clear()
    schema |= {"title": wrapped.pop("title"), "anyOf": [bare, wrapped], "examples": [[REQUEST_EXAMPLE]]}


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
        """Each row, or what is wrong with its form."""
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


class WhomToRemove(Body):
    """Where someone of a list lives, or their e-mail."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"mailing_list_id": 12, "address": "12 Main St, Austin, TX 78701"}],
            **require_one_text("address", "email"),
        }
    )

    mailing_list_id: Id = Field(validation_alias=LIST_NAMES, description="The list to be taken off.")
    address: OptionalLine = Field(
        None, description="Whole on one line or beside its parts; a street alone if only one on the list has it."
    )
    address2: OptionalLine = Field(None, description="Unit.")
    city: OptionalLine = Field(None, description="City.")
    province: OptionalLine = Field(None, validation_alias=STATE_NAMES, description=STATE_DESCRIPTION)
    postal_code: OptionalLine = Field(None, validation_alias=ZIP_NAMES, description=ZIP_DESCRIPTION)
    country: OptionalLine = Field(None, description="Two letters; US when missing.")
    email: OptionalLine = Field(None, description="E-mail address, in any case.")

    def address_fields(self) -> dict[str, str | None]:
        return {name: value for name, value in self.provided_fields().items() if name in RECIPIENT_FIELDS}


class WhomToFind(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"email": "jane@example.com"}]})

    email: QueryText = Field(min_length=1, max_length=MAX_FIELD_LENGTH, description="E-mail address, in any case.")
