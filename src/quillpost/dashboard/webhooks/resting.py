"""Pausing, resuming and ending a webhook, and another secret for it."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.dashboard.form_pages import are_you_sure
from quillpost.dashboard.webhooks.webhook_pages import PAGE, note, path_of, read_own, webhook_page
from quillpost.reception import once
from quillpost.reception.forms import PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader
from quillpost.webhooks import service, store

router = APIRouter(include_in_schema=False)

LOST = "The new secret is not shown again: if you have not kept it, make another."


@router.post(f"{PAGE}/{{webhook_id}}/pause")
def pause(webhook_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        was = store.read_webhook(tx, id_in_path(webhook_id), locked=True)
        paused = service.pause(tx, was.id, now=parts.clock())
        if paused.status != was.status:
            note(tx, "webhook.paused", paused, who, parts)
    return go(path_of(was.id), said="webhook_paused")


@router.post(f"{PAGE}/{{webhook_id}}/resume")
def resume(webhook_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        was = store.read_webhook(tx, id_in_path(webhook_id), locked=True)
        resumed = service.resume(tx, was.id, now=parts.clock())
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
        webhook = store.read_webhook(tx, id_in_path(webhook_id))
        store.delete_webhook(tx, webhook.id)
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
        store.read_webhook(tx, number)
        do_once(tx, who, form.text(once.FIELD), instead=LOST, leads_to=path_of(number))
        webhook, secret, until = service.rotate_secret(tx, parts.sealer, number, now=parts.clock())
        note(tx, "webhook.secret", webhook, who, parts)
    return webhook_page(request, "secret.html", who, parts, webhook=webhook, secret=secret, until=until)
