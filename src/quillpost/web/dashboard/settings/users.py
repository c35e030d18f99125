"""The people of an account: who they are, what they may do, who is invited."""

from collections.abc import Mapping
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.models import Role
from quillpost.accounts.users import invitations, members
from quillpost.accounts.users.members import Member
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure
from quillpost.web.dashboard.settings.pages import settings_page, sub_account_titles
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import ConfirmedOwner, OurParts, Owner

router = APIRouter(include_in_schema=False)

PAGE = "/settings/people"
INVITED = "The invitation waits among the people of the account: if the link is lost, send it again there."
ROLES: Final[Mapping[Role, str]] = {
    "owner": "Decides on everything: people, tokens, apps and the audit log, and sends mail.",
    "member": "Sends mail and sees what was sent, for the whole account or for one sub account.",
    "operator": "A member who also runs this service: holds and releases orders, and prints them.",
}


@router.get(PAGE)
def list_page(request: Request, who: Owner, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        here = members.list_members(tx, who.here.account_id)
        waiting = invitations.waiting(tx, who.here.account_id, now=parts.clock())
    return settings_page(
        request,
        "settings/people.html",
        who,
        parts,
        members=here,
        waiting=waiting,
        titles=sub_account_titles(who, parts),
    )


@router.get(f"{PAGE}/invite")
def invite_page(request: Request, who: ConfirmedOwner, parts: OurParts) -> Response:
    return _invite_page(request, who, parts, Filled({"role": ["member"]}))


@router.post(f"{PAGE}/invite")
def invite(request: Request, who: ConfirmedOwner, form: PostedForm, parts: OurParts) -> Response:
    try:
        with parts.db.work() as tx:
            _invite_once(tx, who, form)
            link = _invite(
                tx,
                who,
                parts,
                email=form.text("email", most=320),
                role=_role(form, who),
                sub_account_id=form.number("sub_account_id"),
            )
    except (Invalid, Refused) as refused:
        return _invite_page(request, who, parts, Filled.back(form, refused, at="email"))
    return _invited(request, who, parts, form.text("email", most=320), link)


@router.post(f"{PAGE}/invitations/{{invitation_id}}/again")
def invite_again(
    request: Request, invitation_id: str, who: ConfirmedOwner, form: PostedForm, parts: OurParts
) -> Response:
    """Another link, for the same person in the same role; the one before ends."""
    number = id_in_path(invitation_id)
    with parts.db.work() as tx:
        _invite_once(tx, who, form)
        waiting = invitations.waiting(tx, who.here.account_id, now=parts.clock())
        found = next((each for each in waiting if each.id == number), None)
        if found is None:
            raise NotFound
        link = _invite(
            tx, who, parts, email=found.email, role=found.role, sub_account_id=found.sub_account_id
        )
    return _invited(request, who, parts, found.email, link)


@router.post(f"{PAGE}/invitations/{{invitation_id}}/take-back")
def take_back(invitation_id: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.work() as tx:
        invitations.take_back(
            tx, who.here.account_id, id_in_path(invitation_id), who.actor, now=parts.clock()
        )
    return go(PAGE, said="uninvited")


@router.get(f"{PAGE}/{{membership_id}}/change")
def change_page(request: Request, membership_id: str, who: ConfirmedOwner, parts: OurParts) -> Response:
    member = _find(who, parts, membership_id)
    branch = "" if member.sub_account_id is None else str(member.sub_account_id)
    return _change_page(
        request, who, parts, member, Filled({"role": [member.role], "sub_account_id": [branch]})
    )


@router.post(f"{PAGE}/{{membership_id}}/change")
def change(
    request: Request, membership_id: str, who: ConfirmedOwner, form: PostedForm, parts: OurParts
) -> Response:
    member = _find(who, parts, membership_id)
    try:
        role = _role(form, who)
        with parts.db.work() as tx:
            members.change(
                tx,
                who.here.account_id,
                member.membership_id,
                role=role,
                sub_account_id=form.number("sub_account_id"),
                actor=who.actor,
                now=parts.clock(),
            )
    except (Invalid, Refused) as refused:
        return _change_page(request, who, parts, member, Filled.back(form, refused, at="role"))
    is_out = member.person_id == who.person_id and role != "owner"
    return go("/settings" if is_out else PAGE, said="member_changed")


@router.get(f"{PAGE}/{{membership_id}}/remove")
def remove_page(request: Request, membership_id: str, who: Owner, parts: OurParts) -> Response:
    return _remove_page(request, who, _find(who, parts, membership_id))


@router.post(f"{PAGE}/{{membership_id}}/remove")
def remove(request: Request, membership_id: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    member = _find(who, parts, membership_id)
    try:
        with parts.db.work() as tx:
            members.remove(tx, who.here.account_id, member.membership_id, who.actor, now=parts.clock())
    except Refused as refused:
        return _remove_page(request, who, member, refused=refused.message)
    if member.person_id == who.person_id:
        return go("/")
    return go(PAGE, said="member_removed")


def _find(who: SignedIn, parts: Parts, membership_id: str) -> Member:
    number = id_in_path(membership_id)
    with parts.db.work() as tx:
        here = members.list_members(tx, who.here.account_id)
    found = next((member for member in here if member.membership_id == number), None)
    if found is None:
        raise NotFound
    return found


def _invite_once(tx: Tx, who: SignedIn, form: Form) -> None:
    do_once(tx, who, form.text(csrf.FIELD), instead=INVITED, leads_to=PAGE)


def _invite(
    tx: Tx, who: SignedIn, parts: Parts, *, email: str, role: Role, sub_account_id: int | None
) -> str:
    return invitations.invite(
        tx,
        parts.sealer,
        who.here.account_id,
        email=email,
        role=role,
        sub_account_id=sub_account_id,
        actor=who.actor,
        base_url=parts.base_url,
        now=parts.clock(),
    )


def _invited(request: Request, who: SignedIn, parts: Parts, email: str, link: str) -> Response:
    """Where no mail goes out, whoever invites hands the link over. It is in no URL, and shown this once."""
    if parts.sends_mail:
        return go(PAGE, said="invited")
    return settings_page(request, "settings/invited.html", who, parts, email=email, link=link)


def _role(form: Form, who: SignedIn) -> Role:
    chosen = form.text("role")
    for role in _offered(who):
        if role == chosen:
            return role
    raise Invalid({"role": ["Choose one of the roles."]})


def _offered(who: SignedIn) -> Mapping[Role, str]:
    """Only where the account runs the service is there anything for operators to run."""
    return {
        role: words for role, words in ROLES.items() if role != "operator" or who.here.is_operator_account
    }


def _invite_page(request: Request, who: SignedIn, parts: Parts, form: Filled) -> Response:
    return settings_page(
        request,
        "settings/invite.html",
        who,
        parts,
        form=form,
        sends_mail=parts.sends_mail,
        roles=_offered(who),
        titles=sub_account_titles(who, parts),
    )


def _change_page(request: Request, who: SignedIn, parts: Parts, member: Member, form: Filled) -> Response:
    return settings_page(
        request,
        "settings/member.html",
        who,
        parts,
        form=form,
        member=member,
        roles=_offered(who),
        titles=sub_account_titles(who, parts),
    )


def _remove_page(request: Request, who: SignedIn, member: Member, *, refused: str | None = None) -> Response:
    is_self = member.person_id == who.person_id
    they = "you" if is_self else "they"
    return are_you_sure(
        request,
        who,
        title=f"Leave {who.here.account_name}?" if is_self else f"Remove {member.email}?",
        means=[
            f"{they.capitalize()} lose sight of {who.here.account_name} at once, on every device.",
            f"The access tokens that {they} made here are revoked, and the apps that {they} connected are "
            "disconnected: programs that use them stop.",
            "Orders, lists and templates stay.",
        ],
        button="Leave" if is_self else "Remove",
        back=PAGE,
        refused=refused,
    )
