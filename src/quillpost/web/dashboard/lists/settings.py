"""What a list is: its settings, its key, merging it, removing doubles, and its end."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import MailingList
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.mailing_lists.endpoints import ChangedMailingList, Merge
from quillpost.web.dashboard.forms import EMPTY, Filled, are_you_sure, read_body
from quillpost.web.dashboard.lists.pages import (
    BARS_BY,
    PAGE,
    known_list,
    list_fields,
    list_view,
    page_of,
    sub_accounts_of,
)
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

OFFERED = 100
"""Lists among which one chooses the one that takes everybody in."""
FIXED = ("is_suppression_list", "suppress_by", "sub_account_id")
"""What a list that the service keeps has once and for all; its form does not ask for it."""


@router.get("/lists/{list_id}/settings")
def settings(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    return _settings_page(request, who, parts, known, _as_it_is(known))


@router.post("/lists/{list_id}/settings")
def change(request: Request, list_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    try:
        body = read_body(ChangedMailingList, _changes(form, known))
        with parts.db.transaction(tenant(who.caller)) as tx:
            list_service.change_list(tx, who.caller, known.id, body.columns(parts), now=parts.clock())
    except (Invalid, Refused) as refused:
        return _settings_page(request, who, parts, known, Filled.back(form, refused, at="description"))
    return go(page_of(known.id, tab="settings"), said="list_changed")


@router.get("/lists/{list_id}/merge")
def merge_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    return _merge_page(request, who, parts, known_list(parts, who, list_id), EMPTY)


@router.post("/lists/{list_id}/merge")
def merge(request: Request, list_id: str, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    try:
        body = read_body(Merge, {"into": form.number("into")})
        with parts.db.transaction(tenant(who.caller)) as tx:
            into = list_service.merge_lists(tx, known.id, body.into, clock=parts.clock)
    except (Invalid, Refused) as refused:
        return _merge_page(request, who, parts, known, Filled.back(form, refused, at="into"))
    return go(page_of(into.id), said="list_merged")


@router.get("/lists/{list_id}/dedupe")
def dedupe_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    means = [
        "An address is on a list once anyway. This looks at those of whom only an e-mail is known.",
        "Of each e-mail the oldest entry stays.",
    ]
    if not known.is_suppression_list:
        means.append("And none does where somebody of the same name and e-mail is here with an address.")
    return are_you_sure(
        request,
        who,
        title=f"Remove doubles from “{known.description}”?",
        means=means,
        button="Remove doubles",
        back=page_of(known.id, tab="settings"),
    )


@router.post("/lists/{list_id}/dedupe")
def dedupe(list_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    with parts.db.transaction(tenant(who.caller)) as tx:
        removed = list_service.drop_doubles(tx, known.id)
    return go(page_of(known.id), said="doubles_removed" if removed else "no_doubles")


@router.get("/lists/{list_id}/key")
def key_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    return are_you_sure(
        request,
        who,
        title=f"A new key for “{known.description}”?",
        means=[
            "The old key, and the address with it, stop at once.",
            "Whatever puts people on this list by it, such as a form of your website, needs the new one.",
        ],
        button="Make a new key",
        back=page_of(known.id, tab="settings"),
    )


@router.post("/lists/{list_id}/key")
def new_key(list_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        changed = list_service.rotate_key(tx, parts.sealer, id_in_path(list_id), now=parts.clock())
        audit_service.note(
            tx,
            who.here.account_id,
            "list.key",
            who.actor,
            about={"name": changed.description, "id": changed.id},
            sub_account_id=changed.sub_account_id,
            now=parts.clock(),
        )
    return go(page_of(changed.id, tab="settings"), said="list_key_made")


@router.get("/lists/{list_id}/delete")
def delete_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    return _delete_page(request, who, known_list(parts, who, list_id))


@router.post("/lists/{list_id}/delete")
def delete(request: Request, list_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    known = known_list(parts, who, list_id)
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            list_service.end_list(tx, known.id)
    except Refused as refused:
        return _delete_page(request, who, known, refused=refused.message)
    return go(f"{PAGE}/suppression" if known.is_suppression_list else PAGE, said="list_deleted")


def _delete_page(
    request: Request, who: SignedIn, known: MailingList, *, refused: str | None = None
) -> Response:
    means = ["Subscriptions to its events end with it, and its key stops.", "Mail that was sent goes on."]
    if known.total_recipients:
        how_many = "one person" if known.total_recipients == 1 else f"{known.total_recipients:,} people"
        means.insert(0, f"The {how_many} on it are deleted with it. Export it first if you may need them.")
    if known.is_suppression_list:
        means.append("Whoever is on it may be mailed to from then on.")
    means.append("It cannot be deleted while an order waits for it, or an automation on it is switched on.")
    return are_you_sure(
        request,
        who,
        title=f"Delete “{known.description}”?",
        means=means,
        button="Delete the list",
        back=page_of(known.id, tab="settings"),
        refused=refused,
    )


def _as_it_is(known: MailingList) -> Filled:
    typed = {
        "description": [known.description],
        "qrcode_url": [known.qrcode_url or ""],
        "is_suppression_list": ["on"] if known.is_suppression_list else [],
        "suppress_by": [known.suppress_by],
        "sub_account_id": ["" if known.sub_account_id is None else str(known.sub_account_id)],
    }
    return Filled(typed)


def _changes(form: Form, known: MailingList) -> Mapping[str, Any]:
    said = list_fields(form)
    return said if known.kept_for is None else {name: said[name] for name in said if name not in FIXED}


def _settings_page(
    request: Request, who: SignedIn, parts: Parts, known: MailingList, form: Filled
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = sub_accounts_of(tx, who)
    key = list_service.key_of(parts.sealer, known)
    return list_view(
        request,
        "settings.html",
        who,
        parts,
        form=form,
        list=known,
        tab="settings",
        titles=titles,
        bars_by=BARS_BY,
        hook=f"{parts.base_url}/hooks/lists/{key}" if key else None,
        key=key,
    )


def _merge_page(request: Request, who: SignedIn, parts: Parts, known: MailingList, form: Filled) -> Response:
    """The newest lists of the same kind are offered."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        page = list_queries.list_page(tx, PageRequest(1, OFFERED + 1), bars=known.is_suppression_list)
    others = [each for each in page.rows if each.id != known.id and not each.keeps_requests]
    return list_view(
        request, "merge.html", who, parts, form=form, list=known, others=others[:OFFERED], total=page.total
    )
