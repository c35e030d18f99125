"""Pages of webhooks."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.core.hosts import is_this_machine
from quillpost.core.paging import PageRequest
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.health import lately
from quillpost.notifications.webhooks.rules import EVERY_TYPE
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.recipients.lists.queries import MailingList, known_lists, list_page
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.webhooks.endpoints import ChangedWebhook, NewWebhook, change, noted, subscribe
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body, show_form
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.webhooks import labels
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

PAGE: Final = "/webhooks"


def webhook_page(
    request: Request, template: str, who: SignedIn, parts: Parts, *, form: Filled = EMPTY, **values: Any
) -> Response:
    path = f"webhooks/{template}"
    return show_form(request, path, who, form, now=parts.clock(), event_words=labels.EVENTS, **values)


def path_of(webhook_id: int) -> str:
    return f"{PAGE}/{webhook_id}"


def read_own(webhook_id: str, who: SignedIn, parts: Parts) -> webhook_queries.Webhook:
    """The one in the path, if it is the reader's and of the mode that they look at."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return webhook_queries.read_webhook(tx, id_in_path(webhook_id))


def note(tx: Tx, act: str, webhook: webhook_queries.Webhook, who: SignedIn, parts: Parts) -> None:
    """As the API notes it, in the person's name."""
    audit_service.note(
        tx,
        webhook.account_id,
        act,
        who.actor,
        about=noted(webhook),
        sub_account_id=webhook.sub_account_id,
        now=parts.clock(),
    )


def receiver_address(request: Request, who: SignedIn, parts: Parts) -> str | None:
    """Where it is, for whoever runs the service and sits at its machine: the address is its key, and it shows
    the events of all who subscribe it."""
    if parts.receiver_key is None or not who.is_operator or request.client is None:
        return None
    is_here = is_this_machine(request.client.host) and is_this_machine(request.url.hostname or "")
    return f"{parts.base_url}/receiver/{parts.receiver_key}" if is_here else None


router = APIRouter(include_in_schema=False)


@router.get(PAGE)
def webhooks_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = webhook_queries.list_webhooks(tx, asked_page(page), sub_account_id=None)
    return webhook_page(
        request,
        "list.html",
        who,
        parts,
        page=found,
        lately=lately(parts.db, [each.id for each in found.rows]),
        receiver=receiver_address(request, who, parts),
    )


MOST_LISTS = 200
"""To choose from, the newest: a page is no place for a hundred thousand."""
FIELDS = ("url", "type", "verb", "description", "sub_account_id", "mailing_list_id")
LOST = "The secret is not shown again: if you have not kept it, open the webhook and make a new secret."


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Reader, parts: OurParts) -> Response:
    return _form_page(request, who, parts, Filled({"type": [EVERY_TYPE], "verb": ["post"]}))


@router.post(f"{PAGE}/new")
def create(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """The page that answers is the only one that ever shows the secret."""
    try:
        body = read_body(NewWebhook, _typed(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead=LOST, leads_to=PAGE)
            webhook, secret = subscribe(tx, who.caller, body, parts)
            note(tx, "webhook.created", webhook, who, parts)
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="form"))
    return webhook_page(request, "secret.html", who, parts, webhook=webhook, secret=secret, until=None)


@router.get(f"{PAGE}/{{webhook_id}}/change")
def change_page(request: Request, webhook_id: str, who: Reader, parts: OurParts) -> Response:
    webhook = read_own(webhook_id, who, parts)
    kept = {name: getattr(webhook, name) for name in FIELDS}
    typed = {name: [str(value)] for name, value in kept.items() if value is not None}
    return _form_page(request, who, parts, Filled(typed), webhook_id=webhook.id)


@router.post(f"{PAGE}/{{webhook_id}}/change")
def change_it(request: Request, webhook_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    webhook = read_own(webhook_id, who, parts)
    try:
        body = read_body(ChangedWebhook, _typed(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            changed = change(tx, who.caller, webhook.id, body, parts)
            note(tx, "webhook.changed", changed, who, parts)
    except (Invalid, Refused) as refused:
        back = Filled.back(form, refused, at="form")
        return _form_page(request, who, parts, back, webhook_id=webhook.id)
    return go(path_of(webhook.id), said="webhook_changed")


def _typed(form: Form) -> dict[str, Any]:
    """As the API would be told it. What is left empty is nothing."""
    given = {name: form.text(name, most=LONGEST_URL) for name in FIELDS}
    return {name: value or None for name, value in given.items()} | {"url": given["url"]}


def _form_page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, *, webhook_id: int | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = {} if who.caller.sub_account_id else titles_of(list_sub_accounts(tx))
        newest = list_page(tx, PageRequest(per_page=MOST_LISTS)).rows
        chosen = known_lists(tx, [id_in_path(form.values.get("mailing_list_id", ""))])
    others = [each for each in chosen.values() if each.id not in {one.id for one in newest}]
    lists: list[MailingList] = [each for each in newest if not each.is_suppression_list] + others
    return webhook_page(
        request,
        "form.html",
        who,
        parts,
        form=form,
        webhook_id=webhook_id,
        titles=titles,
        lists=lists,
        leftover=[told for name, told in form.faults.items() if name not in FIELDS],
    )


ROTATION_NOTE = "The new secret is not shown again: if you have not kept it, make another."


@router.post(f"{PAGE}/{{webhook_id}}/pause")
def pause(webhook_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        was = webhook_queries.read_webhook(tx, id_in_path(webhook_id), locked=True)
        paused = webhook_service.pause(tx, was.id, now=parts.clock())
        if paused.status != was.status:
            note(tx, "webhook.paused", paused, who, parts)
    return go(path_of(was.id), said="webhook_paused")


@router.post(f"{PAGE}/{{webhook_id}}/resume")
def resume(webhook_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        was = webhook_queries.read_webhook(tx, id_in_path(webhook_id), locked=True)
        resumed = webhook_service.resume(tx, was.id, now=parts.clock())
        if resumed.status != was.status:
            note(tx, "webhook.resumed", resumed, who, parts)
    return go(path_of(was.id), said="webhook_resumed")


@router.get(f"{PAGE}/{{webhook_id}}/delete")
def delete_page(request: Request, webhook_id: str, who: Reader, parts: OurParts) -> Response:
    webhook = read_own(webhook_id, who, parts)
    return are_you_sure(
        request,
        who,
        title="Delete this webhook?",
        means=[
            f"{webhook.url} is told nothing any more.",
            "What still waits for it is dropped, and its log goes with it.",
            "To stop for a while and lose nothing, pause it instead.",
        ],
        button="Delete it",
        back=path_of(webhook.id),
    )


@router.post(f"{PAGE}/{{webhook_id}}/delete")
def delete(webhook_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook = webhook_queries.read_webhook(tx, id_in_path(webhook_id))
        webhook_queries.delete_webhook(tx, webhook.id)
        note(tx, "webhook.deleted", webhook, who, parts)
    return go(PAGE, said="webhook_deleted")


@router.get(f"{PAGE}/{{webhook_id}}/secret")
def secret_page(request: Request, webhook_id: str, who: Reader, parts: OurParts) -> Response:
    webhook = read_own(webhook_id, who, parts)
    means = [
        "You are shown the new secret once: have a safe place for it ready.",
        "For 24 hours every event is signed with both, so your receiver can change over when it likes.",
    ]
    if webhook.previous_until is not None and webhook.previous_until > parts.clock():
        means.append(
            "The secret was changed within the last 24 hours. The one before that stops signing at once."
        )
    return are_you_sure(
        request,
        who,
        title="Make a new secret?",
        means=means,
        button="Make a new secret",
        back=path_of(webhook.id),
        is_once=True,
    )


@router.post(f"{PAGE}/{{webhook_id}}/secret")
def rotate(request: Request, webhook_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """The page that answers is the only one that ever shows the secret."""
    number = id_in_path(webhook_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        webhook_queries.read_webhook(tx, number)
        do_once(tx, who, form.text(csrf.FIELD), instead=ROTATION_NOTE, leads_to=path_of(number))
        webhook, secret, until = webhook_service.rotate_secret(tx, parts.sealer, number, now=parts.clock())
        note(tx, "webhook.secret", webhook, who, parts)
    return webhook_page(request, "secret.html", who, parts, webhook=webhook, secret=secret, until=until)
