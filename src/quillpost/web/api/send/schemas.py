"""Responses of sends, inline recipients, and what each product requires.

It is necessary, not sufficient: whether ids exist, pictures can be fetched and words fit is seen later.
Fields go by their first names here, as everywhere in the description; their other names are taken alike.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated, Any, Optional

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, with_config
from pydantic.config import JsonDict
from typing_extensions import TypedDict

from quillpost.recipients.rules import EMAIL_PATTERN, MAX_FIELD_LENGTH
from quillpost.web.api.bodies import (
    BLANK_OR_NULL,
    EMPTY_OR_NULL,
    INTEGER,
    NON_BLANK_TEXT,
    NON_EMPTY_ARRAY,
    NULL,
    STOP_AT_ERROR_LIMIT,
    URL_TEXT,
    Json,
    Text,
    allows_only,
    any_of,
    drop_shadowed_nulls,
    find_ignored_in_rows,
    merge_objects,
    requires_fields,
)
from quillpost.web.api.orders.schemas import Money, PlainTimestamp
from quillpost.web.api.sub_accounts.schemas import SubAccountShape

SEND_EXAMPLE: JsonDict = {
    "id": 1001,
    "total_estimated_recipients": 1,
    "authorization_total": 129,
    "leads_fee": 0,
    "mailing_list_ids_used": "",
    "handwriting_color": "rgba(31,63,146,1)",
    "front_image": "https://mail.example.com/art/postcard-4x6.png",
    "message": "Hi %FIRST_NAME%, thank you for stopping by!",
    "append_or_current_resident": False,
    "type": "postcard",
    "size": "4x6",
    "return_name": "Dana Whitfield",
    "return_address": "1 Orchard Rd",
    "return_address2": None,
    "return_city": "Austin",
    "return_province": "TX",
    "return_postal_code": "78701",
    "message_template_id": None,
    "image_template_id": None,
    "method": "api",
    "sub_account_id": None,
    "sub_account": None,
    "font_size": "auto",
    "qrcode_url": None,
    "custom_background_url": None,
    "giftcard_brand": None,
    "giftcard_image": None,
    "giftcard_amount": None,
    "giftcard_brand_longname": "",
    "status": "reviewing",
    "display_status": "Reviewing",
    "display_trigger": "API",
    "display_type": "Postcard-4x6",
    "style": 1,
    "user_id": 1,
    "created_at": "2026-05-01 09:30:00",
    "updated_at": "2026-05-01 09:30:00",
    "recipients": [
        {
            "name": "Jane Doe",
            "address": "12 Main St",
            "address2": None,
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701",
            "country": "US",
        }
    ],
}
PREVIEW_EXAMPLE: JsonDict = {
    "success": True,
    "code": 200,
    "message": "OK",
    "data": {
        "previews": ["https://mail.example.com/files/5f3c.front.9b1a", "https://mail.example.com/files/5f3c.back.7e0d"],
        "sides": ["front", "back"],
        "warnings": [],
    },
}


class SendResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [SEND_EXAMPLE]})

    id: int
    total_estimated_recipients: int
    authorization_total: Annotated[int, Field(description="Held for this order, in cents.")]
    leads_fee: Money
    mailing_list_ids_used: str
    handwriting_color: str
    front_image: str
    message: str
    append_or_current_resident: bool
    type: str
    size: str | None
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_province: str | None
    return_postal_code: str | None
    message_template_id: int | None
    image_template_id: int | None
    method: str
    sub_account_id: int | None
    sub_account: SubAccountShape | None
    font_size: str
    qrcode_url: str | None
    custom_background_url: str | None
    giftcard_brand: str | None
    giftcard_image: str | None
    giftcard_amount: int | None
    giftcard_brand_longname: str
    status: str
    display_status: str
    display_trigger: str
    display_type: str
    style: int
    user_id: int
    created_at: PlainTimestamp
    updated_at: PlainTimestamp
    recipients: list[dict[str, str | None]]


class PreviewData(BaseModel):
    previews: list[str] = Field(description="PNGs, one a side or a page. They need no token and last a week.")
    sides: list[str] = Field(description="What each of them shows.")
    envelope: str | None = Field(None, description="The envelope, where the piece goes in one.")
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class PreviewResponse(BaseModel):
    """What a send with `preview` = true answers: no order is made."""

    model_config = ConfigDict(json_schema_extra={"examples": [PREVIEW_EXAMPLE]})

    success: bool
    code: int
    message: str
    data: PreviewData


ESTIMATE_EXAMPLE: JsonDict = {
    "message": "OK",
    "data": {
        "type": "postcard",
        "total_recipients": 98,
        "suppressed": 1,
        "duplicates": 1,
        "undeliverable": 0,
        "unit_price": 109,
        "leads_fee": 0,
        "giftcard_total": 0,
        "authorization_total": 10682,
        "test_mode": True,
        "warnings": [],
    },
}


class Estimate(BaseModel):
    type: str
    total_recipients: int = Field(description="How many would be mailed to.")
    suppressed: int = Field(description="On a suppression list.")
    duplicates: int = Field(description="Twice in the audience, or mailed the same within 36 hours.")
    undeliverable: int = Field(description="Without an address, or where we do not deliver.")
    unit_price: Money
    leads_fee: Money
    giftcard_total: int = Field(description="What all the gift cards are worth, in cents.")
    authorization_total: Money
    test_mode: bool
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class EstimateResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ESTIMATE_EXAMPLE]})

    message: str
    data: Estimate


class StoredSend(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "stored_send_url": "https://mail.example.com/api/v2/stored_send/postcard/"
                    "0e4b5c1e-3c1d-4c8e-9d53-2f8a4c1b7a10"
                }
            ]
        }
    )

    stored_send_url: str = Field(description="GET or POST it with the same account's token to send.")


ALIASES = {"state": "province", "zip": "postal_code"}
"""What other clients call them. Where both names are given, ours wins."""
STATE_NAMES, ZIP_NAMES = AliasChoices("province", "state"), AliasChoices("postal_code", "zip")
ALIAS_PAIRS = [(name, other) for other, name in ALIASES.items()]
STATE_DESCRIPTION, ZIP_DESCRIPTION = (
    "State or province; `state` is taken, too.",
    "ZIP or postal code; `zip` is taken, too.",
)

OptionalText = Optional[Text]  # noqa: UP045 (an Annotated alias in a TypedDict)


@with_config(ConfigDict(strict=True, extra="ignore"))
class InlineRecipient(TypedDict, total=False):
    """One person to mail to: an address in parts, or whole on one line, or at least an e-mail."""

    name: Annotated[OptionalText, Field(examples=["Jane Doe"])]
    company: OptionalText
    address: Annotated[OptionalText, Field(examples=["12 Main St"])]
    address2: OptionalText
    city: Annotated[OptionalText, Field(examples=["Austin"])]
    province: Annotated[
        OptionalText, Field(validation_alias=STATE_NAMES, examples=["TX"], description=STATE_DESCRIPTION)
    ]
    postal_code: Annotated[
        OptionalText, Field(validation_alias=ZIP_NAMES, examples=["78701"], description=ZIP_DESCRIPTION)
    ]
    country: Annotated[OptionalText, Field(examples=["US"], description="Two letters; US when missing.")]
    email: OptionalText
    phone: OptionalText
    dob: Annotated[OptionalText, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    anniversary: Annotated[OptionalText, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    custom1: OptionalText
    custom2: OptionalText
    custom3: OptionalText
    custom4: OptionalText
    custom5: OptionalText
    custom6: OptionalText
    custom7: OptionalText
    custom8: OptionalText
    custom9: OptionalText
    custom10: OptionalText


def drop_alias_nulls(row: Any) -> Any:
    """The row as it is read: where ours is null, another client's name counts."""
    if type(row) is dict and ("state" in row or "zip" in row):
        return drop_shadowed_nulls(row, ALIAS_PAIRS)
    return row


InlineRecipients = Annotated[list[Annotated[InlineRecipient, BeforeValidator(drop_alias_nulls)]], STOP_AT_ERROR_LIMIT]
RECIPIENT_FIELDS = frozenset(InlineRecipient.__annotations__)


def find_ignored_in_recipients(payload: Any) -> set[str]:
    """Fields of a body's recipients that mean nothing to us."""
    return find_ignored_in_rows(payload, "recipients", known_names)


def known_names(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something in a row: another client's where ours is not given."""
    aliases_used = {alias for alias, name in ALIASES.items() if alias in row and row.get(name) is None}
    return RECIPIENT_FIELDS | aliases_used if aliases_used else RECIPIENT_FIELDS


MAX_NOTIFIED = 100
FORBIDDEN_ADDRESS_CHARS = frozenset('<>()[],;:\\"')
SMS_ADDRESS = re.compile(r"\+[0-9]{8,15}@sms")


def _split_addresses(value: object) -> object:
    """An array, or one text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _check_address(text: str) -> str:
    if len(text) > MAX_FIELD_LENGTH or not (_is_email(text) or SMS_ADDRESS.fullmatch(text)):
        raise ValueError("This is neither an e-mail address nor of the form +15125550100@sms.")
    return text


def _is_email(text: str) -> bool:
    """An address alone, as a mail server takes it: neither a name around it nor marks that mean something to
    one."""
    return bool(EMAIL_PATTERN.fullmatch(text)) and text.isprintable() and not FORBIDDEN_ADDRESS_CHARS & set(text)


NotificationAddresses = Annotated[
    list[Annotated[Text, AfterValidator(_check_address)]],
    Field(max_length=MAX_NOTIFIED),
    STOP_AT_ERROR_LIMIT,
    BeforeValidator(_split_addresses),
]


HAS_MESSAGE = requires_fields(message=NON_BLANK_TEXT)
HAS_MESSAGE_TEMPLATE = requires_fields(message_template=INTEGER)
HAS_FRONT = (requires_fields(front_image_url=URL_TEXT), requires_fields(image_template=INTEGER))
ANY_TEXT: Json = {"type": "string"}
HAS_BACKGROUND = (
    requires_fields(message=ANY_TEXT, custom_background_image=URL_TEXT),
    requires_fields(message=ANY_TEXT, sub_account_id=INTEGER),
)
"""Where a message may be blank: the sub account may have a background of its own."""


def _require_audience() -> Json:
    """People, lists or both; or else a radius search."""
    no_search = allows_only({"radius_search": NULL})
    return any_of(
        [
            merge_objects(requires_fields(recipients=NON_EMPTY_ARRAY), no_search),
            merge_objects(requires_fields(mailing_list_ids=NON_EMPTY_ARRAY), no_search),
            merge_objects(
                requires_fields(radius_search={"type": "object"}),
                allows_only({"recipients": EMPTY_OR_NULL, "mailing_list_ids": EMPTY_OR_NULL}),
            ),
        ]
    )


def _check_return_address() -> Json:
    """None of it; all of it in parts; or the whole on one line."""
    parts = ("return_address", "return_city", "return_postal_code")
    remaining = ("return_city", "return_state", "return_postal_code")
    one_line = requires_fields(return_address={"type": "string", "pattern": r"\S.*,.*\S"})
    return any_of(
        [
            allows_only(dict.fromkeys((*parts, "return_address2", "return_state"), BLANK_OR_NULL)),
            requires_fields(**dict.fromkeys(parts, NON_BLANK_TEXT)),
            merge_objects(one_line, allows_only(dict.fromkeys(remaining, BLANK_OR_NULL))),
        ]
    )


def _create_schema_updater(message_options: Sequence[Json], *others: Json) -> Callable[[Json], None]:
    def add(schema: Json) -> None:
        schema["allOf"] = [_require_audience(), any_of(message_options), _check_return_address(), *others]

    return add


HAS_TEMPLATE_AND_FRONT = [merge_objects(HAS_MESSAGE_TEMPLATE, front) for front in HAS_FRONT]
CARD_SCHEMA = _create_schema_updater([HAS_MESSAGE, *HAS_BACKGROUND, *HAS_TEMPLATE_AND_FRONT])
LETTER_SCHEMA = _create_schema_updater([HAS_MESSAGE, requires_fields(pdf_only_url=URL_TEXT), HAS_MESSAGE_TEMPLATE])
GIFTCARD_SCHEMA = _create_schema_updater(
    [HAS_MESSAGE, *HAS_TEMPLATE_AND_FRONT],
    any_of([requires_fields(giftcard_brand=NON_BLANK_TEXT, giftcard_amount=INTEGER), HAS_MESSAGE_TEMPLATE]),
)
