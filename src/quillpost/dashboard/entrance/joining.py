"""The page that an invitation leads to."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.rules import Role
from quillpost.dashboard.entrance.entering import let_in
from quillpost.dashboard.entrance.passwords import chosen_password
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.kit.errors import Invalid
from quillpost.kit.tokens import is_of_kind
from quillpost.parts import Parts
from quillpost.people import invitations, sessions, signing_in
from quillpost.people.invitations import Invitation
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.show import go, show, sign_in_first
from quillpost.reception.visits import MaybeReader, OurParts, address_of, visitor_of

router = APIRouter(include_in_schema=False)

AS: Final[Mapping[Role, str]] = {
    "owner": "an owner, who decides on people, tokens and apps",
    "member": "a member, who sends mail",
    "operator": "an operator, who sends mail and runs the service",
}
BLANK: Final = Filled({"name": [""]})


@router.get("/join/{token}")
def show_invitation(request: Request, token: str, parts: OurParts, who: MaybeReader) -> Response:
    return _page(request, parts, token, who)


@router.post("/join/{token}")
def take_invitation(
    request: Request, token: str, parts: OurParts, who: MaybeReader, form: PostedForm
) -> Response:
    invitation = _find(parts, token)
    if invitation is None:
        return _over(request, who)
    if who is not None:
        return _accept(request, parts, token, who)
    try:
        return _join(request, parts, token, invitation, form)
    except Invalid as wrong:
        name = form.fields.get("name", [""])[0][:300]
        return _page(request, parts, token, who, Filled({"name": [name]}, wrong.fields))


def _accept(request: Request, parts: Parts, token: str, who: SignedIn) -> Response:
    with parts.db.work() as tx:
        membership_id = invitations.accept(tx, token, who, now=parts.clock())
        if membership_id is not None:
            sessions.switch(tx, who, membership_id=membership_id)
    if membership_id is None:
        return _page(request, parts, token, who)
    return go("/", said="joined")


def _join(request: Request, parts: Parts, token: str, invitation: Invitation, form: Form) -> Response:
    """Somebody new: in the account, and signed in at once."""
    password, now = chosen_password(form), parts.clock()
    joined = invitations.join(
        parts.people, token, name=form.text("name"), password=password, address=address_of(request), now=now
    )
    if joined is None:
        return _page(request, parts, token, None)
    tried = signing_in.sign_in(parts.people, invitation.email, password, visitor_of(request), now=now)
    return let_in(request, parts, tried, "/?said=joined") if tried.outcome == "in" else go("/sign-in")


def _page(
    request: Request,
    parts: Parts,
    token: str,
    who: SignedIn | None,
    form: Filled = BLANK,
) -> Response:
    invitation = _find(parts, token)
    if invitation is None:
        return _over(request, who)
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


def _over(request: Request, who: SignedIn | None) -> Response:
    """Used, taken back, old and unknown links look alike."""
    return show(request, "entrance/link_over.html", who=who, status=404, kind="invitation")
