"""The API's description as a page, at /docs and, with a token, at /api/v2/docs.

An owner may have a test token of their own filled into its examples: made for it, good for a day, and shown
by the answer to the form alone, as every token is.
"""

from datetime import timedelta
from functools import cache
from typing import Final

from fastapi import FastAPI, Request, Response

from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.web import rendering
from quillpost.web.api.errors import STATUS_DESCRIPTIONS
from quillpost.web.csrf import ONE_TIME_FIELD, create_csrf_token, create_one_time_key, use_one_time_key
from quillpost.web.forms import PostedForm
from quillpost.web.public import api_reference
from quillpost.web.public.api_reference import TOKEN_PLACEHOLDER
from quillpost.web.rendering import render_cached_page
from quillpost.web.sessions import ConfirmedOwner, OptionalUser

DOCS_PATH = "/docs"
TOKEN_NAME = "docs"
TOKEN_LIFETIME = timedelta(hours=24)
TOKEN_NOT_REPEATED = "The token is not shown again: open the page anew, and have another filled in."
EMPTY_TOKEN_OFFER: Final = rendering.render_template("docs/token.html", can_fill_in_token=False, token=None)
"""Where the page that is drawn for all has nothing, and an owner's has the offer."""


def add_docs_page(app: FastAPI, container: Container) -> None:
    """Serve the page; it is drawn when first asked for, and once. For whoever is signed in, its head is drawn
    anew, and for an owner the offer: the rest is the same for all."""

    @cache
    def render_docs() -> str:
        description = app.openapi()
        return rendering.render_template(
            "docs/page.html",
            title=description["info"]["title"],
            version=description["info"]["version"],
            introduction=description["info"]["description"].partition("\n\n")[0],
            sections=api_reference.read_sections(description, base_url=container.base_url),
            events=api_reference.read_events(description),
            failures={status: meaning for status, (meaning, _) in STATUS_DESCRIPTIONS.items()},
            limits=container.limits,
            base_url=container.base_url,
            release=app.state.release,
            user=None,
            can_fill_in_token=False,
            token=None,
        )

    def show_docs(request: Request, user: OptionalUser) -> Response:
        if user is None:
            return rendering.html_response(render_docs())
        text = _with_token_offer(request, user, render_docs()) if user.is_owner else render_docs()
        return render_cached_page(request, text, user)

    def fill_in_token(request: Request, user: ConfirmedOwner, form: PostedForm) -> Response:
        now = container.clock()
        with container.db.transaction(user.tenant) as tx:
            use_one_time_key(tx, user, form.text(ONE_TIME_FIELD), hint=TOKEN_NOT_REPEATED, result_path=DOCS_PATH)
            token = token_service.create_token(
                tx,
                user.here.account_id,
                name=TOKEN_NAME,
                mode="test",
                scopes=None,
                sub_account_id=None,
                expires_at=now + TOKEN_LIFETIME,
                actor=user.actor,
                now=now,
            )
        text = render_docs().replace(f"Bearer {TOKEN_PLACEHOLDER}", f"Bearer {token}")
        return render_cached_page(request, _with_token_offer(request, user, text, token=token), user)

    def show_public_docs() -> Response:
        return rendering.html_response(render_docs())

    app.add_api_route(DOCS_PATH, show_docs, include_in_schema=False)
    app.add_api_route(DOCS_PATH, fill_in_token, methods=["POST"], include_in_schema=False)
    app.add_api_route("/api/v2/docs", show_public_docs, include_in_schema=False)


def _with_token_offer(request: Request, user: SignedInUser, text: str, *, token: str | None = None) -> str:
    """The same text with the offer, or with what came of it."""
    csrf = create_csrf_token(request, user)
    offer = rendering.render_template(
        "docs/token.html", can_fill_in_token=True, token=token, csrf=csrf, one_time_key=create_one_time_key()
    )
    return text.replace(EMPTY_TOKEN_OFFER, offer, 1)
