"""The API's description as a page, at /docs and, with a token, at /api/v2/docs.

An owner may have a test token of their own filled into its examples: made for it, good for a day, and shown
by the answer to the form alone, as every token is.
"""

from datetime import timedelta
from functools import cache
from typing import Final

from fastapi import FastAPI, Request, Response

from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.web import csrf as once
from quillpost.web import rendering as pages
from quillpost.web.api.errors import EXPLAINED
from quillpost.web.csrf import csrf_token, do_once
from quillpost.web.forms import PostedForm
from quillpost.web.public import api_reference
from quillpost.web.public.api_reference import NOBODYS
from quillpost.web.rendering import show_drawn
from quillpost.web.sessions import ConfirmedOwner, MaybeReader

PAGE = "/docs"
NAME = "docs"
LASTS = timedelta(hours=24)
LOST = "The token is not shown again: open the page anew, and have another filled in."
FILLING_IN: Final = pages.text_of("docs/token.html", may_fill=False, token=None)
"""Where the page that is drawn for all has nothing, and an owner's has the offer."""


def add_docs_page(app: FastAPI, parts: Parts) -> None:
    """Serve the page; it is drawn when first asked for, and once. For whoever is signed in, its head is drawn
    anew, and for an owner the offer: the rest is the same for all."""

    @cache
    def drawn() -> str:
        description = app.openapi()
        return pages.text_of(
            "docs/page.html",
            title=description["info"]["title"],
            version=description["info"]["version"],
            lead=description["info"]["description"].partition("\n\n")[0],
            sections=api_reference.read(description, base_url=parts.base_url),
            events=api_reference.read_events(description),
            failures={status: meaning for status, (meaning, _) in EXPLAINED.items()},
            limits=parts.limits,
            base_url=parts.base_url,
            release=app.state.release,
            who=None,
            may_fill=False,
            token=None,
        )

    def show(request: Request, who: MaybeReader) -> Response:
        if who is None:
            return pages.page(drawn())
        text = _offering(request, who, drawn()) if who.is_owner else drawn()
        return show_drawn(request, text, who)

    def show_filled_in(request: Request, who: ConfirmedOwner, form: PostedForm) -> Response:
        now = parts.clock()
        with parts.db.transaction(who.tenant) as tx:
            do_once(tx, who, form.text(once.FIELD), instead=LOST, leads_to=PAGE)
            token = token_service.create_token(
                tx,
                who.here.account_id,
                name=NAME,
                mode="test",
                scopes=None,
                sub_account_id=None,
                expires_at=now + LASTS,
                actor=who.actor,
                now=now,
            )
        filled = drawn().replace(f"Bearer {NOBODYS}", f"Bearer {token}")
        return show_drawn(request, _offering(request, who, filled, token=token), who)

    def show_to_programs() -> Response:
        return pages.page(drawn())

    app.add_api_route(PAGE, show, include_in_schema=False)
    app.add_api_route(PAGE, show_filled_in, methods=["POST"], include_in_schema=False)
    app.add_api_route("/api/v2/docs", show_to_programs, include_in_schema=False)


def _offering(request: Request, who: SignedIn, text: str, *, token: str | None = None) -> str:
    """The same text with the offer, or with what came of it."""
    csrf = csrf_token(request, who)
    offer = pages.text_of("docs/token.html", may_fill=True, token=token, csrf=csrf, once=once.new_key())
    return text.replace(FILLING_IN, offer, 1)
