"""One webhook with its log, and one delivery: what was sent, and what the receiver said."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import read_sub_account
from quillpost.api.needs import id_in_path
from quillpost.audience.lists import known_lists
from quillpost.dashboard.form_pages import EMPTY, Filled
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.typed_times import typed_zone, zone_values
from quillpost.dashboard.webhooks import words
from quillpost.dashboard.webhooks.webhook_pages import PAGE, path_of, webhook_page
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.visits import OurParts, Reader
from quillpost.webhooks import log, store
from quillpost.webhooks.health import Lately, lately
from quillpost.webhooks.rules import EVENT_TYPES, EVERY_TYPE

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
    wanted = log.DeliveryFilter(
        status=status if status in log.STATUSES else None,
        event_type=event_type if event_type in EVENT_TYPES else None,
    )
    return log_page(request, id_in_path(webhook_id), who, parts, wanted=wanted, page=page)


def log_page(
    request: Request,
    webhook_id: int,
    who: SignedIn,
    parts: Parts,
    *,
    wanted: log.DeliveryFilter | None = None,
    page: str = "",
    form: Filled = EMPTY,
) -> Response:
    """The webhook's page; `form` is the one on it that came back with faults."""
    wanted = wanted or log.DeliveryFilter()
    home = tenant(who.caller)
    with parts.db.transaction(home) as tx:
        webhook = store.read_webhook(tx, webhook_id)
        found, is_truncated = log.list_deliveries(parts.db, tx, home, webhook.id, asked_page(page), wanted)
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
        status_words=words.STATUSES,
        told=lambda delivery: words.outcome(delivery, webhook),
        **zone_values(typed_zone(request, form.typed), now=parts.clock()),
        tryable=EVENT_TYPES if webhook.type == EVERY_TYPE else (webhook.type,),
    )


@router.get(f"{PAGE}/{{webhook_id}}/deliveries/{{delivery_id}}")
def show_delivery(
    request: Request, webhook_id: str, delivery_id: str, who: Reader, parts: OurParts
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook = store.read_webhook(tx, id_in_path(webhook_id))
        delivery = log.read_delivery(tx, webhook.id, id_in_path(delivery_id))
    return delivery_page(request, webhook, delivery, who, parts)


def delivery_page(
    request: Request,
    webhook: store.Webhook,
    delivery: log.Delivery,
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
        outcome=words.outcome(delivery, webhook),
        status_words=words.STATUSES,
        payload=words.payload(delivery.words),
        look=0,
    )
