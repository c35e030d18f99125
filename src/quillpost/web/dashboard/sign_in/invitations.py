"""Invitations and forgotten passwords: the pages that their links lead to."""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations, password_resets, sessions, sign_in
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid
from quillpost.core.tokens import is_of_kind
from quillpost.web.cookies import SESSION, drop_cookie
from quillpost.web.dashboard.forms import Filled, show_form
from quillpost.web.dashboard.sign_in.pages import NO_EMAIL, chosen_password, let_in
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go, show, sign_in_first
from quillpost.web.sessions import MaybeReader, OurParts, address_of, visitor_of

router = APIRouter(include_in_schema=False)

AS: Final[Mapping[Role, str]] = {
    "owner": "an owner, who decides on people, tokens and apps",
    "member": "a member, who sends mail",
    "operator": "an operator, who sends mail and runs the service",
}
BLANK: Final = Filled({"name": [""]})


@router.get("/join/{token}")
def show_invitation(request: Request, token: str, parts: OurParts, who: MaybeReader) -> Response:
    return _invitation_page(request, parts, token, who)


@router.post("/join/{token}")
def take_invitation(
    request: Request, token: str, parts: OurParts, who: MaybeReader, form: PostedForm
) -> Response:
    invitation = _find(parts, token)
    if invitation is None:
        return _invitation_over(request, who)
    if who is not None:
        return _accept(request, parts, token, who)
    try:
        return _join(request, parts, token, invitation, form)
    except Invalid as wrong:
        name = form.fields.get("name", [""])[0][:300]
        return _invitation_page(request, parts, token, who, Filled({"name": [name]}, wrong.fields))


def _accept(request: Request, parts: Parts, token: str, who: SignedIn) -> Response:
    with parts.db.work() as tx:
        membership_id = invitations.accept(tx, token, who, now=parts.clock())
        if membership_id is not None:
            sessions.switch(tx, who, membership_id=membership_id)
    if membership_id is None:
        return _invitation_page(request, parts, token, who)
    return go("/", said="joined")


def _join(request: Request, parts: Parts, token: str, invitation: Invitation, form: Form) -> Response:
    """Somebody new: in the account, and signed in at once."""
    password, now = chosen_password(form), parts.clock()
    joined = invitations.join(
        parts.people, token, name=form.text("name"), password=password, address=address_of(request), now=now
    )
    if joined is None:
        return _invitation_page(request, parts, token, None)
    tried = sign_in.sign_in(parts.people, invitation.email, password, visitor_of(request), now=now)
    return let_in(request, parts, tried, "/?said=joined") if tried.outcome == "in" else go("/sign-in")


def _invitation_page(
    request: Request,
    parts: Parts,
    token: str,
    who: SignedIn | None,
    form: Filled = BLANK,
) -> Response:
    invitation = _find(parts, token)
    if invitation is None:
        return _invitation_over(request, who)
    return show_form(
        request,
        "entrance/join.html",
        who,
        form,
        invitation=invitation,
        step=_step(invitation, who),
        roles=AS,
        sign_in=sign_in_first(request.url.path),
    )


def _step(invitation: Invitation, who: SignedIn | None) -> str:
    if who is not None:
        return "accept" if who.email.lower() == invitation.email.lower() else "somebody_else"
    return "sign_in" if invitation.has_person else "new"


def _find(parts: Parts, token: str) -> Invitation | None:
    if not is_of_kind(token, "invitation"):
        return None
    with parts.db.work() as tx:
        return invitations.find(tx, token, now=parts.clock())


def _invitation_over(request: Request, who: SignedIn | None) -> Response:
    """Used, taken back, old and unknown links look alike."""
    return show(request, "entrance/link_over.html", who=who, status=404, kind="invitation")


@router.get("/forgot")
def ask_email(request: Request, parts: OurParts, who: MaybeReader) -> Response:
    return _asked(request, parts, who)


@router.post("/forgot")
def send_link(request: Request, parts: OurParts, who: MaybeReader, form: PostedForm) -> Response:
    """Whether somebody has this e-mail is not told: the answer is the same."""
    email = form.text("email", most=user_rules.LONGEST)
    if "@" not in email:
        return _asked(request, parts, who, email=email, faults={"email": [NO_EMAIL]})
    password_resets.ask(
        parts.people, email, base_url=parts.base_url, address=address_of(request), now=parts.clock()
    )
    return go("/forgot", said="reset_asked" if parts.sends_mail else "reset_unsent")


@router.get("/reset/{token}")
def ask_new_password(request: Request, token: str, parts: OurParts, who: MaybeReader) -> Response:
    return _reset_page(request, parts, token, who)


@router.post("/reset/{token}")
def set_new_password(
    request: Request, token: str, parts: OurParts, who: MaybeReader, form: PostedForm
) -> Response:
    if not is_of_kind(token, "reset"):
        return _reset_link_over(request, who)
    try:
        password = chosen_password(form)
        is_set = password_resets.reset(
            parts.people, token, password, address=address_of(request), now=parts.clock()
        )
    except Invalid as wrong:
        return _reset_page(request, parts, token, who, faults=wrong.fields)
    if not is_set:
        return _reset_link_over(request, who)
    done = go("/sign-in", said="password_reset")
    drop_cookie(request, done, SESSION)
    return done


def _asked(
    request: Request,
    parts: Parts,
    who: SignedIn | None,
    *,
    email: str = "",
    faults: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    form = Filled({"email": [email]}, faults or {})
    return show_form(request, "entrance/forgot.html", who, form, sends_mail=parts.sends_mail)


def _reset_page(
    request: Request,
    parts: Parts,
    token: str,
    who: SignedIn | None,
    *,
    faults: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    with parts.db.work() as tx:
        email = password_resets.whose(tx, token, now=parts.clock()) if is_of_kind(token, "reset") else None
    if email is None:
        return _reset_link_over(request, who)
    return show_form(request, "entrance/reset.html", who, Filled({}, faults or {}), email=email)


def _reset_link_over(request: Request, who: SignedIn | None) -> Response:
    """Used, old and unknown links look alike."""
    return show(request, "entrance/link_over.html", who=who, status=404, kind="reset")
