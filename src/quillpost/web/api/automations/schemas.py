"""Bodies and responses of automations."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from quillpost.accounts.models import Caller
from quillpost.app.container import Container, Limits
from quillpost.client.automations import AutomationUpdate, DateField, Trigger
from quillpost.core import exact_json
from quillpost.core.errors import Invalid
from quillpost.orders.automations.queries import Automation, AutomationPlan
from quillpost.orders.automations.rules import DEFAULT_DAILY_LIMIT, MAX_DAILY_LIMIT, MAX_DAYS_OFFSET
from quillpost.orders.automations.service import AutomationContext, prefix_send_errors
from quillpost.orders.models import FieldErrors, OrderRequest
from quillpost.web.api.schemas import (
    DIGITS,
    NOT_BLANK,
    NULL_MEANS_DEFAULT,
    Body,
    Flag,
    FormText,
    Id,
    OptionalFlag,
    Text,
    accepts,
    parse_integer,
    to_integer,
    validate_body,
)
from quillpost.web.api.send.requests import SENDABLE_PRODUCTS, SendableProduct, SendBody

MAX_NAME_LENGTH = 200
MAX_OTHER_BYTES = 100_000

PRODUCTS_BY_PATH: Mapping[str, SendableProduct] = {
    path: offer for offer in SENDABLE_PRODUCTS for path in offer.product.paths
}
PRODUCT_NAMES = ", ".join(offer.product.paths[0] for offer in SENDABLE_PRODUCTS)

SEND_SCHEMA: dict[str, Any] = {
    "required": ["piece"],
    "properties": {"piece": {"type": "string", "enum": list(PRODUCTS_BY_PATH)}},
}
AUDIENCE_NOT_ALLOWED = "An automation chooses whom it mails by itself: leave this out."
FORBIDDEN_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("recipients", "mailing_list_ids", "mailing_lists", "radius_search", "radius_center", "radius_distance_miles"),
        AUDIENCE_NOT_ALLOWED,
    ),
    "schedule_for": "An automation sends when its time comes: leave this out.",
    **dict.fromkeys(("preview", "preview_recipient"), "POST /automations/{id}/preview shows it: leave this out."),
}


def _to_single_line(text: str) -> str:
    """On one line: it stands in sentences, and in the subject of an e-mail."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if not plain:
        raise ValueError("Give the automation a name.")
    return plain


def _to_signed_integer(value: object) -> object:
    """In a form a number is text, and may be below zero."""
    number = parse_integer(value) if isinstance(value, FormText) else None
    return to_integer(value) if number is None else number


Name = Annotated[
    Text, Field(max_length=MAX_NAME_LENGTH, json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_to_single_line)
]
Offset = Annotated[int, Field(ge=-MAX_DAYS_OFFSET, le=MAX_DAYS_OFFSET), BeforeValidator(_to_signed_integer)]
DailyLimit = Annotated[int, Field(ge=1, le=MAX_DAILY_LIMIT), DIGITS]

NAME_DESCRIPTION = "What you call it."
TRIGGER_DESCRIPTION = (
    "list_entry: someone is put on the list; scan: someone scans a QR code of mail to the list, or of any"
    " mail where no list is named; date: it is someone's day."
)
LIST_DESCRIPTION = "The list whose people are mailed. Only scan may go without."
DATE_FIELD_DESCRIPTION = "The date that is mailed for, every year; for date alone."
OFFSET_DESCRIPTION = "Days after that date; before it, negative."
SEND_DESCRIPTION = (
    f"`piece` ({PRODUCT_NAMES}) and the body of POST /send/{{piece}} without its audience and schedule_for."
)
DAILY_LIMIT_DESCRIPTION = "How many people it mails a day at most; the others wait for the next days."
ENABLED_DESCRIPTION = "Switched on, it mails, and that costs money."


class AutomationBody(Body):
    """What both a new automation and a changed one hold: a send within."""

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | _ignored_in_send(payload)


@accepts(AutomationUpdate)
class NewAutomation(AutomationBody):
    name: Name = Field(description=NAME_DESCRIPTION, examples=["Welcome"])
    trigger: Trigger = Field(description=TRIGGER_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    date_field: DateField | None = Field(None, description=DATE_FIELD_DESCRIPTION)
    days_offset: Annotated[Offset, NULL_MEANS_DEFAULT] = Field(0, description=OFFSET_DESCRIPTION)
    send: dict[str, Any] = Field(description=SEND_DESCRIPTION, json_schema_extra=SEND_SCHEMA)
    daily_limit: Annotated[DailyLimit, NULL_MEANS_DEFAULT] = Field(
        DEFAULT_DAILY_LIMIT, description=DAILY_LIMIT_DESCRIPTION
    )
    enabled: OptionalFlag = Field(False, description=ENABLED_DESCRIPTION)

    def to_plan(self, caller: Caller, limits: Limits) -> AutomationPlan:
        return AutomationPlan(
            name=self.name,
            trigger=self.trigger,
            mailing_list_id=self.mailing_list_id,
            date_field=self.date_field,
            days_offset=self.days_offset,
            daily_limit=self.daily_limit,
            enabled=self.enabled,
            **_send_columns(self.send, caller, limits),
        )


@accepts(AutomationUpdate)
class ChangedAutomation(AutomationBody):
    """What is not named stays; null where there must be something is refused."""

    # Each default stands for "stays".
    name: Name = Field(default_factory=str, description=NAME_DESCRIPTION)
    trigger: Trigger = Field(default_factory=lambda: "list_entry", description=TRIGGER_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    date_field: DateField | None = Field(None, description=DATE_FIELD_DESCRIPTION)
    days_offset: Offset = Field(default_factory=int, description=OFFSET_DESCRIPTION)
    send: dict[str, Any] = Field(
        default_factory=dict,
        description=f"{SEND_DESCRIPTION} It replaces the former whole.",
        json_schema_extra=SEND_SCHEMA,
    )
    daily_limit: DailyLimit = Field(default_factory=int, description=DAILY_LIMIT_DESCRIPTION)
    enabled: Flag = Field(default_factory=bool, description=ENABLED_DESCRIPTION)

    def to_plan(self, previous: Automation, caller: Caller, limits: Limits) -> AutomationPlan:
        """The plan with what is named. What only a date has goes with the trigger, unless it is named too."""
        columns = self.provided_fields()
        if "send" in columns:
            columns |= _send_columns(columns["send"], caller, limits)
        if columns.get("trigger", previous.trigger) != "date" and previous.trigger == "date":
            columns = {"date_field": None, "days_offset": 0, **columns}
        return replace(AutomationPlan.of(previous), **columns)


def automation_context(container: Container) -> AutomationContext:
    """Days begin where the service is, in testing too."""
    return AutomationContext(
        container.orders, partial(read_stored_send, container.limits), container.environments["live"].zone
    )


def _send_columns(send: Mapping[str, Any], caller: Caller, limits: Limits) -> dict[str, Any]:
    try:
        product, body = read_send(send)
    except Invalid as error:
        raise prefix_send_errors(error) from None
    return {
        "piece": product.product.paths[0],
        "send": to_stored_text(send, limits),
        "sub_account_id": body.sub_account_id if body.sub_account_id is not None else caller.sub_account_id,
        "message_template_id": body.message_template,
        "image_template_id": body.image_template,
    }


def read_send(send: Mapping[str, Any]) -> tuple[SendableProduct, SendBody]:
    """The send within a body: what it is, and what it says. Faults go by the names of a send's own fields."""
    fields = {name: value for name, value in send.items() if name != "piece"}
    product_name = send.get("piece")
    product = PRODUCTS_BY_PATH.get(product_name) if isinstance(product_name, str) else None
    errors: FieldErrors = {} if product else {"piece": [f"Choose one of {PRODUCT_NAMES}."]}
    errors |= {name: [message] for name, message in FORBIDDEN_FIELDS.items() if fields.get(name) not in (None, False)}
    if product is None or errors:
        raise Invalid(errors)
    return product, validate_body(product.body, fields)


def to_stored_text(send: Mapping[str, Any], limits: Limits) -> str:
    text = exact_json.dump_json(dict(send))
    size = len(text.encode())
    max_size = MAX_OTHER_BYTES + limits.metadata_bytes + 4 * limits.message_characters
    if size > max_size:
        raise Invalid({"send": [f"This send takes {size:,} bytes as JSON; at most {max_size:,} are kept."]})
    return text


def read_stored_send(limits: Limits, text: str, now: datetime) -> tuple[OrderRequest, FieldErrors]:
    product, body = read_send(exact_json.parse_json(text.encode()))
    return body.to_order_request(product.product, limits, now=now)


def unused_in_send(text: str, names: Iterable[str]) -> set[str]:
    """Fields of a kept send that the piece has no use for, as they are spelled there."""
    send = exact_json.parse_json(text.encode())
    product, _ = read_send(send)
    return {f"send.{name}" for name in product.body.as_spelled(names, send)}


def _ignored_in_send(payload: Any) -> set[str]:
    send = payload.get("send") if isinstance(payload, Mapping) else None
    if not isinstance(send, Mapping):
        return set()
    product_name = send.get("piece")
    product = PRODUCTS_BY_PATH.get(product_name) if isinstance(product_name, str) else None
    own_fields = {"piece", *FORBIDDEN_FIELDS}
    return {f"send.{name}" for name in (product.body.ignored_in(send) - own_fields if product else ())}
