"""Account settings and the audit log."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit.labels import csv_rows, told
from quillpost.accounts.audit.service import Entry, read_log
from quillpost.accounts.queries import AccountFacts, change_facts, read_facts
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid
from quillpost.recipients.rules import examine_alone
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.send.requests import PARTS_OF_HOME
from quillpost.web.dashboard.forms import EMPTY, Filled, show_form
from quillpost.web.dashboard.lists_common import AT_ONCE, csv_file
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Owner

BOTH = "You chose everything, but had ticked some as well: choose again."
NEITHER = "Choose everything, or some of it."


def settings_page(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    **values: Any,
) -> Response:
    return show_form(request, template, who, form, now=parts.clock(), **values)


def sub_account_titles(who: SignedIn, parts: Parts) -> Mapping[int, str]:
    with parts.db.transaction(who.tenant) as tx:
        return titles_of(list_sub_accounts(tx))


def chosen_scopes(form: Form) -> list[str] | None:
    """None: everything. Whoever chooses that and ticks some as well is asked again: nobody guesses."""
    ticked, limits = form.many("scopes"), form.text("limits")
    if limits not in ("all", "some"):
        raise Invalid({"scopes": [NEITHER]})
    if limits == "all" and ticked:
        raise Invalid({"scopes": [BOTH]})
    return ticked if limits == "some" else None


router = APIRouter(include_in_schema=False)

ACCOUNT_PAGE = "/settings/account"
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


@router.get(ACCOUNT_PAGE)
def show_account(request: Request, who: Owner, parts: OurParts) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        known = read_facts(tx, who.here.account_id)
    typed = {name: [value or ""] for name, value in asdict(known).items()}
    return settings_page(request, "settings/account.html", who, parts, form=Filled(typed))


@router.post(ACCOUNT_PAGE)
def change_account(request: Request, who: Owner, form: PostedForm, parts: OurParts) -> Response:
    """What is left empty is cleared."""
    try:
        wanted = _wanted(form)
        with parts.db.transaction(who.tenant) as tx:
            change_facts(tx, who.here.account_id, wanted, who.actor, now=parts.clock())
    except Invalid as refused:
        form_again = Filled.back(form, refused, at="name")
        return settings_page(request, "settings/account.html", who, parts, form=form_again)
    return go(ACCOUNT_PAGE, said="account_changed")


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


AUDIT_PAGE = "/settings/audit"
A_PAGE = 50


@router.get(AUDIT_PAGE)
def log_page(request: Request, who: Owner, parts: OurParts, before: str | None = None) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        # One more than is shown tells whether there is an older page.
        entries = read_log(tx, who.here.account_id, before=_place(before), most=A_PAGE + 1)
    return settings_page(
        request,
        "settings/audit.html",
        who,
        parts,
        entries=entries[:A_PAGE],
        older=entries[A_PAGE - 1].id if len(entries) > A_PAGE else None,
        is_first=_place(before) is None,
        told=told,
        titles=sub_account_titles(who, parts),
    )


@router.get(f"{AUDIT_PAGE}.csv")
def log_file(who: Owner, parts: OurParts) -> Response:
    return csv_file(csv_rows(_all(parts, who)), "audit.csv")


def _all(parts: Parts, who: SignedIn) -> Iterator[Entry]:
    """The whole log, the newest first, read bit by bit: nobody waits for it in one transaction."""
    before: int | None = None
    while True:
        with parts.db.transaction(who.tenant) as tx:
            some = read_log(tx, who.here.account_id, before=before, most=AT_ONCE)
        yield from some
        if len(some) < AT_ONCE:
            return
        before = some[-1].id


def _place(before: str | None) -> int | None:
    """Anything that is no line's number is as good as none: the page begins with the newest."""
    return id_in_path(before or "") or None
