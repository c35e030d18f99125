"""Imports: a file or a pasted table on its way into a list."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports.models import IGNORED_FIELD, IMPORT_FIELDS
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rules import build_warnings, has_street_column, require_address_or_email
from quillpost.recipients.imports.service import InspectedImport
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list
from quillpost.recipients.models import MailingList
from quillpost.web import rendering
from quillpost.web.api.mailing_lists.schemas import NewMailingList
from quillpost.web.dashboard.forms import FormState, read_body
from quillpost.web.dashboard.lists.pages import (
    STREET_COLUMN_MISSING,
    field_label,
    find_query_list,
    list_choices,
    list_path,
    reason_label,
    render_list_page,
)
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dependencies import parse_path_id
from quillpost.web.forms import Form, PostedForm, PostedLargeForm
from quillpost.web.live_updates import stream_response
from quillpost.web.rendering import download_headers, redirect
from quillpost.web.security import get_zone, use_one_time_key

router = APIRouter(include_in_schema=False)

MAX_REJECTS_SHOWN = 100
IMPORT_PATH = "/lists/imports/{import_id}"


@router.get("/lists/import")
def import_page(context: UserContext) -> Response:
    """The page calls the API with a token of the user's session, so that a large file shows its progress."""
    with context.transaction() as tx:
        mailing_list = find_query_list(tx, context.request)
    return render_list_page(context, "import.html", mailing_list=mailing_list, no_street_message=STREET_COLUMN_MISSING)


@router.get(IMPORT_PATH)
def single_import_page(context: UserContext, import_id: PathId) -> Response:
    list_import, mailing_list = _find_import(context, import_id)
    return render_list_page(
        context,
        "import_details.html",
        mailing_list=mailing_list,
        **_import_context(context.container, list_import, mailing_list),
    )


@router.get(f"{IMPORT_PATH}/live")
def stream_import(context: UserContext, import_id: PathId) -> Response:
    _find_import(context, import_id)
    zone = get_zone(context.request)

    def draw() -> Mapping[str, str]:
        list_import, mailing_list = _find_import(context, import_id)
        values = _import_context(context.container, list_import, mailing_list)
        html = rendering.render_template(
            "lists/import_state.html", zone=zone, now=context.now(), mailing_list=mailing_list, **values
        )
        return {"state": html} | ({"over": list_import.status} if list_import.is_finished else {})

    return stream_response(context.request, context.user, ("import", import_id), draw)


@router.get(f"{IMPORT_PATH}/rejected.csv")
def download_rejected(context: UserContext, import_id: PathId) -> Response:
    list_import, _ = _find_import(context, import_id)
    chunks = import_service.stream_rejected_rows(context.container.db, context.container.storage.store, list_import)
    headers = download_headers(f"import-{list_import.id}-rejected.csv")
    return StreamingResponse(chunks, media_type="text/csv", headers=headers)


@router.get(f"{IMPORT_PATH}/cancel")
def cancel_page(context: UserContext, import_id: PathId) -> Response:
    list_import, mailing_list = _find_import(context, import_id)
    if list_import.is_finished:
        return redirect(_import_path(list_import))
    return context.confirm(
        title=f"Stop importing “{list_import.file_name}”?",
        consequences=[
            f"Nobody of the file comes onto “{mailing_list.description}”.",
            "You can import it again at any time.",
        ],
        button_label="Stop the import",
        back_url=_import_path(list_import),
    )


@router.post(f"{IMPORT_PATH}/cancel")
def cancel_import(context: UserContext, import_id: PathId, _form: PostedForm) -> Response:
    list_import, _ = _find_import(context, import_id)
    try:
        with context.transaction() as tx:
            import_service.cancel_import(tx, list_import.id, clock=context.container.clock)
    except Conflict:  # it was over first: its page says how it went
        return redirect(_import_path(list_import), flash="import_over")
    return redirect(_import_path(list_import), flash="import_stopped")


def _find_import(context: RequestContext, import_id: int) -> tuple[Import, MailingList]:
    with context.transaction() as tx:
        list_import = import_queries.read_import(tx, import_id)
        return list_import, read_list(tx, list_import.mailing_list_id)


def _import_context(container: Container, list_import: Import, mailing_list: MailingList) -> dict[str, Any]:
    rejects = []
    if list_import.status == "done" and list_import.rows_rejected:
        with container.db.system_transaction() as tx:
            rejects = import_queries.list_rejects(tx, list_import.id, limit=MAX_REJECTS_SHOWN)
    return {
        "list_import": list_import,
        "rejected_rows": rejects,
        "warnings": build_warnings(list_import.columns),
        "has_street_column": has_street_column(list_import.columns) or mailing_list.is_suppression_list,
        "has_report": bool(rejects) and list_import.file_key is not None,
        "list_url": list_path(mailing_list.id),
        "field_label": field_label,
        "reason_label": reason_label,
    }


def _import_path(list_import: Import) -> str:
    return f"/lists/imports/{list_import.id}"


PASTE_PATH = "/lists/paste"
MAX_PASTE_LENGTH = 2_500_000
SAMPLE_ROWS = 5
COLUMN_PREFIX = "column-"
PASTED_FILE_NAME = "pasted.csv"
ROWS_MISSING = "Paste some rows first."
DUPLICATE_COLUMN = "Another column is “{}” already."
STREET_MISSING = "Choose which column is the street, or at least the e-mail."


@router.get(PASTE_PATH)
def paste_page(context: UserContext) -> Response:
    with context.transaction() as tx:
        mailing_list = find_query_list(tx, context.request)
    return _render_paste_page(context, FormState({} if mailing_list is None else {"list": [str(mailing_list.id)]}))


@router.post(PASTE_PATH)
def import_pasted(context: UserContext, form: PostedLargeForm) -> Response:
    """The first time shows what the columns seem to be; the second imports."""
    try:
        inspection = _inspect_paste(form)
        if form.text("step") != "import":
            return _render_paste_page(context, FormState(form.fields), inspection)
        list_import = _start_import(context, form, inspection)
    except (Invalid, Refused) as error:
        form_state = FormState.from_error(form, error, default_field="rows")
        return _render_paste_page(
            context, FormState(form_state.fields, _to_form_errors(form_state.errors)), _try_inspect_paste(form)
        )
    return redirect(f"/lists/imports/{list_import.id}")


def _inspect_paste(form: Form, *, uses_choices: bool = True) -> InspectedImport:
    rows = form.text("rows", max_length=MAX_PASTE_LENGTH)
    if not rows:
        raise Invalid({"rows": [ROWS_MISSING]})
    chosen_columns = {
        name.removeprefix(COLUMN_PREFIX): form.text(name) for name in form.fields if name.startswith(COLUMN_PREFIX)
    }
    if uses_choices:
        _require_unique_columns(chosen_columns)
    # Beside choices a box that is not ticked says no; before them nobody was asked.
    has_header = bool(form.text("header")) if chosen_columns else None
    mapping = chosen_columns if chosen_columns and uses_choices else None
    return import_service.inspect_file(
        BytesIO(rows.encode()), name=PASTED_FILE_NAME, mapping=mapping, has_header=has_header
    )


def _try_inspect_paste(form: Form) -> InspectedImport | None:
    try:
        return _inspect_paste(form, uses_choices=False)
    except Invalid:
        return None


def _start_import(context: RequestContext, form: Form, inspection: InspectedImport) -> Import:
    require_address_or_email(inspection.columns)
    if form.number("list") is None:
        read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    file_key = import_service.store_file(context.container.storage.store, inspection, now=context.now())
    try:
        with context.transaction() as tx:
            use_one_time_key(
                tx, context.user, form.one_time_key, hint="They are on their way to the list.", result_path="/lists"
            )
            return import_service.create_import(
                tx, _find_or_create_list(context, tx, form), inspection, file_key, clock=context.container.clock
            )
    except BaseException:
        context.container.storage.store.delete(file_key)
        raise


def _find_or_create_list(context: RequestContext, tx: Tx, form: Form) -> int:
    list_id = form.number("list")
    if list_id is not None:
        [mailing_list] = list_queries.read_lists(tx, [list_id])
        import_service.require_own_list(mailing_list)
        if not mailing_list.processed:
            raise Invalid({"list": [import_service.LIST_BUSY]})
        return mailing_list.id
    body = read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    new_list = list_service.create_list(
        tx, context.user.caller, context.container.encryptor, body.columns(context.container), now=context.now()
    )
    return new_list.id


def _require_unique_columns(chosen_columns: Mapping[str, str]) -> None:
    """Only the first of columns with the same meaning is valid."""
    seen_fields, errors = set[str](), dict[str, list[str]]()
    for column, field in chosen_columns.items():
        if field in seen_fields:
            errors[f"{COLUMN_PREFIX}{column}"] = [DUPLICATE_COLUMN.format(field_label(field))]
        seen_fields |= {field} - {IGNORED_FIELD}
    if errors:
        raise Invalid(errors)


def _to_form_errors(errors: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """At the form's own fields: a column's row, all columns, or the unreadable rows."""
    placed_errors: dict[str, list[str]] = {}
    for name, messages in errors.items():
        if name == "mapping":
            placed_errors[name] = [STREET_MISSING]
        elif name.startswith("mapping."):
            placed_errors.setdefault(COLUMN_PREFIX + name.removeprefix("mapping."), []).extend(messages)
        else:
            placed_errors.setdefault("rows" if name == "file" else name, []).extend(messages)
    return placed_errors


def _render_paste_page(context: RequestContext, form: FormState, inspection: InspectedImport | None = None) -> Response:
    with context.transaction() as tx:
        offered_lists = list_choices(tx, form.values.get("list"))
    chosen_id = parse_path_id(form.values.get("list", ""))
    is_suppression = any(each.id == chosen_id and each.is_suppression_list for each in offered_lists)
    return render_list_page(
        context,
        "paste.html",
        form=form,
        lists=[each for each in offered_lists if each.kept_for is None],
        inspection=inspection,
        field_options=[(field, field_label(field)) for field in IMPORT_FIELDS],
        samples=[] if inspection is None else _samples(inspection),
        warnings=[] if inspection is None else _warnings(inspection, is_suppression=is_suppression),
    )


def _warnings(inspection: InspectedImport, *, is_suppression: bool) -> list[str]:
    """On a suppression list an email is enough."""
    is_enough = is_suppression or has_street_column(inspection.columns)
    return ([] if is_enough else [STREET_COLUMN_MISSING]) + build_warnings(inspection.columns)


def _samples(inspection: InspectedImport) -> list[str]:
    """Of each column, the values of its first rows."""
    return [
        " · ".join(row[place] for row in inspection.rows[:SAMPLE_ROWS] if place < len(row) and row[place])[:200]
        for place in range(inspection.layout.width)
    ]
