"""A new webhook, whose secret is shown once, and changes of one."""

from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.api.needs import id_in_path
from quillpost.api.v2.webhooks import ChangedWebhook, NewWebhook, change, subscribe
from quillpost.audience.lists import MailingList, known_lists, list_page
from quillpost.creative.wording import LONGEST_URL
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.webhooks.webhook_pages import PAGE, note, path_of, read_own, webhook_page
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.paging import PageRequest
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader
from quillpost.webhooks.rules import EVERY_TYPE

router = APIRouter(include_in_schema=False)

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
            do_once(tx, who, form.text(once.FIELD), instead=LOST, leads_to=PAGE)
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
