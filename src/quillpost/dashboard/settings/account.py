"""The account's own page: what it is called, and where returned mail goes."""

from dataclasses import asdict, fields

from fastapi import APIRouter, Request, Response

from quillpost.accounts.account_facts import AccountFacts, change_facts, read_facts
from quillpost.api.v2.send_body import PARTS_OF_HOME
from quillpost.audience.rules import examine_alone
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.settings.settings_pages import settings_page
from quillpost.kit.errors import Invalid
from quillpost.reception.forms import Form, PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Owner

router = APIRouter(include_in_schema=False)

PAGE = "/settings/account"
NAMES = tuple(field.name for field in fields(AccountFacts))
HOME = {
    "address": "return_address",
    "address2": "return_address2",
    "city": "return_city",
    "province": "return_state",
    "postal_code": "return_postal_code",
}
"""The parts of an address, and the fields in which they are typed."""
NO_STREET = "Give the street as well, or leave the whole address empty."
MISSING = {
    "city": "Give the city too.",
    "province": "Give the state or province too.",
    "postal_code": "Give the ZIP or postal code too.",
}


@router.get(PAGE)
def show_account(request: Request, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        known = read_facts(tx, who.here.account_id)
    typed = {name: [value or ""] for name, value in asdict(known).items()}
    return settings_page(request, "settings/account.html", who, parts, form=Filled(typed))


@router.post(PAGE)
def change_account(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    """What is left empty is cleared."""
    try:
        wanted = _wanted(form)
        with parts.db.transaction(who.tenant) as tx:
            change_facts(tx, who.here.account_id, wanted, who.actor, now=parts.clock())
    except Invalid as refused:
        form_again = Filled.back(form, refused, at="name")
        return settings_page(request, "settings/account.html", who, parts, form=form_again)
    return go(PAGE, said="account_changed")


def _wanted(form: Form) -> AccountFacts:
    """As it was typed. An address on one line is taken apart as a recipient's is."""
    given = {name: form.text(name) or None for name in NAMES}
    home = {part: given[field] for part, field in HOME.items()}
    if home["address"] and not (home["city"] or home["postal_code"]):
        read, unread = examine_alone(home)
        if not unread:
            home = {part: getattr(read, part) for part in HOME}
    if any(home.values()) and (lacking := [part for part in PARTS_OF_HOME if not home[part]]):
        raise Invalid({HOME[part]: [MISSING.get(part, NO_STREET)] for part in lacking})
    in_fields = {HOME[part]: value for part, value in home.items()}
    others = {name: given[name] for name in NAMES if name not in ("name", *in_fields)}
    return AccountFacts(form.text("name"), **others, **in_fields)
