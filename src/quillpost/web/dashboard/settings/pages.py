"""Account settings, the audit log, and API tokens."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Final

from fastapi import APIRouter, Response

from quillpost.accounts.audit.labels import describe_entry, generate_csv
from quillpost.accounts.audit.service import AuditEntry, list_audit_entries
from quillpost.accounts.queries import AccountProfile, read_account_profile
from quillpost.accounts.service import update_account_profile
from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.rules import SCOPE_LABELS, format_scopes
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.recipients.rules import check_recipient
from quillpost.web.api.send.requests import REQUIRED_ADDRESS_PARTS
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import (
    CSV_CHUNK_LINES,
    ConfirmedOwnerContext,
    OwnerContext,
    PathId,
    RequestContext,
    csv_response,
)
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

SCOPES_AMBIGUOUS = "You chose everything, but had ticked some as well: choose again."
SCOPES_MISSING = "Choose everything, or some of it."


def sub_account_titles(context: RequestContext) -> Mapping[int, str]:
    with context.account_transaction() as tx:
        return label_sub_accounts(list_sub_accounts(tx))


def read_scopes(form: Form) -> list[str] | None:
    """None: everything. Choosing that and ticking some as well is an error."""
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
STREET_MISSING = "Give the street as well, or leave the whole address empty."
MISSING_MESSAGES = {
    "city": "Give the city too.",
    "province": "Give the state or province too.",
    "postal_code": "Give the ZIP or postal code too.",
}


@router.get(ACCOUNT_PATH)
def account_page(context: OwnerContext) -> Response:
    with context.account_transaction() as tx:
        facts = read_account_profile(tx, context.account_id)
    form_values = {name: [value or ""] for name, value in asdict(facts).items()}
    return context.render("settings/account.html", form=FormState(form_values))


@router.post(ACCOUNT_PATH)
def change_account(context: OwnerContext, form: PostedForm) -> Response:
    """Empty fields are cleared."""
    try:
        facts = _read_account_facts(form)
        with context.account_transaction() as tx:
            update_account_profile(tx, context.account_id, facts, context.user.actor, now=context.now())
    except Invalid as error:
        form_state = FormState.from_error(form, error, default_field="name")
        return context.render("settings/account.html", form=form_state)
    return redirect(ACCOUNT_PATH, flash="account_changed")


def _read_account_facts(form: Form) -> AccountProfile:
    """An address on one line is parsed like a recipient's."""
    values = {name: form.text(name) or None for name in ACCOUNT_FIELDS}
    address = {part: values[field] for part, field in RETURN_ADDRESS_FIELDS.items()}
    if address["address"] and not (address["city"] or address["postal_code"]):
        parsed, unparsed = check_recipient(address)
        if not unparsed:
            address = {part: getattr(parsed, part) for part in RETURN_ADDRESS_FIELDS}
    if any(address.values()) and (missing_parts := [part for part in REQUIRED_ADDRESS_PARTS if not address[part]]):
        raise Invalid(
            {RETURN_ADDRESS_FIELDS[part]: [MISSING_MESSAGES.get(part, STREET_MISSING)] for part in missing_parts}
        )
    address_fields = {RETURN_ADDRESS_FIELDS[part]: value for part, value in address.items()}
    other_fields = {name: values[name] for name in ACCOUNT_FIELDS if name not in ("name", *address_fields)}
    return AccountProfile(form.text("name"), **other_fields, **address_fields)


AUDIT_PATH = "/settings/audit"
PAGE_SIZE = 50


@router.get(AUDIT_PATH)
def audit_page(context: OwnerContext, before: str | None = None) -> Response:
    with context.account_transaction() as tx:
        # One more than is shown tells whether there is an older page.
        entries = list_audit_entries(tx, context.account_id, before=_parse_cursor(before), limit=PAGE_SIZE + 1)
    return context.render(
        "settings/audit.html",
        entries=entries[:PAGE_SIZE],
        older_cursor=entries[PAGE_SIZE - 1].id if len(entries) > PAGE_SIZE else None,
        is_first_page=_parse_cursor(before) is None,
        describe_entry=describe_entry,
        titles=sub_account_titles(context),
    )


@router.get(f"{AUDIT_PATH}.csv")
def audit_csv(context: OwnerContext) -> Response:
    return csv_response(generate_csv(_read_all_entries(context)), "audit.csv")


def _read_all_entries(context: RequestContext) -> Iterator[AuditEntry]:
    """In chunks, so that no transaction stays open for long."""
    before: int | None = None
    while True:
        with context.account_transaction() as tx:
            entries = list_audit_entries(tx, context.account_id, before=before, limit=CSV_CHUNK_LINES)
        yield from entries
        if len(entries) < CSV_CHUNK_LINES:
            return
        before = entries[-1].id


def _parse_cursor(before: str | None) -> int | None:
    return parse_path_id(before or "") or None


TOKENS_PATH = "/settings/tokens"
LIFETIME_LABELS: Final[Mapping[str, str]] = {
    "never": "Until it is revoked",
    "30": "30 days",
    "90": "90 days",
    "365": "One year",
}  # in days
TOKEN_SHOWN_ONCE = "The token is not shown again: if you have not kept it, revoke it and make another."


@router.get(TOKENS_PATH)
def tokens_page(context: OwnerContext) -> Response:
    with context.account_transaction() as tx:
        tokens = token_service.list_tokens(tx, context.account_id)
    return context.render("settings/tokens.html", tokens=tokens, format_scopes=format_scopes)


@router.get(f"{TOKENS_PATH}/new")
def new_token_page(context: ConfirmedOwnerContext) -> Response:
    defaults = {"mode": [context.user.mode], "limits": ["all"], "lasts": ["never"]}
    return _render_token_form(context, FormState(defaults))


@router.post(f"{TOKENS_PATH}/new")
def create_token(context: ConfirmedOwnerContext, form: PostedForm) -> Response:
    """Only this response ever shows the token."""
    try:
        with context.account_transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint=TOKEN_SHOWN_ONCE, result_path=TOKENS_PATH)
            token = _create_from_form(tx, context.user, form, now=context.now())
    except Invalid as error:
        return _render_token_form(context, FormState.from_error(form, error, default_field="name"))
    header, url = shlex.quote(f"Authorization: Bearer {token}"), f"{context.container.base_url}/api/v2/ping"
    return context.render(
        "settings/token_created.html",
        token=token,
        name=form.text("name"),
        mode=form.text("mode"),
        curl_command=f"curl -H {header} \\\n  {url}",
    )


@router.get(f"{TOKENS_PATH}/{{token_id}}/revoke")
def revoke_page(context: OwnerContext, token_id: PathId) -> Response:
    with context.account_transaction() as tx:
        if token_service.is_revoked(tx, context.account_id, token_id):
            return redirect(TOKENS_PATH, flash="token_gone")
        token = token_service.find_token(tx, context.account_id, token_id)
    token_label = f"the {token.mode} token" + (f" that ends in {token.hint}" if token.hint else "")
    usage_note = "It was never used." if token.last_used_at is None else "Whatever uses it is not let in any more."
    return context.confirm(
        title=f"Revoke “{token.name}”?",
        consequences=[f"From the next call on, {token_label} is unknown.", usage_note],
        button_label="Revoke it",
        back_url=TOKENS_PATH,
    )


@router.post(f"{TOKENS_PATH}/{{token_id}}/revoke")
def revoke_token(context: OwnerContext, token_id: PathId, _form: PostedForm) -> Response:
    with context.account_transaction() as tx:
        if token_service.is_revoked(tx, context.account_id, token_id):
            return redirect(TOKENS_PATH, flash="token_gone")
        token_service.revoke_token(tx, context.account_id, token_id, context.user.actor, now=context.now())
    return redirect(TOKENS_PATH, flash="token_revoked")


def _render_token_form(context: RequestContext, form: FormState) -> Response:
    titles = sub_account_titles(context)
    return context.render(
        "settings/token_form.html", form=form, scope_labels=SCOPE_LABELS, lifetime_labels=LIFETIME_LABELS, titles=titles
    )


def _create_from_form(tx: Tx, user: SignedInUser, form: Form, *, now: datetime) -> str:
    return token_service.create_token(
        tx,
        user.here.account_id,
        name=form.text("name"),
        mode=form.text("mode"),
        scopes=read_scopes(form),
        sub_account_id=form.number("sub_account_id"),
        expires_at=_read_expiry(form, now),
        actor=user.actor,
        now=now,
    )


def _read_expiry(form: Form, now: datetime) -> datetime | None:
    lifetime = form.text("lasts")
    if lifetime not in LIFETIME_LABELS:
        raise Invalid({"expires_at": ["Choose how long it is good for."]})
    return None if lifetime == "never" else now + timedelta(days=int(lifetime))
