"""Invitations and forgotten passwords: the pages of their links."""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations, passwords, sessions, sign_in
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.core.tokens import is_of_kind
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import render_form_page
from quillpost.web.dashboard.sign_in.pages import EMAIL_MISSING, complete_sign_in, read_new_password
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect, render_page, sign_in_path
from quillpost.web.security import SESSION, delete_cookie
from quillpost.web.sessions import OptionalUser, get_client_address, get_visitor

router = APIRouter(include_in_schema=False)

ROLE_DESCRIPTIONS: Final[Mapping[Role, str]] = {
    "owner": "an owner, who decides on people, tokens and apps",
    "member": "a member, who sends mail",
    "operator": "an operator, who sends mail and runs the service",
}
BLANK_FORM: Final = FormState({"name": [""]})


@router.get("/join/{token}")
def invitation_page(request: Request, token: str, container: Services, user: OptionalUser) -> Response:
    return _render_invitation_page(request, container, token, user)


@router.post("/join/{token}")
def accept_invitation(
    request: Request, token: str, container: Services, user: OptionalUser, form: PostedForm
) -> Response:
    invitation = _find_invitation(container, token)
    if invitation is None:
        return _render_expired_invitation(request, user)
    if user is not None:
        return _accept_as_user(request, container, token, user)
    try:
        return _register_and_join(request, container, token, invitation, form)
    except Invalid as error:
        name = form.fields.get("name", [""])[0][:300]
        return _render_invitation_page(request, container, token, user, FormState({"name": [name]}, error.fields))


def _accept_as_user(request: Request, container: Container, token: str, user: SignedInUser) -> Response:
    with container.db.system_transaction() as tx:
        membership_id = invitations.accept_invitation(tx, token, user, now=container.clock())
        if membership_id is not None:
            sessions.switch_account(tx, user, membership_id=membership_id)
    if membership_id is None:
        return _render_invitation_page(request, container, token, user)
    return redirect("/", flash="joined")


def _register_and_join(
    request: Request, container: Container, token: str, invitation: Invitation, form: Form
) -> Response:
    password, now = read_new_password(form), container.clock()
    new_user = invitations.join_as_new_person(
        container.sign_in_context,
        token,
        name=form.text("name"),
        password=password,
        address=get_client_address(request),
        now=now,
    )
    if new_user is None:
        return _render_invitation_page(request, container, token, None)
    attempt = sign_in.sign_in(container.sign_in_context, invitation.email, password, get_visitor(request), now=now)
    return (
        complete_sign_in(request, container, attempt, "/?said=joined")
        if attempt.outcome == "in"
        else redirect("/sign-in")
    )


def _render_invitation_page(
    request: Request, container: Container, token: str, user: SignedInUser | None, form: FormState = BLANK_FORM
) -> Response:
    invitation = _find_invitation(container, token)
    if invitation is None:
        return _render_expired_invitation(request, user)
    return render_form_page(
        request,
        "sign_in/invitation.html",
        user,
        form,
        invitation=invitation,
        step=_step(invitation, user),
        roles=ROLE_DESCRIPTIONS,
        sign_in_url=sign_in_path(request.url.path),
    )


def _step(invitation: Invitation, user: SignedInUser | None) -> str:
    if user is not None:
        return "accept" if user.email.lower() == invitation.email.lower() else "somebody_else"
    return "sign_in" if invitation.has_person else "new"


def _find_invitation(container: Container, token: str) -> Invitation | None:
    if not is_of_kind(token, "invitation"):
        return None
    with container.db.system_transaction() as tx:
        return invitations.find_invitation(tx, token, now=container.clock())


def _render_expired_invitation(request: Request, user: SignedInUser | None) -> Response:
    """Used, withdrawn, expired and unknown links look alike."""
    return render_page(request, "sign_in/expired_link.html", user=user, status=404, kind="invitation")


@router.get("/forgot")
def forgot_password_page(request: Request, container: Services, user: OptionalUser) -> Response:
    return _render_forgot_page(request, container, user)


@router.post("/forgot")
def send_reset_link(request: Request, container: Services, user: OptionalUser, form: PostedForm) -> Response:
    """The answer is the same whether somebody has this email or not."""
    email = form.text("email", max_length=user_rules.MAX_EMAIL_LENGTH)
    if "@" not in email:
        return _render_forgot_page(request, container, user, email=email, errors={"email": [EMAIL_MISSING]})
    passwords.request_reset(
        container.sign_in_context,
        email,
        base_url=container.base_url,
        address=get_client_address(request),
        now=container.clock(),
    )
    return redirect("/forgot", flash="reset_asked" if container.has_mail_server else "reset_unsent")


@router.get("/reset/{token}")
def reset_password_page(request: Request, token: str, container: Services, user: OptionalUser) -> Response:
    return _render_reset_page(request, container, token, user)


@router.post("/reset/{token}")
def reset_password(request: Request, token: str, container: Services, user: OptionalUser, form: PostedForm) -> Response:
    if not is_of_kind(token, "reset"):
        return _render_expired_reset(request, user)
    try:
        password = read_new_password(form)
        is_reset = passwords.reset_password(
            container.sign_in_context, token, password, address=get_client_address(request), now=container.clock()
        )
    except Invalid as error:
        return _render_reset_page(request, container, token, user, errors=error.fields)
    if not is_reset:
        return _render_expired_reset(request, user)
    response = redirect("/sign-in", flash="password_reset")
    delete_cookie(request, response, SESSION)
    return response


def _render_forgot_page(
    request: Request,
    container: Container,
    user: SignedInUser | None,
    *,
    email: str = "",
    errors: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    form = FormState({"email": [email]}, errors or {})
    return render_form_page(request, "sign_in/forgot_password.html", user, form, sends_mail=container.has_mail_server)


def _render_reset_page(
    request: Request,
    container: Container,
    token: str,
    user: SignedInUser | None,
    *,
    errors: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    with container.db.system_transaction() as tx:
        email = passwords.find_reset_email(tx, token, now=container.clock()) if is_of_kind(token, "reset") else None
    if email is None:
        return _render_expired_reset(request, user)
    return render_form_page(request, "sign_in/reset_password.html", user, FormState({}, errors or {}), email=email)


def _render_expired_reset(request: Request, user: SignedInUser | None) -> Response:
    """Used, expired and unknown links look alike."""
    return render_page(request, "sign_in/expired_link.html", user=user, status=404, kind="reset")
