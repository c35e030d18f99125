"""Pages of webhooks."""

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Response

from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.deliveries import count_recent_deliveries
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import ALL_EVENT_TYPES
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.recipients.lists.queries import find_lists, read_list_page
from quillpost.recipients.models import MailingList
from quillpost.web.api.webhooks.schemas import ChangedWebhook, NewWebhook
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.webhooks import labels
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import is_local_visitor, use_one_time_key

PAGE_PATH: Final = "/webhooks"


def render_webhook_page(
    context: RequestContext, template: str, *, form: FormState = EMPTY_FORM, **values: Any
) -> Response:
    path = f"webhooks/{template}"
    return context.render(path, form, event_labels=labels.EVENT_LABELS, **values)


def webhook_path(webhook_id: int) -> str:
    return f"{PAGE_PATH}/{webhook_id}"


def find_webhook(context: RequestContext, webhook_id: int) -> WebhookSubscription:
    with context.transaction() as tx:
        return webhook_queries.read_webhook(tx, webhook_id)


def write_audit_entry(context: RequestContext, tx: Tx, action: str, webhook: WebhookSubscription) -> None:
    context.audit(tx, action, webhook.audit_details, sub_account_id=webhook.sub_account_id)


def receiver_url(context: RequestContext) -> str | None:
    """Only for an operator at the machine itself: the URL is a key, and shows the events of all accounts."""
    key = context.container.receiver_key
    is_visible = key is not None and context.user.is_operator and is_local_visitor(context.request)
    return f"{context.container.base_url}/receiver/{key}" if is_visible else None


router = APIRouter(include_in_schema=False)


@router.get(PAGE_PATH)
def webhooks_page(context: UserContext, page: str = "") -> Response:
    with context.transaction() as tx:
        webhook_rows = webhook_queries.list_webhooks(tx, parse_page(page), sub_account_id=None)
    return render_webhook_page(
        context,
        "list.html",
        page=webhook_rows,
        recent_counts=count_recent_deliveries(context.container.db, [each.id for each in webhook_rows.rows]),
        receiver_url=receiver_url(context),
    )


MAX_LISTS_OFFERED = 200
FORM_FIELDS = ("url", "type", "verb", "description", "sub_account_id", "mailing_list_id")
SECRET_SHOWN_ONCE = "The secret is not shown again: if you have not kept it, open the webhook and make a new secret."


@router.get(f"{PAGE_PATH}/new")
def new_webhook_page(context: UserContext) -> Response:
    return _render_form(context, FormState({"type": [ALL_EVENT_TYPES], "verb": ["post"]}))


@router.post(f"{PAGE_PATH}/new")
def create_webhook(context: UserContext, form: PostedForm) -> Response:
    """Only this response ever shows the secret."""
    try:
        body = read_body(NewWebhook, _read_fields(form))
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=SECRET_SHOWN_ONCE, result_path=PAGE_PATH)
            webhook, secret = webhook_service.create_webhook(
                tx,
                context.user.caller,
                context.container.encryptor,
                **body.provided_fields(),
                check_url=context.container.check_url,
                max_webhooks=context.container.limits.webhooks,
                now=context.now(),
            )
            write_audit_entry(context, tx, "webhook.created", webhook)
    except (Invalid, Refused) as error:
        return _render_form(context, FormState.from_error(form, error, default_field="form"))
    return render_webhook_page(context, "secret.html", webhook=webhook, secret=secret, old_secret_expires_at=None)


@router.get(f"{PAGE_PATH}/{{webhook_id}}/change")
def change_page(context: UserContext, webhook_id: PathId) -> Response:
    webhook = find_webhook(context, webhook_id)
    values = {name: getattr(webhook, name) for name in FORM_FIELDS}
    form_values = {name: [str(value)] for name, value in values.items() if value is not None}
    return _render_form(context, FormState(form_values), webhook_id=webhook.id)


@router.post(f"{PAGE_PATH}/{{webhook_id}}/change")
def change_webhook(context: UserContext, webhook_id: PathId, form: PostedForm) -> Response:
    webhook = find_webhook(context, webhook_id)
    try:
        body = read_body(ChangedWebhook, _read_fields(form))
        with context.transaction() as tx:
            changed_webhook = webhook_service.update_webhook(
                tx,
                context.user.caller,
                webhook.id,
                body.provided_fields(),
                check_url=context.container.check_url,
                now=context.now(),
            )
            write_audit_entry(context, tx, "webhook.changed", changed_webhook)
    except (Invalid, Refused) as error:
        form_state = FormState.from_error(form, error, default_field="form")
        return _render_form(context, form_state, webhook_id=webhook.id)
    return redirect(webhook_path(webhook.id), flash="webhook_changed")


def _read_fields(form: Form) -> dict[str, Any]:
    """In the API's names; empty fields are null."""
    values = {name: form.text(name, max_length=MAX_URL_LENGTH) for name in FORM_FIELDS}
    return {name: value or None for name, value in values.items()} | {"url": values["url"]}


def _render_form(context: RequestContext, form: FormState, *, webhook_id: int | None = None) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
        newest_lists = read_list_page(tx, PageRequest(per_page=MAX_LISTS_OFFERED)).rows
        chosen_lists = find_lists(tx, [parse_path_id(form.values.get("mailing_list_id", ""))])
    other_lists = [
        each for each in chosen_lists.values() if each.id not in {mailing_list.id for mailing_list in newest_lists}
    ]
    lists: list[MailingList] = [each for each in newest_lists if not each.is_suppression_list] + other_lists
    return render_webhook_page(
        context,
        "form.html",
        form=form,
        webhook_id=webhook_id,
        titles=titles,
        lists=lists,
        general_errors=form.list_errors_outside(FORM_FIELDS),
    )


NEW_SECRET_SHOWN_ONCE = "The new secret is not shown again: if you have not kept it, make another."


@router.post(f"{PAGE_PATH}/{{webhook_id}}/pause")
def pause_webhook(context: UserContext, webhook_id: PathId, _form: PostedForm) -> Response:
    return _change_status(context, webhook_id, webhook_service.pause_webhook, "paused")


@router.post(f"{PAGE_PATH}/{{webhook_id}}/resume")
def resume_webhook(context: UserContext, webhook_id: PathId, _form: PostedForm) -> Response:
    return _change_status(context, webhook_id, webhook_service.resume_webhook, "resumed")


def _change_status(
    context: RequestContext, webhook_id: int, change: Callable[..., WebhookSubscription], past_verb: str
) -> Response:
    with context.transaction() as tx:
        before = webhook_queries.read_webhook(tx, webhook_id, locked=True)
        changed = change(tx, before.id, now=context.now())
        if changed.status != before.status:
            write_audit_entry(context, tx, f"webhook.{past_verb}", changed)
    return redirect(webhook_path(before.id), flash=f"webhook_{past_verb}")


@router.get(f"{PAGE_PATH}/{{webhook_id}}/delete")
def delete_page(context: UserContext, webhook_id: PathId) -> Response:
    webhook = find_webhook(context, webhook_id)
    return context.confirm(
        title="Delete this webhook?",
        consequences=[
            f"{webhook.url} is told nothing any more.",
            "What still waits for it is dropped, and its log goes with it.",
            "To stop for a while and lose nothing, pause it instead.",
        ],
        button_label="Delete it",
        back_url=webhook_path(webhook.id),
    )


@router.post(f"{PAGE_PATH}/{{webhook_id}}/delete")
def delete_webhook_from_page(context: UserContext, webhook_id: PathId, _form: PostedForm) -> Response:
    with context.transaction() as tx:
        webhook = webhook_queries.read_webhook(tx, webhook_id)
        webhook_queries.delete_webhook(tx, webhook.id)
        write_audit_entry(context, tx, "webhook.deleted", webhook)
    return redirect(PAGE_PATH, flash="webhook_deleted")


@router.get(f"{PAGE_PATH}/{{webhook_id}}/secret")
def secret_page(context: UserContext, webhook_id: PathId) -> Response:
    webhook = find_webhook(context, webhook_id)
    consequences = [
        "You are shown the new secret once: have a safe place for it ready.",
        "For 24 hours every event is signed with both, so your receiver can change over when it likes.",
    ]
    if webhook.previous_until is not None and webhook.previous_until > context.now():
        consequences.append(
            "The secret was changed within the last 24 hours. The one before that stops signing at once."
        )
    return context.confirm(
        title="Make a new secret?",
        consequences=consequences,
        button_label="Make a new secret",
        back_url=webhook_path(webhook.id),
        has_one_time_key=True,
    )


@router.post(f"{PAGE_PATH}/{{webhook_id}}/secret")
def rotate_secret(context: UserContext, webhook_id: PathId, form: PostedForm) -> Response:
    """Only this response ever shows the secret."""
    with context.transaction() as tx:
        webhook_queries.read_webhook(tx, webhook_id)
        use_one_time_key(
            tx, context.user, form.one_time_key, hint=NEW_SECRET_SHOWN_ONCE, result_path=webhook_path(webhook_id)
        )
        webhook, secret, until = webhook_service.rotate_secret(
            tx, context.container.encryptor, webhook_id, now=context.now()
        )
        write_audit_entry(context, tx, "webhook.secret", webhook)
    return render_webhook_page(context, "secret.html", webhook=webhook, secret=secret, old_secret_expires_at=until)
