"""Account settings and the audit log."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit.labels import describe_entry, generate_csv
from quillpost.accounts.audit.service import AuditEntry, list_audit_entries
from quillpost.accounts.queries import AccountProfile, read_account_profile, update_account_profile
from quillpost.accounts.sub_accounts import label_sub_accounts, list_sub_accounts
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.recipients.rules import check_recipient
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.api.send.requests import RETURN_ADDRESS_PARTS
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, render_form_page
from quillpost.web.dashboard.lists_common import CSV_CHUNK_LINES, csv_response
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import CurrentOwner

SCOPES_AMBIGUOUS = "You chose everything, but had ticked some as well: choose again."
SCOPES_MISSING = "Choose everything, or some of it."


def render_settings_page(
    request: Request,
    template: str,
    user: SignedInUser,
    container: Container,
    *,
    form: FormState = EMPTY_FORM,
    **values: Any,
) -> Response:
    return render_form_page(request, template, user, form, now=container.clock(), **values)


def sub_account_titles(user: SignedInUser, container: Container) -> Mapping[int, str]:
    with container.db.transaction(user.tenant) as tx:
        return label_sub_accounts(list_sub_accounts(tx))


def read_scopes(form: Form) -> list[str] | None:
    """None: everything. Whoever chooses that and ticks some as well is asked again: nobody guesses."""
    chosen, choice = form.values("scopes"), form.text("limits")
    if choice not in ("all", "some"):
        raise Invalid({"scopes": [SCOPES_MISSING]})
    if choice == "all" and chosen:
        raise Invalid({"scopes": [SCOPES_AMBIGUOUS]})
    return chosen if choice == "some" else None


router = APIRouter(include_in_schema=False)

ACCOUNT_PATH = "/settings/account"
ACCOUNT_FIELDS = tuple(field.name for field in fields(AccountProfile))
RETURN_ADDRESS_FIELDS = {
    "address": "return_address",
    "address2": "return_address2",
    "city": "return_city",
    "province": "return_state",
    "postal_code": "return_postal_code",
}
"""The parts of an address, and the fields in which they are typed."""
STREET_MISSING = "Give the street as well, or leave the whole address empty."
MISSING_MESSAGES = {
    "city": "Give the city too.",
    "province": "Give the state or province too.",
    "postal_code": "Give the ZIP or postal code too.",
}


@router.get(ACCOUNT_PATH)
def account_page(request: Request, user: CurrentOwner, container: Services) -> Response:
    with container.db.transaction(user.tenant) as tx:
        facts = read_account_profile(tx, user.here.account_id)
    form_values = {name: [value or ""] for name, value in asdict(facts).items()}
    return render_settings_page(request, "settings/account.html", user, container, form=FormState(form_values))


@router.post(ACCOUNT_PATH)
def change_account(request: Request, user: CurrentOwner, form: PostedForm, container: Services) -> Response:
    """What is left empty is cleared."""
    try:
        facts = _read_account_facts(form)
        with container.db.transaction(user.tenant) as tx:
            update_account_profile(tx, user.here.account_id, facts, user.actor, now=container.clock())
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="name")
        return render_settings_page(request, "settings/account.html", user, container, form=form_state)
    return redirect(ACCOUNT_PATH, flash="account_changed")


def _read_account_facts(form: Form) -> AccountProfile:
    """As it was typed. An address on one line is taken apart as a recipient's is."""
    values = {name: form.text(name) or None for name in ACCOUNT_FIELDS}
    address = {part: values[field] for part, field in RETURN_ADDRESS_FIELDS.items()}
    if address["address"] and not (address["city"] or address["postal_code"]):
        parsed, unparsed = check_recipient(address)
        if not unparsed:
            address = {part: getattr(parsed, part) for part in RETURN_ADDRESS_FIELDS}
    if any(address.values()) and (missing_parts := [part for part in RETURN_ADDRESS_PARTS if not address[part]]):
        raise Invalid(
            {RETURN_ADDRESS_FIELDS[part]: [MISSING_MESSAGES.get(part, STREET_MISSING)] for part in missing_parts}
        )
    address_fields = {RETURN_ADDRESS_FIELDS[part]: value for part, value in address.items()}
    other_fields = {name: values[name] for name in ACCOUNT_FIELDS if name not in ("name", *address_fields)}
    return AccountProfile(form.text("name"), **other_fields, **address_fields)


AUDIT_PATH = "/settings/audit"
PAGE_SIZE = 50


@router.get(AUDIT_PATH)
def audit_page(request: Request, user: CurrentOwner, container: Services, before: str | None = None) -> Response:
    with container.db.transaction(user.tenant) as tx:
        # One more than is shown tells whether there is an older page.
        entries = list_audit_entries(tx, user.here.account_id, before=_parse_cursor(before), limit=PAGE_SIZE + 1)
    return render_settings_page(
        request,
        "settings/audit.html",
        user,
        container,
        entries=entries[:PAGE_SIZE],
        older_cursor=entries[PAGE_SIZE - 1].id if len(entries) > PAGE_SIZE else None,
        is_first_page=_parse_cursor(before) is None,
        describe_entry=describe_entry,
        titles=sub_account_titles(user, container),
    )


@router.get(f"{AUDIT_PATH}.csv")
def audit_csv(user: CurrentOwner, container: Services) -> Response:
    return csv_response(generate_csv(_read_all_entries(container, user)), "audit.csv")


def _read_all_entries(container: Container, user: SignedInUser) -> Iterator[AuditEntry]:
    """The whole log, the newest first, read bit by bit: nobody waits for it in one transaction."""
    before: int | None = None
    while True:
        with container.db.transaction(user.tenant) as tx:
            entries = list_audit_entries(tx, user.here.account_id, before=before, limit=CSV_CHUNK_LINES)
        yield from entries
        if len(entries) < CSV_CHUNK_LINES:
            return
        before = entries[-1].id


def _parse_cursor(before: str | None) -> int | None:
    """Anything that is no line's number is as good as none: the page begins with the newest."""
    return parse_path_id(before or "") or None
