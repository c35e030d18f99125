"""Bodies and responses of automations."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from quillpost.app.container import Limits
from quillpost.core import exact_json
from quillpost.core.errors import Invalid
from quillpost.orders.automations.drafts import ReadSend
from quillpost.orders.automations.rules import DAILY_LIMIT, FURTHEST_OFFSET, HIGHEST_DAILY_LIMIT
from quillpost.orders.requests import Call, Faults
from quillpost.web.api.bodies import (
    DIGITS,
    NOT_BLANK,
    NULL_IS_LEFT_OUT,
    Body,
    Flag,
    FormText,
    Id,
    Switch,
    Text,
    integer_of,
    read_body,
    written_integer,
)
from quillpost.web.api.orders.schemas import Links, Meta, Moment, linked_example
from quillpost.web.api.send.endpoints import OFFERS, Offer
from quillpost.web.api.send.requests import SendBody
from quillpost.web.api.send.schemas import PreviewData

LONGEST_NAME = 200
ROOM_FOR_THE_REST = 100_000
"""Bytes of a send beside its message and metadata: addresses, mostly."""

BY_PATH: Mapping[str, Offer] = {path: offer for offer in OFFERS for path in offer.piece.paths}
PIECE_NAMES = ", ".join(offer.piece.paths[0] for offer in OFFERS)

OF_A_PIECE: dict[str, Any] = {
    "required": ["piece"],
    "properties": {"piece": {"type": "string", "enum": list(BY_PATH)}},
}
CHOOSES = "An automation chooses whom it mails by itself: leave this out."
LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "recipients",
            "mailing_list_ids",
            "mailing_lists",
            "radius_search",
            "radius_center",
            "radius_distance_miles",
        ),
        CHOOSES,
    ),
    "schedule_for": "An automation sends when its time comes: leave this out.",
    **dict.fromkeys(
        ("preview", "preview_recipient"), "POST /automations/{id}/preview shows it: leave this out."
    ),
}
"""What a send says of its audience and its time, which are the automation's own."""

REQUEST_EXAMPLE: dict[str, Any] = {
    "name": "Welcome",
    "trigger": "list_entry",
    "mailing_list_id": 7,
    "send": {"piece": "postcard", "message": "Hi %FIRST_NAME%, welcome!", "metadata": {"flow": "welcome"}},
    "enabled": True,
}
BIRTHDAY: dict[str, Any] = {
    "name": "Birthdays",
    "trigger": "date",
    "mailing_list_id": 7,
    "date_field": "dob",
    "days_offset": -7,
    "send": {"piece": "notecard", "message": "Happy birthday, %FIRST_NAME%!"},
    "daily_limit": 500,
}

Trigger = Literal["list_entry", "scan", "date"]
DateField = Literal["dob", "anniversary"]


def _named(text: str) -> str:
    """On one line: it stands in sentences, and in the subject of an e-mail."""
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    if not plain:
        raise ValueError("Give the automation a name.")
    return plain


def _signed(value: object) -> object:
    """In a form a number is text, and may be below zero."""
    number = written_integer(value) if isinstance(value, FormText) else None
    return integer_of(value) if number is None else number


Name = Annotated[
    Text, Field(max_length=LONGEST_NAME, json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_named)
]
Offset = Annotated[int, Field(ge=-FURTHEST_OFFSET, le=FURTHEST_OFFSET), BeforeValidator(_signed)]
DailyLimit = Annotated[int, Field(ge=1, le=HIGHEST_DAILY_LIMIT), DIGITS]

CALLED = "What you call it."
WHEN = (
    "list_entry: someone is put on the list; scan: someone scans a QR code of mail to the list, or of any"
    " mail where no list is named; date: it is someone's day."
)
WHOSE = "The list whose people are mailed. Only scan may go without."
WHICH = "The date that is mailed for, every year; for date alone."
OFFSET = "Days after that date; before it, negative."
WHAT = f"`piece` ({PIECE_NAMES}) and the body of POST /send/{{piece}} without its audience and schedule_for."
LIMIT = "How many people it mails a day at most; the others wait for the next days."
ON = "Switched on, it mails, and that costs money."


class AutomationBody(Body):
    """What both a new automation and a changed one hold: a send within."""

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | _ignored_in_send(sent)


class NewAutomation(AutomationBody):
    model_config = ConfigDict(json_schema_extra={"examples": [REQUEST_EXAMPLE, BIRTHDAY]})

    name: Name = Field(description=CALLED, examples=["Welcome"])
    trigger: Trigger = Field(description=WHEN)
    mailing_list_id: Id | None = Field(None, description=WHOSE)
    date_field: DateField | None = Field(None, description=WHICH)
    days_offset: Annotated[Offset, NULL_IS_LEFT_OUT] = Field(0, description=OFFSET)
    send: dict[str, Any] = Field(description=WHAT, json_schema_extra=OF_A_PIECE)
    daily_limit: Annotated[DailyLimit, NULL_IS_LEFT_OUT] = Field(DAILY_LIMIT, description=LIMIT)
    enabled: Switch = Field(False, description=ON)


class ChangedAutomation(AutomationBody):
    """What is not named stays; null where there must be something is refused."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    # Each default stands for "stays".
    name: Name = Field(default_factory=str, description=CALLED)
    trigger: Trigger = Field(default_factory=lambda: "list_entry", description=WHEN)
    mailing_list_id: Id | None = Field(None, description=WHOSE)
    date_field: DateField | None = Field(None, description=WHICH)
    days_offset: Offset = Field(default_factory=int, description=OFFSET)
    send: dict[str, Any] = Field(
        default_factory=dict,
        description=f"{WHAT} It replaces the former whole.",
        json_schema_extra=OF_A_PIECE,
    )
    daily_limit: DailyLimit = Field(default_factory=int, description=LIMIT)
    enabled: Flag = Field(default_factory=bool, description=ON)


def read_send(send: Mapping[str, Any]) -> tuple[Offer, SendBody]:
    """The send within a body: what it is, and what it says. Faults go by the names of a send's own fields."""
    given = {name: value for name, value in send.items() if name != "piece"}
    piece = send.get("piece")
    offer = BY_PATH.get(piece) if isinstance(piece, str) else None
    faults: Faults = {} if offer else {"piece": [f"Choose one of {PIECE_NAMES}."]}
    faults |= {name: [why] for name, why in LEFT_OUT.items() if given.get(name) not in (None, False)}
    if offer is None or faults:
        raise Invalid(faults)
    return offer, read_body(offer.body, given)


def kept_text(send: Mapping[str, Any], limits: Limits) -> str:
    """The send as it is kept: as it came, to the letter."""
    written = exact_json.write(dict(send))
    size = len(written.encode())
    most = ROOM_FOR_THE_REST + limits.metadata_bytes + 4 * limits.message_characters
    if size > most:
        raise Invalid({"send": [f"This send takes {size:,} bytes as JSON; at most {most:,} are kept."]})
    return written


def reader(limits: Limits) -> ReadSend:
    """Reads a send that is kept, as this release understands it."""

    def read(text: str, now: datetime) -> tuple[Call, Faults]:
        offer, body = read_send(exact_json.read(text.encode()))
        return body.call(offer.piece, limits, now=now)

    return read


def within_send(wrong: Invalid) -> Invalid:
    """The same faults by the names that they have in an automation."""
    fields = {
        "mailing_list_id" if name == "mailing_list_ids" else f"send.{name}": told
        for name, told in wrong.fields.items()
    }
    return Invalid(fields)


def unused_in_send(text: str, names: Iterable[str]) -> set[str]:
    """Fields of a kept send that the piece has no use for, as they are spelled there."""
    send = exact_json.read(text.encode())
    offer, _ = read_send(send)
    return {f"send.{name}" for name in offer.body.spelled(names, send)}


def _ignored_in_send(sent: Any) -> set[str]:
    send = sent.get("send") if isinstance(sent, Mapping) else None
    if not isinstance(send, Mapping):
        return set()
    piece = send.get("piece")
    offer = BY_PATH.get(piece) if isinstance(piece, str) else None
    known = {"piece", *LEFT_OUT}
    return {f"send.{name}" for name in (offer.body.ignored_in(send) - known if offer else ())}


RESPONSE_EXAMPLE: dict[str, Any] = {
    "id": 3,
    "user_id": 1,
    "sub_account_id": None,
    "mode": "live",
    "name": "Birthdays",
    "trigger": "date",
    "mailing_list_id": 7,
    "date_field": "dob",
    "days_offset": -7,
    "send": {"piece": "notecard", "message": "Happy birthday, %FIRST_NAME%!"},
    "daily_limit": 5000,
    "enabled": True,
    "waiting": 0,
    "held_by": None,
    "held_until": None,
    "sent_count": 12,
    "last_sent_at": "2026-05-01T09:30:00Z",
    "last_order_id": 71,
    "last_error": None,
    "last_error_at": None,
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-01T09:30:00Z",
}


class AutomationShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [RESPONSE_EXAMPLE]})

    id: int
    user_id: int
    sub_account_id: int | None = Field(description="The sub account that sends: that of its send.")
    mode: str
    name: str
    trigger: str
    mailing_list_id: int | None
    date_field: str | None
    days_offset: int
    send: dict[str, Any] = Field(description="As it was given, to the letter.")
    daily_limit: int
    enabled: bool
    waiting: int = Field(
        description="How many are due and not mailed yet. Without a whole address nobody is due."
    )
    held_by: str | None = Field(
        description="What those who wait are held by, where nothing is wrong: daily_limit, or null."
    )
    held_until: Moment | None = Field(description="When they go on, where they are held.")
    sent_count: int = Field(description="How many pieces it has sent.")
    last_sent_at: Moment | None
    last_order_id: int | None = Field(description="The order that it made last.")
    last_error: str | None = Field(description="Why it could not send when it last tried.")
    last_error_at: Moment | None
    created_at: Moment
    updated_at: Moment


class AutomationPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [linked_example("/automations", RESPONSE_EXAMPLE)]}
    )

    data: list[AutomationShape]
    links: Links
    meta: Meta


class ComingDay(BaseModel):
    date: str = Field(examples=["2026-05-06"])
    recipients: int


class AutomationPreviewData(PreviewData):
    waiting: int = Field(description="How many are due now.")
    coming: list[ComingDay] = Field(
        description="Where the trigger is a date: on which of the next 30 days how many are mailed, as the"
        " list is now."
    )
    coming_total: int = Field(description="How many they are together.")


class AutomationPreview(BaseModel):
    """As a send with `preview` = true answers, and who is mailed next."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": True,
                    "code": 200,
                    "message": "OK",
                    "data": {
                        "previews": [
                            "https://mail.example.com/files/front",
                            "https://mail.example.com/files/back",
                        ],
                        "sides": ["front", "back"],
                        "warnings": [],
                        "waiting": 0,
                        "coming": [{"date": "2026-05-06", "recipients": 3}],
                        "coming_total": 3,
                    },
                }
            ]
        }
    )

    success: bool
    code: int
    message: str
    data: AutomationPreviewData
