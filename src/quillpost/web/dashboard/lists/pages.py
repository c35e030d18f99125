"""Mailing lists, one list, and suppression."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.recipients import queries as recipient_queries
from quillpost.recipients import service as recipient_service
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_chunks, read_list, write_csv_file
from quillpost.recipients.models import TEXT_FIELDS, MailingList, Recipient
from quillpost.recipients.queries import RecipientSearchResult, search_list, searches_substrings
from quillpost.recipients.service import SuppressionCheck
from quillpost.web.api.mailing_lists.schemas import NewMailingList
from quillpost.web.api.recipients.schemas import PersonFields
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState, parse_page, read_body
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import download_headers, redirect
from quillpost.web.security import use_one_time_key

SOURCE_LABELS: Final[Mapping[str, str]] = {
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

SUPPRESS_BY_LABELS: Final[Mapping[str, str]] = {
    "address": "Everyone at the same address",
    "household": "The same family at the same address",
    "email": "Whoever has the same e-mail, wherever they live",
}

FIELD_LABELS: Final[Mapping[str, str]] = {
    "address": "Street address",
    "address2": "Apartment or suite",
    "province": "State or province",
    "postal_code": "ZIP or postal code",
    "email": "E-mail",
    "dob": "Date of birth",
    "full_address": "Whole address on one line",
}
"""Where the API's name is not what people say."""

STREET_COLUMN_MISSING: Final = (
    "No column is the street: nobody of these can be mailed to. Choose the column that is, or go on for their"
    " e-mail alone."
)
MAX_SEARCH_LENGTH = 300
MAX_CHOICES = 200


def render_list_page(
    context: RequestContext, template: str, *, form: FormState = EMPTY_FORM, **values: Any
) -> Response:
    return context.render(f"lists/{template}", form, source_labels=SOURCE_LABELS, **values)


def find_list(context: RequestContext, list_id: int) -> MailingList:
    with context.transaction() as tx:
        return read_list(tx, list_id)


def list_path(list_id: int, *, tab: str = "") -> str:
    return f"/lists/{list_id}{f'/{tab}' if tab else ''}"


def read_search_text(request: Request) -> str:
    """Without characters that the database cannot store."""
    text = request.query_params.get("query", "")[:MAX_SEARCH_LENGTH]
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def find_query_list(tx: Tx, request: Request) -> MailingList | None:
    """The list of `?list=`; `NotFound` if it is not the user's."""
    list_id = request.query_params.get("list", "").strip()
    return read_list(tx, parse_path_id(list_id)) if list_id else None


def list_choices(tx: Tx, chosen: str | None, *, is_suppression_list: bool | None = None) -> list[MailingList]:
    """The newest, and the one that a form has chosen."""
    newest = list_queries.read_list_page(tx, PageRequest(1, MAX_CHOICES), is_suppression_list=is_suppression_list).rows
    by_id = {each.id: each for each in newest} | list_queries.find_lists(tx, [parse_path_id(chosen or "")])
    return list(by_id.values())


def read_texts(form: Form, names: Sequence[str]) -> dict[str, str | None]:
    return {name: form.text(name) or None for name in names}


def field_label(field: str) -> str:
    label = field.replace("_", " ")
    if label.startswith("custom"):
        label = f"custom {label.removeprefix('custom').strip()}"
    return FIELD_LABELS.get(field) or label[:1].upper() + label[1:]


def reason_label(reason: str) -> str:
    """With the field's label."""
    field, separator, explanation = reason.partition(": ")
    return (
        f"{field_label(field)}: {explanation}"
        if separator and field in (*TEXT_FIELDS, "dob", "anniversary")
        else reason
    )


router = APIRouter(include_in_schema=False)

LISTS_PATH = "/lists"
LISTS_PER_PAGE = 25


@router.get(LISTS_PATH)
def lists_page(context: UserContext) -> Response:
    """Suppression lists have their own page."""
    search_text = read_search_text(context.request)
    page_request = parse_page(context.request.query_params.get("page", ""), per_page=LISTS_PER_PAGE)
    with context.transaction() as tx:
        page = list_queries.read_list_page(tx, page_request, description=search_text, is_suppression_list=False)
        suppression_list_count = list_queries.read_list_page(tx, PageRequest(1, 1), is_suppression_list=True).total
        titles = context.sub_account_titles(tx)
    return render_list_page(
        context,
        "index.html",
        page=page,
        search_text=search_text,
        suppression_list_count=suppression_list_count,
        titles=titles,
    )


@router.get(f"{LISTS_PATH}/new")
def new_list_page(context: UserContext) -> Response:
    is_suppression = context.request.query_params.get("suppression") is not None
    defaults = {"suppress_by": ["address"]} | ({"is_suppression_list": ["on"]} if is_suppression else {})
    return _render_form(context, FormState(defaults))


@router.post(f"{LISTS_PATH}/new")
def create_list(context: UserContext, form: PostedForm) -> Response:
    try:
        with context.transaction() as tx:
            use_one_time_key(tx, context.user, form.one_time_key, hint="Your list is there.", result_path=LISTS_PATH)
            body = read_body(NewMailingList, read_list_fields(form))
            mailing_list = list_service.create_list(
                tx, context.user.caller, context.container.encryptor, body.columns(context.container), now=context.now()
            )
    except (Invalid, Refused) as error:
        return _render_form(context, FormState.from_error(form, error, default_field="description"))
    return redirect(list_path(mailing_list.id), flash="list_made")


def read_list_fields(form: Form) -> Mapping[str, Any]:
    """In the API's names."""
    is_suppression = bool(form.text("is_suppression_list"))
    fields: dict[str, Any] = {
        "description": form.text("description"),
        "qrcode_url": form.text("qrcode_url", max_length=3_000) or None,
        "is_suppression_list": is_suppression,
    }
    if is_suppression:
        fields["suppress_by"] = form.text("suppress_by") or None
    if "sub_account_id" in form.fields:
        fields["sub_account_id"] = form.number("sub_account_id")
    return fields


def _render_form(context: RequestContext, form: FormState) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
    return render_list_page(context, "new.html", form=form, titles=titles, suppress_by_labels=SUPPRESS_BY_LABELS)


SUPPRESSION_PATH = "/lists/suppression"
MAX_COUNTED = 10_001
LOOKUP_FIELDS = ("name", "address", "email")


@router.get(SUPPRESSION_PATH)
def suppression_page(context: UserContext) -> Response:
    return _render_suppression_page(context, EMPTY_FORM)


@router.post(SUPPRESSION_PATH)
def look_up_suppression(context: UserContext, form: PostedForm) -> Response:
    """A form although nothing changes: personal data belongs in no URL."""
    try:
        row = read_body(PersonFields, read_texts(form, LOOKUP_FIELDS)).person_fields()
        with context.transaction() as tx:
            lookup = recipient_service.check_suppression(tx, context.user.caller, row)
    except Invalid as error:
        return _render_suppression_page(context, FormState(form.fields, error.fields).regroup(LOOKUP_FIELDS, "address"))
    return _render_suppression_page(context, FormState(form.fields), lookup)


def _render_suppression_page(
    context: RequestContext, form: FormState, lookup: SuppressionCheck | None = None
) -> Response:
    with context.transaction() as tx:
        page = list_queries.read_list_page(
            tx,
            parse_page(context.request.query_params.get("page", ""), per_page=LISTS_PER_PAGE),
            is_suppression_list=True,
        )
        erased_count = recipient_service.count_erased_suppressions(tx, limit=MAX_COUNTED)
    return render_list_page(
        context,
        "suppression.html",
        form=form,
        page=page,
        erased_count=erased_count,
        max_counted=MAX_COUNTED,
        suppress_by_labels=SUPPRESS_BY_LABELS,
        lookup=lookup,
    )


PEOPLE_PER_PAGE = 50
MAX_PAGE_OFFSET = 50_000  # from the nearer end of a list: skipping rows takes time
MAX_IMPORTS_SHOWN = 50


@router.get("/lists/{list_id}")
def people_page(context: UserContext, list_id: PathId) -> Response:
    search_text = read_search_text(context.request)
    page_request = parse_page(context.request.query_params.get("page", ""), per_page=PEOPLE_PER_PAGE)
    with context.transaction() as tx:
        mailing_list = list_queries.read_list(tx, list_id)
        page: Page[Recipient] = Page([], mailing_list.total_recipients, page_request)
        is_too_deep = page_request.window(page.total).offset > MAX_PAGE_OFFSET
        if search_text:
            result = search_list(context.container.db, tx, mailing_list, search_text)
        else:
            page = page if is_too_deep else recipient_queries.read_list_page(tx, mailing_list, page_request)
            result = RecipientSearchResult(page.rows, is_truncated=False)
    return render_list_page(
        context,
        "people.html",
        mailing_list=mailing_list,
        tab="people",
        people=result.recipients,
        page=page,
        search_text=search_text,
        is_truncated=result.is_truncated,
        is_too_deep=is_too_deep,
        searches_substrings=searches_substrings(mailing_list),
    )


@router.get("/lists/{list_id}/imports")
def imports_page(context: UserContext, list_id: PathId) -> Response:
    with context.transaction() as tx:
        mailing_list = list_queries.read_list(tx, list_id)
        imports = import_queries.list_recent_imports(tx, mailing_list.id, limit=MAX_IMPORTS_SHOWN)
    return render_list_page(context, "imports.html", mailing_list=mailing_list, tab="imports", imports=imports)


@router.get("/lists/{list_id}/export.csv")
def export_list(context: UserContext, list_id: PathId) -> Response:
    """The API's file; the audit log says who exported it."""
    with context.transaction() as tx:
        mailing_list = list_queries.read_list(tx, list_id)
        context.audit(
            tx,
            "list.exported",
            {"name": mailing_list.description, "id": mailing_list.id},
            sub_account_id=mailing_list.sub_account_id,
        )
        exported_file = write_csv_file(tx, mailing_list.id)
    headers = download_headers(f"mailing-list-{mailing_list.id}.csv")
    return StreamingResponse(read_chunks(exported_file), media_type="text/csv", headers=headers)
