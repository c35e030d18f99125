"""API settings: personal access tokens.

Whatever gives power, here and on the pages beside it, asks for the password again; what takes it away never
does.
"""

import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.rules import SCOPE_LABELS, format_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.web import csrf
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import FormState, render_confirmation
from quillpost.web.dashboard.settings.pages import read_scopes, render_settings_page, sub_account_titles
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import ConfirmedOwner, CurrentOwner

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/settings/tokens"
LIFETIME_LABELS: Final[Mapping[str, str]] = {
    "never": "Until it is revoked",
    "30": "30 days",
    "90": "90 days",
    "365": "One year",
}
"""How long a token may be good for, in days, in the words of the form."""
TOKEN_SHOWN_ONCE = "The token is not shown again: if you have not kept it, revoke it and make another."


@router.get(PAGE_PATH)
def tokens_page(request: Request, user: CurrentOwner, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        tokens = token_service.list_tokens(tx, user.here.account_id)
    return render_settings_page(
        request, "settings/tokens.html", user, container, tokens=tokens, format_scopes=format_scopes
    )


@router.get(f"{PAGE_PATH}/new")
def new_token_page(request: Request, user: ConfirmedOwner, container: Services) -> Response:
    defaults = {"mode": [user.mode], "limits": ["all"], "lasts": ["never"]}
    return _render_form(request, user, container, FormState(defaults))


@router.post(f"{PAGE_PATH}/new")
def create_token(request: Request, user: ConfirmedOwner, form: PostedForm, container: Services) -> Response:
    """The page that answers is the only one that ever shows the token."""
    try:
        with container.db.transaction(user.tenant) as tx:
            use_one_time_key(tx, user, form.text(csrf.ONE_TIME_FIELD), hint=TOKEN_SHOWN_ONCE, result_path=PAGE_PATH)
            token = _create_from_form(tx, user, form, now=container.clock())
    except Invalid as error:
        return _render_form(request, user, container, FormState.from_error(form, error, default_field="name"))
    return render_settings_page(
        request,
        "settings/token_created.html",
        user,
        container,
        token=token,
        name=form.text("name"),
        mode=form.text("mode"),
        curl_command=f"curl -H {shlex.quote(f'Authorization: Bearer {token}')} \\\n  {container.base_url}/api/v2/ping",
    )


@router.get(f"{PAGE_PATH}/{{token_id}}/revoke")
def revoke_page(request: Request, token_id: str, user: CurrentOwner, container: Services) -> Response:
    number = parse_path_id(token_id)
    with container.db.transaction(user.tenant) as tx:
        if token_service.is_revoked(tx, user.here.account_id, number):
            return redirect(PAGE_PATH, flash="token_gone")
        token = token_service.find_token(tx, user.here.account_id, number)
    token_label = f"the {token.mode} token" + (f" that ends in {token.hint}" if token.hint else "")
    usage_note = "It was never used." if token.last_used_at is None else "Whatever uses it is not let in any more."
    return render_confirmation(
        request,
        user,
        title=f"Revoke “{token.name}”?",
        consequences=[f"From the next call on, {token_label} is unknown.", usage_note],
        button_label="Revoke it",
        back_url=PAGE_PATH,
    )


@router.post(f"{PAGE_PATH}/{{token_id}}/revoke")
def revoke_token(token_id: str, user: CurrentOwner, _form: PostedForm, container: Services) -> Response:
    number = parse_path_id(token_id)
    with container.db.transaction(user.tenant) as tx:
        if token_service.is_revoked(tx, user.here.account_id, number):
            return redirect(PAGE_PATH, flash="token_gone")
        token_service.revoke_token(tx, user.here.account_id, number, user.actor, now=container.clock())
    return redirect(PAGE_PATH, flash="token_revoked")


def _render_form(request: Request, user: SignedInUser, container: Container, form: FormState) -> Response:
    titles = sub_account_titles(user, container)
    return render_settings_page(
        request,
        "settings/token_form.html",
        user,
        container,
        form=form,
        scope_labels=SCOPE_LABELS,
        lifetime_labels=LIFETIME_LABELS,
        titles=titles,
    )


def _create_from_form(tx: Tx, user: SignedInUser, form: Form, *, now: datetime) -> str:
    return token_service.create_token(
        tx,
        user.here.account_id,
        name=form.text("name"),
        mode=form.text("mode"),
        scopes=read_scopes(form),
        sub_account_id=form.number("sub_account_id"),
        expires_at=_read_expiry(form, now),
        actor=user.actor,
        now=now,
    )


def _read_expiry(form: Form, now: datetime) -> datetime | None:
    lifetime = form.text("lasts")
    if lifetime not in LIFETIME_LABELS:
        raise Invalid({"expires_at": ["Choose how long it is good for."]})
    return None if lifetime == "never" else now + timedelta(days=int(lifetime))
