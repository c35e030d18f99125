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
from quillpost.accounts.tokens.rules import WORDS, named
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure
from quillpost.web.dashboard.settings.pages import chosen_scopes, settings_page, sub_account_titles
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import ConfirmedOwner, OurParts, Owner

router = APIRouter(include_in_schema=False)

PAGE = "/settings/tokens"
LASTING: Final[Mapping[str, str]] = {
    "never": "Until it is revoked",
    "30": "30 days",
    "90": "90 days",
    "365": "One year",
}
"""How long a token may be good for, in days, in the words of the form."""
LOST = "The token is not shown again: if you have not kept it, revoke it and make another."


@router.get(PAGE)
def list_page(request: Request, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        tokens = token_service.list_tokens(tx, who.here.account_id)
    return settings_page(request, "settings/tokens.html", who, parts, tokens=tokens, named=named)


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: ConfirmedOwner, parts: OurParts) -> Response:
    usual = {"mode": [who.mode], "limits": ["all"], "lasts": ["never"]}
    return _form_page(request, who, parts, Filled(usual))


@router.post(f"{PAGE}/new")
def create(request: Request, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    """The page that answers is the only one that ever shows the token."""
    try:
        with parts.db.transaction(who.tenant) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead=LOST, leads_to=PAGE)
            token = _create(tx, who, form, now=parts.clock())
    except Invalid as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="name"))
    return settings_page(
        request,
        "settings/token_made.html",
        who,
        parts,
        token=token,
        name=form.text("name"),
        mode=form.text("mode"),
        line=f"curl -H {shlex.quote(f'Authorization: Bearer {token}')} \\\n  {parts.base_url}/api/v2/ping",
    )


@router.get(f"{PAGE}/{{token_id}}/revoke")
def revoke_page(request: Request, token_id: str, who: Owner, parts: OurParts) -> Response:
    number = id_in_path(token_id)
    with parts.db.transaction(who.tenant) as tx:
        if token_service.is_revoked(tx, who.here.account_id, number):
            return go(PAGE, said="token_gone")
        token = token_service.find_token(tx, who.here.account_id, number)
    which = f"the {token.mode} token" + (f" that ends in {token.hint}" if token.hint else "")
    used = "It was never used." if token.last_used_at is None else "Whatever uses it is not let in any more."
    return are_you_sure(
        request,
        who,
        title=f"Revoke “{token.name}”?",
        means=[f"From the next call on, {which} is unknown.", used],
        button="Revoke it",
        back=PAGE,
    )


@router.post(f"{PAGE}/{{token_id}}/revoke")
def revoke(token_id: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    number = id_in_path(token_id)
    with parts.db.transaction(who.tenant) as tx:
        if token_service.is_revoked(tx, who.here.account_id, number):
            return go(PAGE, said="token_gone")
        token_service.revoke_token(tx, who.here.account_id, number, who.actor, now=parts.clock())
    return go(PAGE, said="token_revoked")


def _form_page(request: Request, who: SignedIn, parts: Parts, form: Filled) -> Response:
    titles = sub_account_titles(who, parts)
    return settings_page(
        request, "settings/token_new.html", who, parts, form=form, words=WORDS, lasting=LASTING, titles=titles
    )


def _create(tx: Tx, who: SignedIn, form: Form, *, now: datetime) -> str:
    return token_service.create_token(
        tx,
        who.here.account_id,
        name=form.text("name"),
        mode=form.text("mode"),
        scopes=chosen_scopes(form),
        sub_account_id=form.number("sub_account_id"),
        expires_at=_end(form, now),
        actor=who.actor,
        now=now,
    )


def _end(form: Form, now: datetime) -> datetime | None:
    lasts = form.text("lasts")
    if lasts not in LASTING:
        raise Invalid({"expires_at": ["Choose how long it is good for."]})
    return None if lasts == "never" else now + timedelta(days=int(lasts))
