"""The delivery log of a webhook, tests, retries and replays."""

from datetime import datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Response

from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.notifications.webhooks.deliveries import RecentDeliveryCount, count_recent_deliveries
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES, EVENT_TYPES
from quillpost.recipients.lists.queries import find_lists
from quillpost.web.api.webhooks.schemas import EventReplay, Trial
from quillpost.web.dashboard.forms import (
    EMPTY_FORM,
    FormState,
    parse_moment,
    parse_page,
    parse_zone,
    read_body,
    zone_context,
)
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.webhooks import labels
from quillpost.web.dashboard.webhooks.pages import PAGE_PATH, render_webhook_page, webhook_path
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import DuplicateSubmission, use_one_time_key
from quillpost.web.sessions import is_fragment

router = APIRouter(include_in_schema=False)


@router.get(f"{PAGE_PATH}/{{webhook_id}}")
def webhook_log_page(
    context: UserContext, webhook_id: PathId, status: str = "", event_type: str = "", page: str = ""
) -> Response:
    delivery_filter = deliveries.DeliveryQuery(
        status=status if status in deliveries.DELIVERY_STATUSES else None,
        event_type=event_type if event_type in EVENT_TYPES else None,
    )
    return render_log_page(context, webhook_id, delivery_filter=delivery_filter, page=page)


def render_log_page(
    context: RequestContext,
    webhook_id: int,
    *,
    delivery_filter: deliveries.DeliveryQuery | None = None,
    page: str = "",
    form: FormState = EMPTY_FORM,
) -> Response:
    """`form` is the one that came back with errors."""
    delivery_filter = delivery_filter or deliveries.DeliveryQuery()
    tenant_scope = context.tenant
    with context.transaction() as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        delivery_rows, is_truncated = deliveries.list_deliveries(
            context.container.db, tx, tenant_scope, webhook.id, parse_page(page), delivery_filter
        )
        mailing_lists = find_lists(tx, [webhook.mailing_list_id] if webhook.mailing_list_id else [])
        sub_account = read_sub_account(tx, webhook.sub_account_id) if webhook.sub_account_id else None
    filter_values = {"status": delivery_filter.status, "event_type": delivery_filter.event_type}
    query_string = urlencode({name: value for name, value in filter_values.items() if value})
    return render_webhook_page(
        context,
        "webhook.html",
        form=form,
        webhook=webhook,
        page=delivery_rows,
        is_truncated=is_truncated,
        filter_values=filter_values,
        list_url=webhook_path(webhook.id) + (f"?{query_string}" if query_string else ""),
        recent_count=count_recent_deliveries(context.container.db, [webhook.id]).get(webhook.id, RecentDeliveryCount()),
        mailing_list=next(iter(mailing_lists.values()), None),
        sub_account=sub_account,
        status_labels=labels.STATUS_LABELS,
        describe_outcome=lambda delivery: labels.describe_outcome(delivery, webhook),
        **zone_context(parse_zone(context.request, form.fields), now=context.now()),
        event_types=EVENT_TYPES if webhook.type == ALL_EVENT_TYPES else (webhook.type,),
    )


@router.get(f"{PAGE_PATH}/{{webhook_id}}/deliveries/{{delivery_id}}")
def delivery_details_page(context: UserContext, webhook_id: PathId, delivery_id: PathId) -> Response:
    with context.transaction() as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        delivery = deliveries.read_delivery(tx, webhook.id, delivery_id)
    return render_delivery_page(context, webhook, delivery)


def render_delivery_page(
    context: RequestContext,
    webhook: webhook_queries.WebhookSubscription,
    delivery: deliveries.WebhookDelivery,
    *,
    form: FormState = EMPTY_FORM,
) -> Response:
    return render_webhook_page(
        context,
        "delivery.html",
        form=form,
        webhook=webhook,
        delivery=delivery,
        outcome=labels.describe_outcome(delivery, webhook),
        status_labels=labels.STATUS_LABELS,
        payload=labels.format_payload(delivery.payload),
        poll_count=0,
    )


MAX_POLLS = 40  # each time after a longer pause
ALREADY_REPLAYED = "The webhook's log shows what came of it."


@router.post(f"{PAGE_PATH}/{{webhook_id}}/test")
def send_test(context: UserContext, webhook_id: PathId, form: PostedForm) -> Response:
    try:
        event_type = read_body(Trial, {"event_type": form.text("event_type") or None}).event_type
        with context.transaction() as tx:
            sample = webhook_service.send_sample_event(tx, webhook_id, event_type, now=context.now())
    except (Invalid, Refused) as error:
        if is_fragment(context.request):
            return context.render("error_fragment.html", status=422, message=error.message)
        form_state = FormState.from_error(form, error, default_field="event_type")
        return render_log_page(context, webhook_id, form=form_state)
    if is_fragment(context.request):
        return _render_outcome(context, webhook_id, sample.delivery_id, poll_count=0)
    return redirect(f"{webhook_path(webhook_id)}/deliveries/{sample.delivery_id}", flash="webhook_tried")


@router.get(f"{PAGE_PATH}/{{webhook_id}}/deliveries/{{delivery_id}}/outcome")
def outcome_fragment(context: UserContext, webhook_id: PathId, delivery_id: PathId, look: str = "") -> Response:
    """While the delivery is pending, the page asks again up to `MAX_POLLS` times."""
    poll_count = int(look) if look.isascii() and look.isdigit() and len(look) < 4 else MAX_POLLS
    return _render_outcome(context, webhook_id, delivery_id, poll_count=poll_count)


@router.post(f"{PAGE_PATH}/{{webhook_id}}/deliveries/{{delivery_id}}/retry")
def retry_delivery(context: UserContext, webhook_id: PathId, delivery_id: PathId, form: PostedForm) -> Response:
    with context.transaction() as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        delivery = deliveries.read_delivery(tx, webhook.id, delivery_id)
    try:
        with context.transaction() as tx:
            retried = deliveries.retry_delivery(tx, webhook.id, delivery.id, now=context.now())
    except Refused as error:
        form_state = FormState.from_error(form, error, default_field="retry")
        return render_delivery_page(context, webhook, delivery, form=form_state)
    return redirect(f"{webhook_path(webhook.id)}/deliveries/{retried.id}", flash="delivery_retried")


@router.post(f"{PAGE_PATH}/{{webhook_id}}/replay")
def replay_events(context: UserContext, webhook_id: PathId, form: PostedForm) -> Response:
    try:
        since, until = _read_time_range(form, parse_zone(context.request, form.fields), now=context.now())
        with context.transaction() as tx:
            webhook_queries.read_webhook(tx, webhook_id)
            use_one_time_key(
                tx, context.user, form.one_time_key, hint=ALREADY_REPLAYED, result_path=webhook_path(webhook_id)
            )
            replay_result = webhook_tasks.start_replay(tx, webhook_id, since=since, until=until)
    except DuplicateSubmission:
        raise
    except (Invalid, Refused, Conflict) as error:
        errors = error.fields if isinstance(error, Invalid) else {"from": [error.message]}
        return render_log_page(context, webhook_id, form=FormState(form.fields, errors))
    has_started = replay_result.events or replay_result.truncated
    return redirect(webhook_path(webhook_id), flash="replay_begun" if has_started else "replay_empty")


def _render_outcome(context: RequestContext, webhook_id: int, delivery_id: int, *, poll_count: int) -> Response:
    with context.transaction() as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        delivery = deliveries.read_delivery(tx, webhook.id, delivery_id)
    return render_webhook_page(
        context,
        "outcome.html",
        webhook=webhook,
        delivery=delivery,
        outcome=labels.describe_outcome(delivery, webhook),
        poll_count=poll_count + 1 if poll_count < MAX_POLLS else None,
        has_details_link=True,
    )


def _read_time_range(form: Form, zone: ZoneInfo, *, now: datetime) -> tuple[datetime, datetime]:
    """In the zone that the form names."""
    values = {"from": parse_moment(form, "from", zone).isoformat(), "to": None}
    if form.text("to"):
        values["to"] = parse_moment(form, "to", zone).isoformat()
    return read_body(EventReplay, values).time_range(now)
