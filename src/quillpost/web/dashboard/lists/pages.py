"""Mailing lists, one list, and suppression."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.recipients import queries as recipient_queries
from quillpost.recipients import suppression
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.export import chunks, csv_file
from quillpost.recipients.lists.queries import MailingList, read_list
from quillpost.recipients.queries import Recipient
from quillpost.recipients.rules import TEXTS
from quillpost.recipients.search import Found, looks_everywhere, search
from quillpost.recipients.suppression import Answer
from quillpost.web import csrf
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.mailing_lists.endpoints import NewMailingList, deliverability_of
from quillpost.web.api.recipients.schemas import PersonFields
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import EMPTY, Filled, read_body, show_form
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

KINDS: Final[Mapping[str, str]] = {
    "csv": "From a file",
    "manual": "By hand",
    "map": "Bought around an address",
    "radius": "Bought around an address",
    "friends": "Friends",
    "retarget": "Retargeting",
    "leads": "Leads",
    "automation": "By an automation",
    "crm": "From a CRM",
    "qrscans": "Scanned a code",
}
"""Where the people of a list come from."""

BARS_BY: Final[Mapping[str, str]] = {
    "address": "Everyone at the same address",
    "household": "The same family at the same address",
    "email": "Whoever has the same e-mail, wherever they live",
}
"""Whom an entry of a suppression list keeps from being mailed to."""

FIELD_TITLES: Final[Mapping[str, str]] = {
    "address": "Street address",
    "address2": "Apartment or suite",
    "province": "State or province",
    "postal_code": "ZIP or postal code",
    "email": "E-mail",
    "dob": "Date of birth",
    "full_address": "Whole address on one line",
}
"""Of a person, where the API's word is not what people say."""

NO_STREET: Final = (
    "No column is the street: nobody of these can be mailed to. Choose the column that is, or go on for their"
    " e-mail alone."
)
LONGEST_SOUGHT = 300


def list_view(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    **values: Any,
) -> Response:
    return show_form(request, f"lists/{template}", who, form, now=parts.clock(), kinds=KINDS, **values)


def known_list(parts: Parts, who: SignedIn, list_id: str) -> MailingList:
    """The list that a path names, or `NotFound`."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return read_list(tx, id_in_path(list_id))


def page_of(list_id: int, *, tab: str = "") -> str:
    return f"/lists/{list_id}{f'/{tab}' if tab else ''}"


def sought_in(request: Request) -> str:
    """What is looked for, as the query says it; no letter that the database could not hold."""
    given = request.query_params.get("query", "")[:LONGEST_SOUGHT]
    return " ".join("".join(sign if sign.isprintable() else " " for sign in given).split())


def list_asked(tx: Tx, request: Request) -> MailingList | None:
    """The list of `?list=`; `NotFound` where it is nobody's, or another's."""
    given = request.query_params.get("list", "").strip()
    return read_list(tx, id_in_path(given)) if given else None


def sub_accounts_of(tx: Tx, who: SignedIn) -> Mapping[int, str]:
    """Those among which the reader may choose: none for whoever is limited to one."""
    return {} if who.here.sub_account_id is not None else titles_of(list_sub_accounts(tx))


def texts_of(form: Form, names: Sequence[str]) -> dict[str, str | None]:
    """The fields of these names; what is empty is none."""
    return {name: form.text(name) or None for name in names}


def field_title(field: str) -> str:
    """A field of a person as its form calls it."""
    words = field.replace("_", " ")
    if words.startswith("custom"):
        words = f"custom {words.removeprefix('custom').strip()}"
    return FIELD_TITLES.get(field) or words[:1].upper() + words[1:]


def reason_in_words(reason: str) -> str:
    """Why a row was not taken, its field called as people call it."""
    field, parted, why = reason.partition(": ")
    return f"{field_title(field)}: {why}" if parted and field in (*TEXTS, "dob", "anniversary") else reason


router = APIRouter(include_in_schema=False)

PAGE = "/lists"
PER_PAGE = 25


@router.get(PAGE)
def lists_page(request: Request, who: Reader, parts: OurParts) -> Response:
    """Suppression lists have a page of their own: nobody writes to those."""
    sought = sought_in(request)
    asked = asked_page(request.query_params.get("page", ""), per_page=PER_PAGE)
    with parts.db.transaction(tenant(who.caller)) as tx:
        page = list_queries.list_page(tx, asked, description=sought, bars=False)
        barring = list_queries.list_page(tx, PageRequest(1, 1), bars=True).total
        titles = sub_accounts_of(tx, who)
    return list_view(
        request, "index.html", who, parts, page=page, sought=sought, barring=barring, titles=titles
    )


@router.get(f"{PAGE}/new")
def new_page(request: Request, who: Reader, parts: OurParts) -> Response:
    bars = request.query_params.get("suppression") is not None
    usual = {"suppress_by": ["address"]} | ({"is_suppression_list": ["on"]} if bars else {})
    return _form_page(request, who, parts, Filled(usual))


@router.post(f"{PAGE}/new")
def create(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(tx, who, form.text(csrf.FIELD), instead="Your list is there.", leads_to=PAGE)
            body = read_body(NewMailingList, list_fields(form))
            made = list_service.make_list(
                tx, who.caller, parts.sealer, body.columns(parts), now=parts.clock()
            )
    except (Invalid, Refused) as refused:
        return _form_page(request, who, parts, Filled.back(form, refused, at="description"))
    return go(page_of(made.id), said="list_made")


def list_fields(form: Form) -> Mapping[str, Any]:
    """A list as its form says it, in the words of the API."""
    bars = bool(form.text("is_suppression_list"))
    said: dict[str, Any] = {
        "description": form.text("description"),
        "qrcode_url": form.text("qrcode_url", most=3_000) or None,
        "is_suppression_list": bars,
    }
    if bars:
        said["suppress_by"] = form.text("suppress_by") or None
    if "sub_account_id" in form.fields:
        said["sub_account_id"] = form.number("sub_account_id")
    return said


def _form_page(request: Request, who: SignedIn, parts: Parts, form: Filled) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        titles = sub_accounts_of(tx, who)
    return list_view(request, "new.html", who, parts, form=form, titles=titles, bars_by=BARS_BY)


SUPPRESSION_PAGE = "/lists/suppression"
MOST_COUNTED = 10_001
ASKED = ("name", "address", "email")


@router.get(SUPPRESSION_PAGE)
def suppression_page(request: Request, who: Reader, parts: OurParts) -> Response:
    return _page(request, who, parts, EMPTY)


@router.post(SUPPRESSION_PAGE)
def look_up(request: Request, who: Reader, form: PostedForm, parts: OurParts) -> Response:
    """Whether mail to somebody is held back. A form, though nothing changes: whom one asks for stands in no
    URL."""
    try:
        row = read_body(PersonFields, texts_of(form, ASKED)).person()
        with parts.db.transaction(tenant(who.caller)) as tx:
            answer = suppression.ask(tx, who.caller, row)
    except Invalid as refused:
        loose = [told for name, several in refused.fields.items() if name not in ASKED for told in several]
        faults = {name: told for name, told in refused.fields.items() if name in ASKED}
        if loose:
            faults["address"] = [*faults.get("address", ()), *loose]
        return _page(request, who, parts, Filled(form.fields, faults))
    return _page(request, who, parts, Filled(form.fields), answer)


def _page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, answer: Answer | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        page = list_queries.list_page(
            tx, asked_page(request.query_params.get("page", ""), per_page=PER_PAGE), bars=True
        )
        forgotten = suppression.forgotten(tx, most=MOST_COUNTED)
    return list_view(
        request,
        "suppression.html",
        who,
        parts,
        form=form,
        page=page,
        forgotten=forgotten,
        most_counted=MOST_COUNTED,
        bars_by=BARS_BY,
        answer=answer,
    )


PEOPLE_A_PAGE = 50
DEEPEST = 50_000
"""How far from the nearer end of a list one leafs: skipping takes time, and nobody finds somebody so."""
IMPORTS_SHOWN = 50


@router.get("/lists/{list_id}")
def people_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    """Everyone in the order in which they came, or those who are looked for."""
    sought = sought_in(request)
    asked = asked_page(request.query_params.get("page", ""), per_page=PEOPLE_A_PAGE)
    with parts.db.transaction(tenant(who.caller)) as tx:
        mailing_list = list_queries.read_list(tx, id_in_path(list_id))
        page: Page[Recipient] = Page([], mailing_list.total_recipients, asked)
        is_deep = asked.window(page.total).skip > DEEPEST
        if sought:
            shown = search(parts.db, tx, mailing_list, sought)
        else:
            page = page if is_deep else recipient_queries.list_recipients(tx, mailing_list, asked)
            shown = Found(page.rows, is_cut=False)
    return list_view(
        request,
        "people.html",
        who,
        parts,
        list=mailing_list,
        tab="people",
        people=[(one, deliverability_of(one.person)) for one in shown.people],
        page=page,
        sought=sought,
        is_cut=shown.is_cut,
        is_deep=is_deep,
        looks_everywhere=looks_everywhere(mailing_list),
    )


@router.get("/lists/{list_id}/imports")
def imports_page(request: Request, list_id: str, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        mailing_list = list_queries.read_list(tx, id_in_path(list_id))
        imports = import_queries.recent_imports(tx, mailing_list.id, most=IMPORTS_SHOWN)
    return list_view(request, "imports.html", who, parts, list=mailing_list, tab="imports", imports=imports)


@router.get("/lists/{list_id}/export.csv")
def export(list_id: str, who: Reader, parts: OurParts) -> Response:
    """The file that the API gives; who took it along is noted with it."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = list_queries.read_list(tx, id_in_path(list_id))
        audit_service.note(
            tx,
            who.here.account_id,
            "list.exported",
            who.actor,
            about={"name": found.description, "id": found.id},
            sub_account_id=found.sub_account_id,
            now=parts.clock(),
        )
        file = csv_file(tx, found.id)
    named = f'attachment; filename="mailing-list-{found.id}.csv"'
    headers = {"Content-Disposition": named, "Cache-Control": "no-store"}
    return StreamingResponse(chunks(file), media_type="text/csv", headers=headers)
