"""Making a sub account, looking at one, and changing it."""

from datetime import UTC
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts import audit
from quillpost.accounts import sub_accounts as store
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import SubAccount
from quillpost.api.needs import id_in_path
from quillpost.api.v2.sub_account_body import ChangedSubAccount, NewSubAccount
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.dashboard.sub_accounts.branding import drawn_front
from quillpost.dashboard.sub_accounts.listing import PAGE
from quillpost.dashboard.sub_accounts.sub_account_fields import FIELDS, sent_back, typed_of, values_of
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders.reading import orders_by_sub_account
from quillpost.people.sessions import SignedIn
from quillpost.pricing.books import spent_by_sub_account
from quillpost.reception import once
from quillpost.reception.forms import PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go, show
from quillpost.reception.visits import OurParts, Owner, Reader, is_fragment

router = APIRouter(include_in_schema=False)

DONE = "The sub account is there already."


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Owner) -> Response:
    return form_page(request, who, EMPTY)


@router.post(f"{PAGE}/new")
def create(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    now = parts.clock()
    try:
        body = read_body(NewSubAccount, values_of(form))
        if faults := body.faults(parts.check_url):
            raise Invalid(faults)
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(once.FIELD), instead=DONE, leads_to=PAGE)
            made = store.create_sub_account(tx, who.caller, body.columns(), now=now)
            about = {"title": made.title, "id": made.id}
            audit.note(
                tx,
                made.account_id,
                "sub_account.created",
                who.actor,
                about=about,
                sub_account_id=made.id,
                now=now,
            )
    except (Invalid, Refused) as refused:
        return form_page(request, who, sent_back(form, refused))
    return go(f"{PAGE}/{made.id}", said="sub_account_made")


@router.post(f"{PAGE}/preview")
def preview(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    """How its front looks: a part of the form's page; where there is no script, all of it."""
    picture, trouble = drawn_front(form, who, parts)
    if is_fragment(request):
        return show(request, "sub_accounts/look.html", who=who, picture=picture, trouble=trouble)
    number = form.number("sub_account_id")
    found = None
    if number is not None:
        with parts.db.transaction(tenant(who.caller)) as tx:
            found = store.find_sub_account(tx, number)
    return form_page(request, who, Filled(form.fields), found, picture=picture, trouble=trouble)


@router.get(f"{PAGE}/{{sub_account_id}}")
def read_page(request: Request, sub_account_id: str, who: Reader, parts: OurParts) -> Response:
    now, whose = parts.clock(), tenant(who.caller)
    month = now.astimezone(UTC).date().replace(day=1)
    with parts.db.transaction(whose) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
        orders = orders_by_sub_account(tx, whose, [found.id])
        spent = spent_by_sub_account(tx, whose, since=month, among=[found.id])
        ever = spent_by_sub_account(tx, whose, since=month.replace(year=1970), among=[found.id])
    return show(
        request,
        "sub_accounts/one.html",
        who=who,
        now=now,
        found=found,
        address=_lines(found),
        orders=orders.get(found.id, 0),
        spent=spent.get(found.id, 0),
        ever=ever.get(found.id, 0),
        month=month,
    )


@router.get(f"{PAGE}/{{sub_account_id}}/edit")
def edit_page(request: Request, sub_account_id: str, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
    return form_page(request, who, Filled(typed_of(found)), found)


@router.post(f"{PAGE}/{{sub_account_id}}/edit")
def change(request: Request, sub_account_id: str, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.find_sub_account(tx, id_in_path(sub_account_id))
    try:
        body = read_body(ChangedSubAccount, values_of(form))
        with parts.db.transaction(tenant(who.caller)) as tx:
            before = store.lock_sub_account(tx, found.id)
            if faults := body.faults(parts.check_url, before):
                raise Invalid(faults)
            store.change_sub_account(tx, before.id, body.columns(before), now=parts.clock())
    except (Invalid, Refused) as refused:
        return form_page(request, who, sent_back(form, refused), found)
    return go(f"{PAGE}/{found.id}", said="sub_account_changed")


def form_page(
    request: Request,
    who: SignedIn,
    form: Filled,
    found: SubAccount | None = None,
    **look: Any,
) -> Response:
    return show_form(
        request,
        "sub_accounts/form.html",
        who,
        form,
        draws_inline=True,
        unseen=form.unseen(FIELDS),
        found=found,
        **{"picture": None, "trouble": None} | look,
    )


def _lines(found: SubAccount) -> list[str]:
    """Where returned mail goes, line by line; nothing where the account's own address is used."""
    if not found.return_address:
        return []
    place = " ".join(filter(None, (found.return_state, found.return_postal_code)))
    town = ", ".join(filter(None, (found.return_city, place)))
    return [*filter(None, (found.return_name, found.return_address, found.return_address2, town))]
