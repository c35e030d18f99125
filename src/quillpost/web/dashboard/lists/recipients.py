"""One person on a list: adding, changing, removing and erasing them."""

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.privacy.erasure import erase, foretell
from quillpost.privacy.models import Whom, whom_of
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import MailingList, read_list
from quillpost.recipients.queries import Recipient, read_recipient
from quillpost.recipients.rules import ADDRESS, CUSTOM, TEXTS, written
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.mailing_lists.endpoints import deliverability_of
from quillpost.web.api.recipients.schemas import ChangedRecipient, NewRecipient
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body
from quillpost.web.dashboard.lists.pages import known_list, list_view, page_of, texts_of
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

FIELDS: Final = (*TEXTS, "dob", "anniversary")
"""Of the form: all that the API knows of somebody."""
NOT_CHOSEN = "Choose what the person is known by."
ONE = "/lists/{list_id}/people/{recipient_id}"


@router.get("/lists/{list_id}/people/new")
def new_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    return _form_page(request, who, parts, known_list(parts, who, list_id), EMPTY)


@router.post("/lists/{list_id}/people/new")
def create(request: Request, list_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """With a second button, the next one right after."""
    onto = known_list(parts, who, list_id)
    back = page_of(onto.id)
    try:
        body = read_body(NewRecipient, texts_of(form, FIELDS) | {"mailing_list_id": onto.id})
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead="They are on the list.", leads_to=back)
            recipient_service.add_recipient(tx, onto.id, body.person(), clock=parts.clock)
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, onto, Filled.back(form, refused, at="name"))
    return go(f"{back}/people/new" if form.text("then") == "another" else back, said="recipient_added")


@router.get(ONE)
def one_page(request: Request, list_id: str, recipient_id: str, who: Reader, parts: OurParts) -> Response:
    onto, known = _known(parts, who, list_id, recipient_id)
    typed = {name: [text] for name, text in written(known.person).items() if text is not None}
    return _form_page(request, who, parts, onto, Filled(typed), known)


@router.post(ONE)
def change(
    request: Request, list_id: str, recipient_id: str, who: Reader, form: PostedForm, parts: OurParts
) -> Response:
    onto, known = _known(parts, who, list_id, recipient_id)
    try:
        body = read_body(ChangedRecipient, texts_of(form, FIELDS))
        with parts.db.transaction(tenant(who.caller)) as tx:
            recipient_service.change_recipient(tx, known.id, body.person(), clock=parts.clock)
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, onto, Filled.back(form, refused, at="name"), known)
    return go(page_of(onto.id), said="recipient_changed")


@router.get(f"{ONE}/remove")
def remove_page(request: Request, list_id: str, recipient_id: str, who: Reader, parts: OurParts) -> Response:
    onto, known = _known(parts, who, list_id, recipient_id)
    means = ["Mail to them that is under way goes on.", "Nothing else that is known of them is touched."]
    if onto.is_suppression_list:
        means = ["From then on they are mailed to again, unless another suppression list holds them back."]
    return are_you_sure(
        request,
        who,
        title=f"Take {_name(known)} off “{onto.description}”?",
        means=means,
        button="Take them off the list",
        back=_page_of(onto, known),
    )


@router.post(f"{ONE}/remove")
def remove(list_id: str, recipient_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    onto, known = _known(parts, who, list_id, recipient_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        recipient_service.remove_recipient(tx, known.id)
    return go(page_of(onto.id), said="recipient_removed")


@router.get(f"{ONE}/erase")
def erase_page(request: Request, list_id: str, recipient_id: str, who: Reader, parts: OurParts) -> Response:
    onto, known = _known(parts, who, list_id, recipient_id)
    chosen = [by for by in ("address", "email") if getattr(known.person, by)]
    return _erase_page(request, who, parts, onto, known, Filled({"by": chosen}))


@router.post(f"{ONE}/erase")
def erase_everywhere(
    request: Request, list_id: str, recipient_id: str, who: Reader, form: PostedForm, parts: OurParts
) -> Response:
    """By the same rule as the API's: in both modes, or in testing alone for whoever is there."""
    onto, known = _known(parts, who, list_id, recipient_id)
    try:
        whom = _whom(known, form.many("by"))
    except Invalid as refused:
        return _erase_page(request, who, parts, onto, known, Filled.back(form, refused, at="by"))
    with parts.db.work() as tx:
        erase(tx, parts.sealer, _erasing(who), whom, now=parts.clock())
        # Whom, nobody is to know any more.
        audit_service.note(
            tx,
            who.here.account_id,
            "person.erased",
            who.actor,
            about={},
            sub_account_id=who.here.sub_account_id,
            now=parts.clock(),
        )
    return go(page_of(onto.id), said="recipient_erased")


def _known(parts: Parts, who: SignedIn, list_id: str, recipient_id: str) -> tuple[MailingList, Recipient]:
    """The list, and somebody who is on it."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        onto = read_list(tx, id_in_path(list_id))
        known = read_recipient(tx, id_in_path(recipient_id))
    if known.mailing_list_id != onto.id:
        raise NotFound
    return onto, known


def _form_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    onto: MailingList,
    form: Filled,
    known: Recipient | None = None,
) -> Response:
    faults = _under_the_form(form.faults)
    return list_view(
        request,
        "person.html",
        who,
        parts,
        form=Filled(form.typed, faults),
        list=onto,
        known=known,
        name=None if known is None else _name(known),
        reach=None if known is None else deliverability_of(known.person),
        custom=CUSTOM,
    )


def _under_the_form(faults: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Faults of a field that the form has not are told above it, by the empty name."""
    loose = [told for name, several in faults.items() if name not in FIELDS for told in several]
    ours = {name: told for name, told in faults.items() if name in FIELDS}
    return ours | ({"": loose} if loose else {})


def _erase_page(
    request: Request, who: SignedIn, parts: Parts, onto: MailingList, known: Recipient, form: Filled
) -> Response:
    found = None
    try:
        with parts.db.work() as tx:
            found = foretell(tx, _erasing(who), _whom(known, form.typed.get("by", ())), now=parts.clock())
    except Invalid as refused:
        faults = [told for several in refused.fields.values() for told in several]
        form = Filled(form.typed, {"by": form.faults.get("by") or faults})
    return list_view(
        request,
        "erase.html",
        who,
        parts,
        form=form,
        list=onto,
        known=known,
        name=_name(known),
        found=found,
        back=_page_of(onto, known),
        is_testing=who.caller.is_testing,
    )


def _whom(known: Recipient, by: Sequence[str]) -> Whom:
    said = written(known.person)
    named = {name: said[name] for name in ADDRESS} if "address" in by else {}
    if "email" in by:
        named["email"] = said["email"]
    if not named:
        raise Invalid({"by": [NOT_CHOSEN]})
    return whom_of(named)


def _erasing(who: SignedIn) -> Tenant:
    mode = "test" if who.caller.is_testing else None
    return Tenant(who.here.account_id, who.here.sub_account_id, mode)


def _name(known: Recipient) -> str:
    person = known.person
    return person.name or person.company or person.email or person.address or "this person"


def _page_of(onto: MailingList, known: Recipient) -> str:
    return f"{page_of(onto.id)}/people/{known.id}"
