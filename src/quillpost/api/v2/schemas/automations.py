"""Automations as the API description shows them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import Links, Meta, Moment, linked_example
from quillpost.api.v2.schemas.send import PreviewData

EXAMPLE: dict[str, Any] = {
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
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

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
    model_config = ConfigDict(json_schema_extra={"examples": [linked_example("/automations", EXAMPLE)]})

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
