"""What the pages of webhooks have in common."""

from typing import Any, Final

from fastapi import Request, Response

from quillpost.accounts import audit
from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.api.v2.webhooks import noted
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.dashboard.webhooks import words
from quillpost.database import Tx
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.webhooks import store

PAGE: Final = "/webhooks"


def webhook_page(
    request: Request, template: str, who: SignedIn, parts: Parts, *, form: Filled = EMPTY, **values: Any
) -> Response:
    path = f"webhooks/{template}"
    return show_form(request, path, who, form, now=parts.clock(), event_words=words.EVENTS, **values)


def path_of(webhook_id: int) -> str:
    return f"{PAGE}/{webhook_id}"


def read_own(webhook_id: str, who: SignedIn, parts: Parts) -> store.Webhook:
    """The one in the path, if it is the reader's and of the mode that they look at."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return store.read_webhook(tx, id_in_path(webhook_id))


def note(tx: Tx, act: str, webhook: store.Webhook, who: SignedIn, parts: Parts) -> None:
    """As the API notes it, in the person's name."""
    audit.note(
        tx,
        webhook.account_id,
        act,
        who.actor,
        about=noted(webhook),
        sub_account_id=webhook.sub_account_id,
        now=parts.clock(),
    )
