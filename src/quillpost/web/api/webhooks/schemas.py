"""Bodies of subscriptions and replays."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from quillpost.client import webhooks as wire
from quillpost.core.errors import Invalid
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES, EVENT_TYPES
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.web.api.schemas import NULL_MEANS_DEFAULT, Body, Id, Text, accepts

URL_DESCRIPTION = "Where events go: a public http or https address."
TYPE_DESCRIPTION = "One of the four events, or * for all."
VERB_DESCRIPTION = "How they go: post with a JSON body, or get with the same as query parameters."
SUB_ACCOUNT_DESCRIPTION = "Only orders of this sub account; null: of all."
LIST_DESCRIPTION = "Only orders to this mailing list; null: to anyone."


def _check_event_type(value: object) -> object:
    """One event's name, also as an array of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    event_types = (*EVENT_TYPES, ALL_EVENT_TYPES)
    if value not in event_types:
        raise ValueError(f"Choose one of {', '.join(event_types)}.")
    return value


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


EventName = Annotated[
    str, BeforeValidator(_check_event_type), Field(json_schema_extra={"enum": [*EVENT_TYPES, ALL_EVENT_TYPES]})
]
Verb = Annotated[Literal["post", "get"], BeforeValidator(_to_lower)]
EVENT_NAMES = AliasChoices("type", "event", "events")


@accepts(wire.WebhookUpdate)
class NewWebhook(Body):
    url: Text = Field(max_length=MAX_URL_LENGTH, description=URL_DESCRIPTION, examples=["https://example.com/hook"])
    type: EventName = Field(
        validation_alias=EVENT_NAMES, description=TYPE_DESCRIPTION, examples=["order_item.delivered"]
    )
    verb: Annotated[Verb, NULL_MEANS_DEFAULT] = Field("post", description=VERB_DESCRIPTION)
    description: Text | None = Field(None, max_length=500, description="Yours.")
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    mode: Literal["test", "live"] | None = Field(None, description="The token's own, if given.")


class Trial(Body):
    event_type: EventName | None = Field(
        None,
        validation_alias=AliasChoices("event_type", "type"),
        description="Which of its events; without it, the first that it is for.",
    )


@accepts(wire.WebhookUpdate)
class ChangedWebhook(Body):
    """What is not named stays; null where there must be something is refused."""

    url: Text = Field(default_factory=str, max_length=MAX_URL_LENGTH, description=URL_DESCRIPTION)
    type: EventName = Field(default_factory=str, validation_alias=EVENT_NAMES, description=TYPE_DESCRIPTION)
    verb: Verb = Field(default_factory=lambda: "post", description=VERB_DESCRIPTION)
    description: Text | None = Field(None, max_length=500, description="Yours; null clears it.")
    sub_account_id: Id | None = Field(None, description=SUB_ACCOUNT_DESCRIPTION)
    mailing_list_id: Id | None = Field(None, description=LIST_DESCRIPTION)
    mode: Literal["test", "live"] | None = Field(None, description="As it is: it cannot change.")


def _parse_time(value: object) -> object:
    """An ISO 8601 date, which begins at midnight, or a date-time; without an offset both are UTC."""
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
        utc = at and (at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise ValueError("Write an ISO 8601 date or date-time.")
    return utc


ParsedTime = Annotated[datetime, BeforeValidator(_parse_time)]


class EventReplay(Body):
    since: ParsedTime = Field(
        validation_alias=AliasChoices("from"),
        description="What happened at this ISO 8601 time or later, at most 30 days ago.",
    )
    to: ParsedTime | None = Field(None, description="And before this time; now, if nothing is given.")

    def time_range(self, now: datetime) -> tuple[datetime, datetime]:
        oldest, until = now - webhook_tasks.MAX_REPLAY_AGE, min(self.to or now, now)
        if self.since < oldest:
            raise Invalid({"from": [f"Events are kept for 30 days: ask for those since {format_iso(oldest)}."]})
        if self.since >= until:
            raise Invalid({"from": ["This must be before `to`, and in the past."]})
        return self.since, until
