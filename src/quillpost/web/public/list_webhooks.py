"""Where other services put people on a list.

The same call may come again and again: whoever is on the list already is there once.
"""

import re
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.accounts.service import count_anonymous_call, count_list_call
from quillpost.app.container import Container, Limits
from quillpost.core.body_limits import BodyLimits, check_unknown_keys, parse_form
from quillpost.core.errors import Invalid, NotFound, Throttled
from quillpost.recipients.field_names import find_field_meaning, normalize_name
from quillpost.recipients.service import RecipientRejection
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.recipients.webhooks.rules import SOURCES, InboundPerson
from quillpost.recipients.webhooks.service import ListKeyOwner, UpsertOutcome, find_key_owner, upsert_recipients
from quillpost.web.api.bodies import MULTIPART, FormFile
from quillpost.web.api.errors import UnreadableBody
from quillpost.web.api.requests import (
    LARGE_BODY_BYTES,
    BodyReadQueue,
    ShouldStop,
    read_json,
    read_multipart,
    run_while_connected,
)
from quillpost.web.api.responses import add_ignored_header, json_response
from quillpost.web.dependencies import get_container
from quillpost.web.public.partner_webhooks import limit_body

MAX_BODY_BYTES = 5_000_000
MAX_FIELDS = 100_000
MAX_NESTING = 8
"""Brackets in one name."""

FORM_TYPE = "application/x-www-form-urlencoded"
EMPTY_BODY = "The body is empty: send one person as an object, or many as an array."
NOT_PEOPLE = "Send one person as an object, or many as an array."
WRONG_TYPE = f"Send application/json, {FORM_TYPE} or {MULTIPART}."
JSON_AS_FORM = "The body looks like JSON but is labelled as a form: send Content-Type: application/json."
UNREADABLE_FORM = f"The form cannot be read. It may have {MAX_FIELDS:,} fields in UTF-8."
NO_FILES_ALLOWED = "No files are taken here: send the fields of a person."
VALUE_AND_FIELDS = "This name is given both a value and fields of its own."
DUPLICATE_FIELD = "This field is given twice, with different values: give it once."

_BRACKETS = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])+)")
_BRACKET_CONTENT = re.compile(r"\[([^\[\]]*)\]")

Pairs = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class ListWebhookCall:
    """What a call says: its rows as they were read, and what is said around them."""

    rows: Sequence[InboundPerson]
    source: str | None
    ignored: Set[str]
    """Names that mean nothing to us, in the rows and around them."""


async def read_call(request: Request, queue_key: Hashable, limits: Limits) -> ListWebhookCall:
    """The people of a call. A heavy one is read when it is its turn, and only while its sender is there."""
    body = await limit_body(min(limits.body_bytes, MAX_BODY_BYTES))(request)
    if len(body) <= LARGE_BODY_BYTES:
        return parse_call(request, body, limits, lambda: False)
    queue: BodyReadQueue = request.app.state.body_queue
    work = queue.run(queue_key, lambda stops: parse_call(request, body, limits, stops))
    return await run_while_connected(request.receive, work)


def parse_call(request: Request, body: bytes, limits: Limits, should_stop: ShouldStop) -> ListWebhookCall:
    """Bounded first, then parsed, then understood row by row."""
    value = _parse_body(request, body, limits.bounds)
    check_unknown_keys(webhook_rules.find_unknown_names(value), limits.bounds)
    people = webhook_rules.read_payload(value)
    max_rows = limits.inline_recipients
    if len(people.rows) > max_rows:
        raise Invalid({"recipients": [f"At most {max_rows:,} recipients in one call, please."]})
    rows = (
        [] if should_stop() else [webhook_rules.read_person(row, is_leaving=people.is_leaving) for row in people.rows]
    )
    return ListWebhookCall(
        rows, people.source, {*people.ignored_names, *(name for row in rows for name in row.ignored_names)}
    )


def _parse_body(request: Request, body: bytes, bounds: BodyLimits) -> Any:
    """What was sent: an object or an array."""
    media_type = get_media_type(request)
    if not body.strip():
        raise Invalid({"body": [EMPTY_BODY]})
    if media_type == MULTIPART:
        return nest_fields(_parse_multipart(request, body, bounds))
    looks_like_json = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    if media_type == FORM_TYPE and looks_like_json:
        raise UnreadableBody(415, JSON_AS_FORM)
    if media_type == FORM_TYPE:
        return nest_fields(_parse_form(body, bounds))
    # Not every tool says what it sends.
    if (
        media_type == "application/json"
        or media_type.endswith("+json")
        or (media_type in ("", "text/plain") and looks_like_json)
    ):
        return _parse_json(body, bounds)
    raise UnreadableBody(415, WRONG_TYPE)


def get_media_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def nest_fields(pairs: Pairs) -> dict[str, Any]:
    """The fields of a form, where `contact[fields][city]` is a field of a field of a field."""
    tree: dict[str, Any] = {}
    for name, value in pairs:
        node, *steps = [tree, *_split_name(name)]
        *outer, last = steps
        for step in outer:
            node = node.setdefault(step or str(len(node)), {})
            if not isinstance(node, dict):
                raise Invalid({_truncate_name(name): [VALUE_AND_FIELDS]})
        _set_field(node, last or str(len(node)), name, value)
    return tree


def _set_field(node: dict[str, Any], last: str, name: str, value: Any) -> None:
    """A name that is given twice has both values; where it is a field of a person, it may have but one."""
    match node.get(last):
        case None:
            node[last] = value
        case str() as existing if find_field_meaning(normalize_name(last)) or find_field_meaning(normalize_name(name)):
            if existing != value:
                raise Invalid({_truncate_name(name): [DUPLICATE_FIELD]})
        case dict():
            raise Invalid({_truncate_name(name): [VALUE_AND_FIELDS]})
        case list() as values:
            values.append(value)
        case existing:
            node[last] = [existing, value]


def _split_name(name: str) -> list[str]:
    parts = _BRACKETS.fullmatch(name)
    if parts is None:
        return [name]
    steps = [parts[1], *_BRACKET_CONTENT.findall(parts[2])]
    if len(steps) > MAX_NESTING:
        raise Invalid({_truncate_name(name): [f"At most {MAX_NESTING - 1} brackets in a name, please."]})
    return steps


def _truncate_name(name: str) -> str:
    return name[:100]


def _parse_form(body: bytes, bounds: BodyLimits) -> Pairs:
    try:
        return parse_form(body, max_fields=MAX_FIELDS, limits=bounds)
    except ValueError:
        raise Invalid({"body": [UNREADABLE_FORM]}) from None


def _parse_multipart(request: Request, body: bytes, bounds: BodyLimits) -> Pairs:
    """A form in parts: all of them fields."""
    fields = read_multipart(request, body, bounds)
    for name, value in fields.items():
        if isinstance(value, FormFile):
            raise Invalid({name: [NO_FILES_ALLOWED]})
    return [(name, str(value)) for name, value in fields.items()]


def _parse_json(body: bytes, bounds: BodyLimits) -> Any:
    value = read_json(body, bounds)
    if not isinstance(value, dict | list):
        raise Invalid({"body": [NOT_PEOPLE]})
    return value


router = APIRouter(include_in_schema=False)

WELCOME_MESSAGE = "People are put on a mailing list by POST to this address."
WRONG_SOURCE = "Use automation or crm, or leave it out."


def require_list_key(
    api_key: str, request: Request, container: Annotated[Container, Depends(get_container)]
) -> ListKeyOwner:
    """Whoever has a list's key, not too often; the others are counted, so that nobody guesses for long."""
    holder = find_key_owner(container.db, api_key)
    if holder is None:
        address = request.client.host if request.client else "unknown"
        allowance = count_anonymous_call(container.db, address, limit=container.limits.calls_a_minute)
    else:
        allowance = count_list_call(container.db, holder.list_id, limit=container.limits.hook_calls_a_minute)
    request.state.allowance = allowance
    if allowance.is_exceeded:
        raise Throttled(retry_after=allowance.resets_in)
    if holder is None:
        raise NotFound
    return holder


ListKeyHolder = Annotated[ListKeyOwner, Depends(require_list_key)]


async def get_call(
    request: Request, holder: ListKeyHolder, container: Annotated[Container, Depends(get_container)]
) -> ListWebhookCall:
    """What someone who was let in has sent."""
    return await read_call(request, holder.tenant.account_id, container.limits)


@router.get("/hooks/lists/{api_key}")
def show_welcome(_holder: ListKeyHolder) -> Response:
    """Some services look whether there is anyone before they send."""
    return json_response({"message": WELCOME_MESSAGE})


@router.post("/hooks/lists/{api_key}")
def receive_people(
    holder: ListKeyHolder,
    call: Annotated[ListWebhookCall, Depends(get_call)],
    container: Annotated[Container, Depends(get_container)],
    source: Annotated[str | None, Query()] = None,
) -> Response:
    """What became of each row, in order. One that is refused keeps none of the others back."""
    if source and source not in SOURCES:
        raise Invalid({"source": [WRONG_SOURCE]})
    with container.db.transaction(holder.tenant) as tx:
        outcomes = upsert_recipients(tx, holder, call.rows, source=source or call.source, clock=container.clock)
    content = [
        _serialize_outcome(holder, *row_and_outcome) for row_and_outcome in zip(call.rows, outcomes, strict=True)
    ]
    return add_ignored_header(json_response(content), call.ignored)


def _serialize_outcome(
    holder: ListKeyOwner, row: InboundPerson, outcome: UpsertOutcome | RecipientRejection
) -> dict[str, Any]:
    """What we read of a row, and what became of it. Of what was known before, a key shows nothing."""
    content: dict[str, Any] = dict(row.fields)
    if isinstance(outcome, RecipientRejection):
        content |= {"result": "refused", "error": outcome.reason}
    else:
        result, entry = outcome
        content = {"id": entry.id, "mailing_list_id": holder.list_id, **content, "result": result}
    return content | {"ignored": list(row.ignored_names)}
