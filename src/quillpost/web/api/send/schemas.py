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

from quillpost.recipients.rules import EMAIL, LONGEST
from quillpost.web.api.bodies import STOPS_EARLY, Text, ignored_in_rows, without_nulls
from quillpost.web.api.orders.schemas import Money, PlainMoment
from quillpost.web.api.requirements import (
    ID,
    NONE,
    NULL,
    SAYS_NOTHING,
    SAYS_SOMETHING,
    SOME,
    URL,
    Json,
    any_of,
    both,
    has,
    is_without,
)
from quillpost.web.api.sub_accounts.schemas import SubAccountShape

SENT: JsonDict = {
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
PREVIEWED: JsonDict = {
    "success": True,
    "code": 200,
    "message": "OK",
    "data": {
        "previews": [
            "https://mail.example.com/files/5f3c.front.9b1a",
            "https://mail.example.com/files/5f3c.back.7e0d",
        ],
        "sides": ["front", "back"],
        "warnings": [],
    },
}


class SendResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [SENT]})

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
    created_at: PlainMoment
    updated_at: PlainMoment
    recipients: list[dict[str, str | None]]


class PreviewData(BaseModel):
    previews: list[str] = Field(description="PNGs, one a side or a page. They need no token and last a week.")
    sides: list[str] = Field(description="What each of them shows.")
    envelope: str | None = Field(None, description="The envelope, where the piece goes in one.")
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class PreviewResponse(BaseModel):
    """What a send with `preview` = true answers: no order is made."""

    model_config = ConfigDict(json_schema_extra={"examples": [PREVIEWED]})

    success: bool
    code: int
    message: str
    data: PreviewData


ESTIMATED: JsonDict = {
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
    model_config = ConfigDict(json_schema_extra={"examples": [ESTIMATED]})

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


OTHER_NAMES = {"state": "province", "zip": "postal_code"}
"""What other clients call them. Where both names are given, ours wins."""
STATE_NAMES, ZIP_NAMES = AliasChoices("province", "state"), AliasChoices("postal_code", "zip")
NAMES = [(name, other) for other, name in OTHER_NAMES.items()]
STATE, ZIP = "State or province; `state` is taken, too.", "ZIP or postal code; `zip` is taken, too."

Maybe = Optional[Text]  # noqa: UP045 (an Annotated alias in a TypedDict)


@with_config(ConfigDict(strict=True, extra="ignore"))
class InlineRecipient(TypedDict, total=False):
    """One person to mail to: an address in parts, or whole on one line, or at least an e-mail."""

    name: Annotated[Maybe, Field(examples=["Jane Doe"])]
    company: Maybe
    address: Annotated[Maybe, Field(examples=["12 Main St"])]
    address2: Maybe
    city: Annotated[Maybe, Field(examples=["Austin"])]
    province: Annotated[Maybe, Field(validation_alias=STATE_NAMES, examples=["TX"], description=STATE)]
    postal_code: Annotated[Maybe, Field(validation_alias=ZIP_NAMES, examples=["78701"], description=ZIP)]
    country: Annotated[Maybe, Field(examples=["US"], description="Two letters; US when missing.")]
    email: Maybe
    phone: Maybe
    dob: Annotated[Maybe, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    anniversary: Annotated[Maybe, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    custom1: Maybe
    custom2: Maybe
    custom3: Maybe
    custom4: Maybe
    custom5: Maybe
    custom6: Maybe
    custom7: Maybe
    custom8: Maybe
    custom9: Maybe
    custom10: Maybe


def with_other_names(row: Any) -> Any:
    """The row as it is read: where ours is null, another client's name counts."""
    if type(row) is dict and ("state" in row or "zip" in row):
        return without_nulls(row, NAMES)
    return row


InlineRecipients = Annotated[list[Annotated[InlineRecipient, BeforeValidator(with_other_names)]], STOPS_EARLY]
KNOWN = frozenset(InlineRecipient.__annotations__)


def ignored_in_recipients(sent: Any) -> set[str]:
    """Fields of a body's recipients that mean nothing to us."""
    return ignored_in_rows(sent, "recipients", known_in)


def known_in(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something in a row: another client's where ours is not given."""
    others = {other for other, name in OTHER_NAMES.items() if other in row and row.get(name) is None}
    return KNOWN | others if others else KNOWN


MOST_NOTIFIED = 100
NOT_IN_ADDRESSES = frozenset('<>()[],;:\\"')
TEXT_MESSAGE = re.compile(r"\+[0-9]{8,15}@sms")


def _addresses(value: object) -> object:
    """An array, or one text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _reachable(text: str) -> str:
    if len(text) > LONGEST or not (_is_mail(text) or TEXT_MESSAGE.fullmatch(text)):
        raise ValueError("This is neither an e-mail address nor of the form +15125550100@sms.")
    return text


def _is_mail(text: str) -> bool:
    """An address alone, as a mail server takes it: neither a name around it nor marks that mean something to
    one."""
    return bool(EMAIL.fullmatch(text)) and text.isprintable() and not NOT_IN_ADDRESSES & set(text)


Notified = Annotated[
    list[Annotated[Text, AfterValidator(_reachable)]],
    Field(max_length=MOST_NOTIFIED),
    STOPS_EARLY,
    BeforeValidator(_addresses),
]


WORDS = has(message=SAYS_SOMETHING)
SAVED_WORDS = has(message_template=ID)
FRONTS = (has(front_image_url=URL), has(image_template=ID))
BLANK: Json = {"type": "string"}
BESIDE_A_BACKGROUND = (
    has(message=BLANK, custom_background_image=URL),
    has(message=BLANK, sub_account_id=ID),
)
"""Where a message may be blank: the sub account may have a background of its own."""


def _audience() -> Json:
    """People, lists or both; or else a radius search."""
    no_search = is_without({"radius_search": NULL})
    return any_of(
        [
            both(has(recipients=SOME), no_search),
            both(has(mailing_list_ids=SOME), no_search),
            both(
                has(radius_search={"type": "object"}),
                is_without({"recipients": NONE, "mailing_list_ids": NONE}),
            ),
        ]
    )


def _return_address() -> Json:
    """None of it; all of it in parts; or the whole on one line."""
    parts = ("return_address", "return_city", "return_postal_code")
    rest = ("return_city", "return_state", "return_postal_code")
    one_line = has(return_address={"type": "string", "pattern": r"\S.*,.*\S"})
    return any_of(
        [
            is_without(dict.fromkeys((*parts, "return_address2", "return_state"), SAYS_NOTHING)),
            has(**dict.fromkeys(parts, SAYS_SOMETHING)),
            both(one_line, is_without(dict.fromkeys(rest, SAYS_NOTHING))),
        ]
    )


def _requirements(words: Sequence[Json], *more: Json) -> Callable[[Json], None]:
    def add(schema: Json) -> None:
        schema["allOf"] = [_audience(), any_of(words), _return_address(), *more]

    return add


SAVED_WORDS_WITH_FRONT = [both(SAVED_WORDS, front) for front in FRONTS]
CARD = _requirements([WORDS, *BESIDE_A_BACKGROUND, *SAVED_WORDS_WITH_FRONT])
LETTER = _requirements([WORDS, has(pdf_only_url=URL), SAVED_WORDS])
GIFTCARD = _requirements(
    [WORDS, *SAVED_WORDS_WITH_FRONT],
    any_of([has(giftcard_brand=SAYS_SOMETHING, giftcard_amount=ID), SAVED_WORDS]),
)
