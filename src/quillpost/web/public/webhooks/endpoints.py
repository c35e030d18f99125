"""Inbound webhooks: carriers, print partners, and services that add people to lists."""

import base64
import binascii
import re
import secrets
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from quillpost.accounts.rate_limits.service import count_anonymous_call, count_list_call
from quillpost.app.container import Container, Limits
from quillpost.client import signatures
from quillpost.core import jobs
from quillpost.core.errors import Invalid, NotFound, QuillpostError, Throttled, Unauthenticated
from quillpost.core.exact_json import BodyLimits, check_unknown_keys, parse_form
from quillpost.fulfillment.print_room.reports import (
    MAX_REPRINTED_ITEMS,
    PartnerReport,
    PrinterStatus,
    SpoiledItem,
    record_partner_report,
)
from quillpost.fulfillment.tracking.rules import BadScanRow, InvalidScanFile
from quillpost.fulfillment.tracking.service import POLL_TASK, read_scans_from_bytes
from quillpost.recipients.field_names import find_field_meaning, normalize_name
from quillpost.recipients.service import RecipientRejection
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.recipients.webhooks.rules import SOURCES, InboundPerson
from quillpost.recipients.webhooks.service import ListKeyOwner, UpsertOutcome, find_key_owner, upsert_recipients
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
from quillpost.web.api.schemas import MULTIPART, STOP_AT_ERROR_LIMIT, Body, FormFile, Id, Text, validate_body
from quillpost.web.dependencies import Services
from quillpost.web.public.dependencies import limit_body
from quillpost.web.sessions import get_client_address

router = APIRouter(include_in_schema=False)

CARRIER_DISABLED = "This door is closed: the operator opens it with QUILLPOST_CARRIER_TOKEN."


class CarrierWebhookDisabled(NotFound):
    def __init__(self) -> None:
        QuillpostError.__init__(self, CARRIER_DISABLED)


def require_carrier_token(request: Request, container: Services) -> Container:
    """Wrong tokens are counted, so that nobody guesses for long."""
    if container.carrier_token is None:
        raise CarrierWebhookDisabled
    presented = _read_secret(request.headers.get("authorization", ""))
    if not secrets.compare_digest(presented, container.carrier_token.encode()):
        allowance = count_anonymous_call(
            container.db, get_client_address(request), limit=container.limits.calls_a_minute
        )
        if allowance.is_exceeded:
            raise Throttled(retry_after=allowance.resets_in)
        raise Unauthenticated
    return container


async def read_carrier_body(request: Request, container: Annotated[Container, Depends(require_carrier_token)]) -> bytes:
    return await limit_body(container.limits.body_bytes)(request)


@router.post("/hooks/carrier/iv-mtr")
def receive_scans(
    container: Annotated[Container, Depends(require_carrier_token)], body: Annotated[bytes, Depends(read_carrier_body)]
) -> Response:
    """Scans as JSON, gzipped or not; 422 unless at least one can be read. A job reads them; repeats change nothing."""
    if _has_scans(body):
        container.carrier_inbox.store(body)
        with container.db.system_transaction() as tx:
            jobs.enqueue_unique(tx, POLL_TASK, at=container.clock())
    return json_response({"message": "Accepted"}, status=202)


def _has_scans(body: bytes) -> bool:
    """An empty list of events is a sign of life, and is not stored."""
    try:
        return any(not isinstance(row, BadScanRow) for row in read_scans_from_bytes(body, json_only=True))
    except InvalidScanFile as reason:
        raise Invalid({"body": [str(reason)]}) from None


def _read_secret(authorization: str) -> bytes:
    """The token of Bearer, or the password of Basic."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip().encode()
        case "basic":
            try:
                return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
            except binascii.Error:
                return b""
    return b""


MAX_PARTNER_BODY_BYTES = 2_000_000
MAX_REASON_LENGTH = 200
LIVE_MODE = "live"  # partners print live mail only


class PartnerSpoiledItem(Body):
    item_id: Id | None = None
    tracking: Text | None = Field(None, max_length=40)
    position: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reason: Text | None = Field(None, max_length=MAX_REASON_LENGTH)


class PartnerCall(Body):
    reference: Text = Field(max_length=40)
    event: PrinterStatus
    at: Text | None = Field(None, max_length=64)
    spoiled: Annotated[list[PartnerSpoiledItem], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = (
        None
    )


async def get_partner_secrets(partner: str, container: Services) -> list[str]:
    partner_secrets = container.print_partner_secrets.get(partner)
    if not partner_secrets:
        raise NotFound
    return list(partner_secrets)


@router.post("/hooks/print/{partner}")
def receive_call(
    request: Request,
    partner_secrets: Annotated[list[str], Depends(get_partner_secrets)],
    body: Annotated[bytes, Depends(limit_body(MAX_PARTNER_BODY_BYTES))],
    container: Services,
) -> Response:
    """401 unless the partner signed this body (Standard Webhooks) in the last minutes. Repeats change nothing."""
    now = container.clock()
    if not signatures.verify(partner_secrets, request.headers, body, now=now):
        return json_response({"message": "The signature does not fit this body, or is too old."}, status=401)
    record_partner_report(
        container.db, container.environments[LIVE_MODE], _parse_call(body, container.limits.bounds, now=now), now=now
    )
    return json_response({"message": "Accepted"}, status=202)


def _parse_call(body: bytes, bounds: BodyLimits, *, now: datetime) -> PartnerReport:
    payload = read_json(body, bounds)
    check_unknown_keys(PartnerCall.ignored_in(payload), bounds)
    call = validate_body(PartnerCall, payload)
    spoiled_items = [
        SpoiledItem(item.position, item.item_id, item.reason, item.tracking) for item in call.spoiled or ()
    ]
    at = now if call.at is None else _parse_time(call.at)
    return PartnerReport(call.reference, call.event, at, spoiled_items)


def _parse_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        message = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
        raise Invalid({"at": [message]}) from None


MAX_LIST_BODY_BYTES = 5_000_000
MAX_FIELDS = 100_000
MAX_NESTING = 8  # brackets in one name

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
    rows: Sequence[InboundPerson]
    source: str | None
    ignored: Set[str]  # unknown names, in the rows and around them


async def read_call(request: Request, queue_key: Hashable, limits: Limits) -> ListWebhookCall:
    """A large body is parsed in its turn, and only while its sender is connected."""
    body = await limit_body(min(limits.body_bytes, MAX_LIST_BODY_BYTES))(request)
    if len(body) <= LARGE_BODY_BYTES:
        return parse_call(request, body, limits, lambda: False)
    queue: BodyReadQueue = request.app.state.body_queue
    work = queue.run(queue_key, lambda stops: parse_call(request, body, limits, stops))
    return await run_while_connected(request.receive, work)


def parse_call(request: Request, body: bytes, limits: Limits, should_stop: ShouldStop) -> ListWebhookCall:
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
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
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


def nest_fields(pairs: Pairs) -> dict[str, Any]:
    """The fields of a form as a tree: `contact[fields][city]` is nested twice."""
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
    """A name that is given twice gets both values; a field of a person may have only one."""
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


WELCOME_MESSAGE = "People are put on a mailing list by POST to this address."
WRONG_SOURCE = "Use automation or crm, or leave it out."


def require_list_key(api_key: str, request: Request, container: Services) -> ListKeyOwner:
    """Calls with a wrong key are counted, so that nobody guesses for long."""
    holder = find_key_owner(container.db, api_key)
    if holder is None:
        allowance = count_anonymous_call(
            container.db, get_client_address(request), limit=container.limits.calls_a_minute
        )
    else:
        allowance = count_list_call(container.db, holder.list_id, limit=container.limits.hook_calls_a_minute)
    request.state.allowance = allowance
    if allowance.is_exceeded:
        raise Throttled(retry_after=allowance.resets_in)
    if holder is None:
        raise NotFound
    return holder


ListKeyHolder = Annotated[ListKeyOwner, Depends(require_list_key)]


async def get_call(request: Request, holder: ListKeyHolder, container: Services) -> ListWebhookCall:
    return await read_call(request, holder.tenant.account_id, container.limits)


@router.get("/hooks/lists/{api_key}")
def show_welcome(_holder: ListKeyHolder) -> Response:
    """Some services check the address before they send."""
    return json_response({"message": WELCOME_MESSAGE})


@router.post("/hooks/lists/{api_key}")
def receive_people(
    holder: ListKeyHolder,
    call: Annotated[ListWebhookCall, Depends(get_call)],
    container: Services,
    source: Annotated[str | None, Query()] = None,
) -> Response:
    """The outcome of each row, in order. A refused row stops no other; somebody who is on the list stays there once."""
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
    """What we read of a row and its outcome, but nothing that was known before: a key is no right to read."""
    content: dict[str, Any] = dict(row.fields)
    if isinstance(outcome, RecipientRejection):
        content |= {"result": "refused", "error": outcome.reason}
    else:
        result, entry = outcome
        content = {"id": entry.id, "mailing_list_id": holder.list_id, **content, "result": result}
    return content | {"ignored": list(row.ignored_names)}
