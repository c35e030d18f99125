"""Inline recipients, notification addresses, gift card amounts, and what the description requires of each product."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Annotated, Any, Optional

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, with_config
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypedDict

from quillpost.client import recipients as wire
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.recipients.rules import EMAIL_PATTERN, MAX_FIELD_LENGTH
from quillpost.web.api.schemas import (
    BLANK_OR_NULL,
    DIGITS,
    EMPTY_OR_NULL,
    INTEGER,
    NON_BLANK_TEXT,
    NON_EMPTY_ARRAY,
    NULL,
    STOP_AT_ERROR_LIMIT,
    URL_TEXT,
    Json,
    Text,
    WholeNumber,
    accepts,
    allows_only,
    any_of,
    drop_shadowed_nulls,
    find_ignored_in_rows,
    merge_objects,
    requires_fields,
)

ALIASES = {"state": "province", "zip": "postal_code"}
"""What other clients call them. Where both names are given, ours wins."""
STATE_NAMES, ZIP_NAMES = AliasChoices("province", "state"), AliasChoices("postal_code", "zip")
ALIAS_PAIRS = [(name, other) for other, name in ALIASES.items()]
STATE_DESCRIPTION, ZIP_DESCRIPTION = (
    "State or province; `state` is taken, too.",
    "ZIP or postal code; `zip` is taken, too.",
)

OptionalLine = Annotated[Text, Field(max_length=MAX_FIELD_LENGTH)] | None
OptionalUrlText = Annotated[Text, Field(max_length=MAX_URL_LENGTH)] | None
OptionalText = Optional[Text]  # noqa: UP045 (an Annotated alias in a TypedDict)


@accepts(wire.InlineRecipient)
@with_config(ConfigDict(strict=True, extra="ignore"))
class RecipientRow(TypedDict, total=False):
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


InlineRecipients = Annotated[list[Annotated[RecipientRow, BeforeValidator(drop_alias_nulls)]], STOP_AT_ERROR_LIMIT]
RECIPIENT_FIELDS = frozenset(RecipientRow.__annotations__)


def find_ignored_in_recipients(payload: Any) -> set[str]:
    return find_ignored_in_rows(payload, "recipients", known_names)


def known_names(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something in a row: another client's where ours is not given."""
    aliases_used = {alias for alias, name in ALIASES.items() if alias in row and row.get(name) is None}
    return RECIPIENT_FIELDS | aliases_used if aliases_used else RECIPIENT_FIELDS


MAX_NOTIFIED = 100
FORBIDDEN_ADDRESS_CHARS = frozenset('<>()[],;:\\"')
SMS_ADDRESS = re.compile(r"\+[0-9]{8,15}@sms")


def _split_addresses(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _check_address(text: str) -> str:
    if len(text) > MAX_FIELD_LENGTH or not (_is_email(text) or SMS_ADDRESS.fullmatch(text)):
        raise ValueError("This is neither an e-mail address nor of the form +15125550100@sms.")
    return text


def _is_email(text: str) -> bool:
    """A bare address, without a name or marks that mean something to a mail server."""
    return bool(EMAIL_PATTERN.fullmatch(text)) and text.isprintable() and not FORBIDDEN_ADDRESS_CHARS & set(text)


NotificationAddresses = Annotated[
    list[Annotated[Text, AfterValidator(_check_address)]],
    Field(max_length=MAX_NOTIFIED),
    STOP_AT_ERROR_LIMIT,
    BeforeValidator(_split_addresses),
]

LEGACY_AMOUNT_FIELD = "giftcard_amount_in_cents"
"""The amount's former name, refused unless the operator allows it: to ignore it would lose money."""

Amount = WholeNumber
"""Without bounds: the brand answers for every amount that is none of its own, and names those that are."""
SavedAmount = Annotated[int, Field(ge=1, le=2**31 - 1), DIGITS]
"""With bounds, as it may be saved with a template of another piece, where no brand answers for it."""
LegacyAmount = Annotated[Amount | None, SkipJsonSchema()]


def check_legacy_amount(legacy_amount: int | None, *, is_allowed: bool) -> str | None:
    """What is wrong with an amount under its old name. Where that is allowed, the new name wins."""
    return None if legacy_amount is None or is_allowed else "Use giftcard_amount: it is in cents, too."


def find_ignored_legacy_amount(payload: Any) -> set[str]:
    """The old name beside the specified one, which wins: it changes nothing."""
    names = ("giftcard_amount", LEGACY_AMOUNT_FIELD)
    has_both = isinstance(payload, Mapping) and all(payload.get(name) is not None for name in names)
    return {LEGACY_AMOUNT_FIELD} if has_both else set()


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


def _require_object(value: object) -> object:
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata must be a JSON object of key/value pairs.")
    return value


Metadata = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_require_object),
    Field(description="Yours: returned to the letter, never printed. At most 8,192 bytes as JSON."),
]
Schedule = Annotated[
    Text | None,
    Field(
        max_length=64,
        description="ISO 8601: the order waits, cancellable, until then.",
        examples=["2026-12-01T09:00:00Z"],
    ),
]
