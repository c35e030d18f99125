"""Invitations and forgotten passwords: the pages of their links."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Response

from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations, passwords, sessions, sign_in
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.errors import Invalid
from quillpost.core.tokens import is_of_kind
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState
from quillpost.web.dashboard.responses import VisitContext, VisitorContext
from quillpost.web.dashboard.sign_in.pages import EMAIL_MISSING, complete_sign_in, read_new_password
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect, sign_in_path
from quillpost.web.security import SESSION, delete_cookie
from quillpost.web.sessions import get_visitor

router = APIRouter(include_in_schema=False)

ROLE_DESCRIPTIONS: Final[Mapping[Role, str]] = {
    "owner": "an owner, who decides on people, tokens and apps",
    "member": "a member, who sends mail",
    "operator": "an operator, who sends mail and runs the service",
}
BLANK_FORM: Final = FormState({"name": [""]})


@router.get("/join/{token}")
def invitation_page(context: VisitorContext, token: str) -> Response:
    return _render_invitation_page(context, token)


@router.post("/join/{token}")
def accept_invitation(context: VisitorContext, token: str, form: PostedForm) -> Response:
    invitation = _find_invitation(context, token)
    if invitation is None:
        return _render_expired_link(context, "invitation")
    if context.user is not None:
        return _accept_as_user(context, token, context.user)
    try:
        return _register_and_join(context, token, invitation, form)
    except Invalid as error:
        name = form.fields.get("name", [""])[0][:300]
        return _render_invitation_page(context, token, FormState({"name": [name]}, error.fields))


def _accept_as_user(context: VisitContext, token: str, user: SignedInUser) -> Response:
    with context.system_transaction() as tx:
        membership_id = invitations.accept_invitation(tx, token, user, now=context.now())
        if membership_id is not None:
            sessions.switch_account(tx, user, membership_id=membership_id)
    if membership_id is None:
        return _render_invitation_page(context, token)
    return redirect("/", flash="joined")


def _register_and_join(context: VisitContext, token: str, invitation: Invitation, form: Form) -> Response:
    password, now = read_new_password(form), context.now()
    sign_in_context = context.container.sign_in_context
    new_user = invitations.join_as_new_person(
        sign_in_context, token, name=form.text("name"), password=password, address=context.address, now=now
    )
    if new_user is None:
        return _render_invitation_page(context, token)
    attempt = sign_in.sign_in(sign_in_context, invitation.email, password, get_visitor(context.request), now=now)
    if attempt.outcome != "in":
        return redirect("/sign-in")
    return complete_sign_in(context.request, context.container, attempt, "/?said=joined")


def _render_invitation_page(context: VisitContext, token: str, form: FormState = BLANK_FORM) -> Response:
    invitation = _find_invitation(context, token)
    if invitation is None:
        return _render_expired_link(context, "invitation")
    return context.render(
        "sign_in/invitation.html",
        form,
        invitation=invitation,
        step=_step(invitation, context.user),
        roles=ROLE_DESCRIPTIONS,
        sign_in_url=sign_in_path(context.request.url.path),
    )


def _step(invitation: Invitation, user: SignedInUser | None) -> str:
    if user is not None:
        return "accept" if user.email.lower() == invitation.email.lower() else "somebody_else"
    return "sign_in" if invitation.has_person else "new"


def _find_invitation(context: VisitContext, token: str) -> Invitation | None:
    if not is_of_kind(token, "invitation"):
        return None
    with context.system_transaction() as tx:
        return invitations.find_invitation(tx, token, now=context.now())


def _render_expired_link(context: VisitContext, kind: str) -> Response:
    """Used, withdrawn, expired and unknown links look alike."""
    return context.render("sign_in/expired_link.html", status=404, kind=kind)


@router.get("/forgot")
def forgot_password_page(context: VisitorContext) -> Response:
    return _render_forgot_page(context, FormState({"email": [""]}))


@router.post("/forgot")
def send_reset_link(context: VisitorContext, form: PostedForm) -> Response:
    """The response is the same whether a user has this email or not."""
    email, container = form.text("email", max_length=user_rules.MAX_EMAIL_LENGTH), context.container
    if "@" not in email:
        return _render_forgot_page(context, FormState({"email": [email]}, {"email": [EMAIL_MISSING]}))
    passwords.request_reset(
        container.sign_in_context, email, base_url=container.base_url, address=context.address, now=context.now()
    )
    return redirect("/forgot", flash="reset_asked" if container.has_mail_server else "reset_unsent")


def _render_forgot_page(context: VisitContext, form: FormState) -> Response:
    return context.render("sign_in/forgot_password.html", form, sends_mail=context.container.has_mail_server)


@router.get("/reset/{token}")
def reset_password_page(context: VisitorContext, token: str) -> Response:
    return _render_reset_page(context, token, EMPTY_FORM)


@router.post("/reset/{token}")
def reset_password(context: VisitorContext, token: str, form: PostedForm) -> Response:
    if not is_of_kind(token, "reset"):
        return _render_expired_link(context, "reset")
    try:
        password = read_new_password(form)
        is_reset = passwords.reset_password(
            context.container.sign_in_context, token, password, address=context.address, now=context.now()
        )
    except Invalid as error:
        return _render_reset_page(context, token, FormState({}, error.fields))
    if not is_reset:
        return _render_expired_link(context, "reset")
    response = redirect("/sign-in", flash="password_reset")
    delete_cookie(context.request, response, SESSION)
    return response


def _render_reset_page(context: VisitContext, token: str, form: FormState) -> Response:
    email = None
    if is_of_kind(token, "reset"):
        with context.system_transaction() as tx:
            email = passwords.find_reset_email(tx, token, now=context.now())
    if email is None:
        return _render_expired_link(context, "reset")
    return context.render("sign_in/reset_password.html", form, email=email)
