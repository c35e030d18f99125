"""The delivery log of a webhook, and trying one by hand."""

from datetime import datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import replay as replaying
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.health import Lately, lately
from quillpost.notifications.webhooks.rules import EVENT_TYPES, EVERY_TYPE
from quillpost.recipients.lists.queries import known_lists
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.webhooks.deliveries import EventReplay
from quillpost.web.api.webhooks.endpoints import Trial
from quillpost.web.csrf import DoneAlready, do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, read_body, typed_moment, typed_zone, zone_values
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.webhooks import labels
from quillpost.web.dashboard.webhooks.pages import PAGE, path_of, webhook_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go, show
from quillpost.web.sessions import OurParts, Reader, is_fragment

router = APIRouter(include_in_schema=False)


@router.get(f"{PAGE}/{{webhook_id}}")
def show_webhook(
    request: Request,
    webhook_id: str,
    who: Reader,
    parts: OurParts,
    status: str = "",
    event_type: str = "",
    page: str = "",
) -> Response:
    wanted = deliveries.DeliveryFilter(
        status=status if status in deliveries.STATUSES else None,
        event_type=event_type if event_type in EVENT_TYPES else None,
    )
    return log_page(request, id_in_path(webhook_id), who, parts, wanted=wanted, page=page)


def log_page(
    request: Request,
    webhook_id: int,
    who: SignedIn,
    parts: Parts,
    *,
    wanted: deliveries.DeliveryFilter | None = None,
    page: str = "",
    form: Filled = EMPTY,
) -> Response:
    """The webhook's page; `form` is the one on it that came back with faults."""
    wanted = wanted or deliveries.DeliveryFilter()
    home = tenant(who.caller)
    with parts.db.transaction(home) as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        found, is_truncated = deliveries.list_deliveries(
            parts.db, tx, home, webhook.id, asked_page(page), wanted
        )
        on_list = known_lists(tx, [webhook.mailing_list_id] if webhook.mailing_list_id else [])
        branch = read_sub_account(tx, webhook.sub_account_id)
    chosen = {"status": wanted.status, "event_type": wanted.event_type}
    filters = urlencode({name: value for name, value in chosen.items() if value})
    return webhook_page(
        request,
        "webhook.html",
        who,
        parts,
        form=form,
        webhook=webhook,
        page=found,
        is_truncated=is_truncated,
        chosen=chosen,
        address=path_of(webhook.id) + (f"?{filters}" if filters else ""),
        lately=lately(parts.db, [webhook.id]).get(webhook.id, Lately()),
        mailing_list=next(iter(on_list.values()), None),
        branch=branch,
        status_words=labels.STATUSES,
        told=lambda delivery: labels.outcome(delivery, webhook),
        **zone_values(typed_zone(request, form.typed), now=parts.clock()),
        tryable=EVENT_TYPES if webhook.type == EVERY_TYPE else (webhook.type,),
    )


@router.get(f"{PAGE}/{{webhook_id}}/deliveries/{{delivery_id}}")
def show_delivery(
    request: Request, webhook_id: str, delivery_id: str, who: Reader, parts: OurParts
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
        delivery = deliveries.read_delivery(tx, webhook.id, id_in_path(delivery_id))
    return delivery_page(request, webhook, delivery, who, parts)


def delivery_page(
    request: Request,
    webhook: webhook_queries.Webhook,
    delivery: deliveries.Delivery,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
) -> Response:
    return webhook_page(
        request,
        "delivery.html",
        who,
        parts,
        form=form,
        webhook=webhook,
        delivery=delivery,
        outcome=labels.outcome(delivery, webhook),
        status_words=labels.STATUSES,
        payload=labels.payload(delivery.words),
        look=0,
    )


MOST_LOOKS = 40
"""How often a page asks by itself what came of a delivery; each time it waits a little longer."""
SENT_ALREADY = "The webhook's log shows what came of it."


@router.post(f"{PAGE}/{{webhook_id}}/test")
def send_test(request: Request, webhook_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(webhook_id)
    try:
        wanted = read_body(Trial, {"event_type": form.text("event_type") or None}).event_type
        with parts.db.transaction(tenant(who.caller)) as tx:
            sent = webhook_service.send_sample(tx, number, wanted, now=parts.clock())
    except (Invalid, Refused) as refused:
        if is_fragment(request):
            return show(request, "part_trouble.html", who=who, status=422, message=refused.message)
        form_back = Filled.back(form, refused, at="event_type")
        return log_page(request, number, who, parts, form=form_back)
    if is_fragment(request):
        return _outcome_part(request, number, sent.delivery_id, who, parts, look=0)
    return go(f"{path_of(number)}/deliveries/{sent.delivery_id}", said="webhook_tried")


@router.get(f"{PAGE}/{{webhook_id}}/deliveries/{{delivery_id}}/outcome")
def show_outcome(
    request: Request, webhook_id: str, delivery_id: str, who: Reader, parts: OurParts, look: str = ""
) -> Response:
    """A part of a page: what came of it until now. While nothing did, the page asks again, not for ever."""
    looked = int(look) if look.isascii() and look.isdigit() and len(look) < 4 else MOST_LOOKS
    return _outcome_part(request, id_in_path(webhook_id), id_in_path(delivery_id), who, parts, look=looked)


@router.post(f"{PAGE}/{{webhook_id}}/deliveries/{{delivery_id}}/retry")
def retry(
    request: Request, webhook_id: str, delivery_id: str, who: Reader, form: PostedForm, parts: OurParts
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
        delivery = deliveries.read_delivery(tx, webhook.id, id_in_path(delivery_id))
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            due = deliveries.retry(tx, webhook.id, delivery.id, now=parts.clock())
    except Refused as refused:
        back = Filled.back(form, refused, at="retry")
        return delivery_page(request, webhook, delivery, who, parts, form=back)
    return go(f"{path_of(webhook.id)}/deliveries/{due.id}", said="delivery_retried")


@router.post(f"{PAGE}/{{webhook_id}}/replay")
def replay(request: Request, webhook_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(webhook_id)
    try:
        since, until = _asked_time(form, typed_zone(request, form.fields), now=parts.clock())
        with parts.db.transaction(tenant(who.caller)) as tx:
            webhook_queries.read_webhook(tx, number)
            do_once(tx, who, form.text(csrf.FIELD), instead=SENT_ALREADY, leads_to=path_of(number))
            begun = replaying.replay(tx, number, since=since, until=until)
    except DoneAlready:
        raise
    except (Invalid, Refused, Conflict) as refused:
        faults = refused.fields if isinstance(refused, Invalid) else {"from": [refused.message]}
        return log_page(request, number, who, parts, form=Filled(form.fields, faults))
    is_begun = begun.events or begun.truncated
    return go(path_of(number), said="replay_begun" if is_begun else "replay_empty")


def _outcome_part(
    request: Request, webhook_id: int, delivery_id: int, who: SignedIn, parts: Parts, *, look: int
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        delivery = deliveries.read_delivery(tx, webhook.id, delivery_id)
    return webhook_page(
        request,
        "outcome.html",
        who,
        parts,
        webhook=webhook,
        delivery=delivery,
        outcome=labels.outcome(delivery, webhook),
        look=look + 1 if look < MOST_LOOKS else None,
        is_apart=True,
    )


def _asked_time(form: Form, zone: ZoneInfo, *, now: datetime) -> tuple[datetime, datetime]:
    """From when until when, as the API would be told: the form's are times of the zone that it names."""
    given = {"from": typed_moment(form, "from", zone).isoformat(), "to": None}
    if form.text("to"):
        given["to"] = typed_moment(form, "to", zone).isoformat()
    return read_body(EventReplay, given).time(now)
