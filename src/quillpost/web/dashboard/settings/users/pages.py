"""The users of an account, their roles, and invitations."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Response

from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.service import Member
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import ConfirmedOwnerContext, OwnerContext, PathId, RequestContext
from quillpost.web.dashboard.settings.pages import sub_account_titles
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

router = APIRouter(include_in_schema=False)

PAGE_PATH = "/settings/people"
ALREADY_INVITED = "The invitation waits among the people of the account: if the link is lost, send it again there."
ROLE_DESCRIPTIONS: Final[Mapping[Role, str]] = {
    "owner": "Decides on everything: people, tokens, apps and the audit log, and sends mail.",
    "member": "Sends mail and sees what was sent, for the whole account or for one sub account.",
    "operator": "A member who also runs this service: holds and releases orders, and prints them.",
}


@router.get(PAGE_PATH)
def users_page(context: OwnerContext) -> Response:
    with context.system_transaction() as tx:
        account_members = user_service.list_members(tx, context.account_id)
        pending_invitations = invitations.list_pending_invitations(tx, context.account_id, now=context.now())
    return context.render(
        "settings/people.html",
        members=account_members,
        invitations=pending_invitations,
        titles=sub_account_titles(context),
    )


@router.get(f"{PAGE_PATH}/invite")
def invite_page(context: ConfirmedOwnerContext) -> Response:
    return _render_invite_page(context, FormState({"role": ["member"]}))


@router.post(f"{PAGE_PATH}/invite")
def invite_user(context: ConfirmedOwnerContext, form: PostedForm) -> Response:
    try:
        with context.system_transaction() as tx:
            _claim_form(tx, context.user, form)
            link = _create_invitation(
                context,
                tx,
                email=form.text("email", max_length=320),
                role=_read_role(form, context.user),
                sub_account_id=form.number("sub_account_id"),
            )
    except (Invalid, Refused) as error:
        return _render_invite_page(context, FormState.from_error(form, error, default_field="email"))
    return _render_invited(context, form.text("email", max_length=320), link)


@router.post(f"{PAGE_PATH}/invitations/{{invitation_id}}/again")
def resend_invitation(context: ConfirmedOwnerContext, invitation_id: PathId, form: PostedForm) -> Response:
    """A new link for the same person and role; the former link ends."""
    with context.system_transaction() as tx:
        _claim_form(tx, context.user, form)
        pending_invitations = invitations.list_pending_invitations(tx, context.account_id, now=context.now())
        invitation = next((each for each in pending_invitations if each.id == invitation_id), None)
        if invitation is None:
            raise NotFound
        link = _create_invitation(
            context, tx, email=invitation.email, role=invitation.role, sub_account_id=invitation.sub_account_id
        )
    return _render_invited(context, invitation.email, link)


@router.post(f"{PAGE_PATH}/invitations/{{invitation_id}}/take-back")
def cancel_invitation(context: OwnerContext, invitation_id: PathId, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        invitations.withdraw_invitation(tx, context.account_id, invitation_id, context.user.actor, now=context.now())
    return redirect(PAGE_PATH, flash="uninvited")


@router.get(f"{PAGE_PATH}/{{membership_id}}/change")
def change_page(context: ConfirmedOwnerContext, membership_id: PathId) -> Response:
    member = _find_member(context, membership_id)
    sub_account_value = "" if member.sub_account_id is None else str(member.sub_account_id)
    return _render_change_page(
        context, member, FormState({"role": [member.role], "sub_account_id": [sub_account_value]})
    )


@router.post(f"{PAGE_PATH}/{{membership_id}}/change")
def change_member(context: ConfirmedOwnerContext, membership_id: PathId, form: PostedForm) -> Response:
    member = _find_member(context, membership_id)
    try:
        role = _read_role(form, context.user)
        with context.system_transaction() as tx:
            user_service.update_member(
                tx,
                context.account_id,
                member.membership_id,
                role=role,
                sub_account_id=form.number("sub_account_id"),
                actor=context.user.actor,
                now=context.now(),
            )
    except (Invalid, Refused) as error:
        return _render_change_page(context, member, FormState.from_error(form, error, default_field="role"))
    has_lost_access = member.person_id == context.user.person_id and role != "owner"
    return redirect("/settings" if has_lost_access else PAGE_PATH, flash="member_changed")


@router.get(f"{PAGE_PATH}/{{membership_id}}/remove")
def remove_page(context: OwnerContext, membership_id: PathId) -> Response:
    return _render_remove_page(context, _find_member(context, membership_id))


@router.post(f"{PAGE_PATH}/{{membership_id}}/remove")
def remove_member(context: OwnerContext, membership_id: PathId, _form: PostedForm) -> Response:
    member = _find_member(context, membership_id)
    try:
        with context.system_transaction() as tx:
            user_service.remove_member(
                tx, context.account_id, member.membership_id, context.user.actor, now=context.now()
            )
    except Refused as error:
        return _render_remove_page(context, member, error_message=error.message)
    if member.person_id == context.user.person_id:
        return redirect("/")
    return redirect(PAGE_PATH, flash="member_removed")


def _find_member(context: RequestContext, membership_id: int) -> Member:
    with context.system_transaction() as tx:
        account_members = user_service.list_members(tx, context.account_id)
    match = next((member for member in account_members if member.membership_id == membership_id), None)
    if match is None:
        raise NotFound
    return match


def _claim_form(tx: Tx, user: SignedInUser, form: Form) -> None:
    use_one_time_key(tx, user, form.one_time_key, hint=ALREADY_INVITED, result_path=PAGE_PATH)


def _create_invitation(context: RequestContext, tx: Tx, *, email: str, role: Role, sub_account_id: int | None) -> str:
    return invitations.invite(
        tx,
        context.container.encryptor,
        context.account_id,
        email=email,
        role=role,
        sub_account_id=sub_account_id,
        actor=context.user.actor,
        base_url=context.container.base_url,
        now=context.now(),
    )


def _render_invited(context: RequestContext, email: str, link: str) -> Response:
    """Without a mail server the owner hands over the link, which is in no URL and shown only now."""
    if context.container.has_mail_server:
        return redirect(PAGE_PATH, flash="invited")
    return context.render("settings/invited.html", email=email, link=link)


def _read_role(form: Form, user: SignedInUser) -> Role:
    role_name = form.text("role")
    for role in _offered_roles(user):
        if role == role_name:
            return role
    raise Invalid({"role": ["Choose one of the roles."]})


def _offered_roles(user: SignedInUser) -> Mapping[Role, str]:
    """Only an operator account has operators."""
    return {
        role: description
        for role, description in ROLE_DESCRIPTIONS.items()
        if role != "operator" or user.here.is_operator_account
    }


def _render_invite_page(context: RequestContext, form: FormState) -> Response:
    return context.render(
        "settings/invite.html",
        form=form,
        sends_mail=context.container.has_mail_server,
        roles=_offered_roles(context.user),
        titles=sub_account_titles(context),
    )


def _render_change_page(context: RequestContext, member: Member, form: FormState) -> Response:
    return context.render(
        "settings/member.html",
        form=form,
        member=member,
        roles=_offered_roles(context.user),
        titles=sub_account_titles(context),
    )


def _render_remove_page(context: RequestContext, member: Member, *, error_message: str | None = None) -> Response:
    is_self = member.person_id == context.user.person_id
    pronoun = "you" if is_self else "they"
    return context.confirm(
        title=f"Leave {context.user.here.account_name}?" if is_self else f"Remove {member.email}?",
        consequences=[
            f"{pronoun.capitalize()} lose sight of {context.user.here.account_name} at once, on every device.",
            f"The access tokens that {pronoun} made here are revoked, and the apps that {pronoun} connected are "
            "disconnected: programs that use them stop.",
            "Orders, lists and templates stay.",
        ],
        button_label="Leave" if is_self else "Remove",
        back_url=PAGE_PATH,
        error_message=error_message,
    )
