"""By hand: a sample event and what came of it, one delivery once more, and a time told again."""

from datetime import datetime
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.api.v2.deliveries import EventReplay
from quillpost.api.v2.webhooks import Trial
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.typed_times import typed_moment, typed_zone
from quillpost.dashboard.webhooks import words
from quillpost.dashboard.webhooks.deliveries import delivery_page, log_page
from quillpost.dashboard.webhooks.webhook_pages import PAGE, path_of, webhook_page
from quillpost.kit.errors import Conflict, Invalid, Refused
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import DoneAlready, do_once
from quillpost.reception.show import go, show
from quillpost.reception.visits import OurParts, Reader, is_fragment
from quillpost.webhooks import log, replaying, service, store

router = APIRouter(include_in_schema=False)

MOST_LOOKS = 40
"""How often a page asks by itself what came of a delivery; each time it waits a little longer."""
SENT_ALREADY = "The webhook's log shows what came of it."


@router.post(f"{PAGE}/{{webhook_id}}/test")
def send_test(request: Request, webhook_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(webhook_id)
    try:
        wanted = read_body(Trial, {"event_type": form.text("event_type") or None}).event_type
        with parts.db.transaction(tenant(who.caller)) as tx:
            sent = service.send_sample(tx, number, wanted, now=parts.clock())
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
        webhook = store.read_webhook(tx, id_in_path(webhook_id))
        delivery = log.read_delivery(tx, webhook.id, id_in_path(delivery_id))
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            due = log.retry(tx, webhook.id, delivery.id, now=parts.clock())
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
            store.read_webhook(tx, number)
            do_once(tx, who, form.text(once.FIELD), instead=SENT_ALREADY, leads_to=path_of(number))
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
        webhook = store.read_webhook(tx, webhook_id)
        delivery = log.read_delivery(tx, webhook.id, delivery_id)
    return webhook_page(
        request,
        "outcome.html",
        who,
        parts,
        webhook=webhook,
        delivery=delivery,
        outcome=words.outcome(delivery, webhook),
        look=look + 1 if look < MOST_LOOKS else None,
        is_apart=True,
    )


def _asked_time(form: Form, zone: ZoneInfo, *, now: datetime) -> tuple[datetime, datetime]:
    """From when until when, as the API would be told: the form's are times of the zone that it names."""
    given = {"from": typed_moment(form, "from", zone).isoformat(), "to": None}
    if form.text("to"):
        given["to"] = typed_moment(form, "to", zone).isoformat()
    return read_body(EventReplay, given).time(now)
