"""Imports: a file or a pasted table on its way into a list."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.core.paging import PageRequest
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import report
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports.columns import FIELDS, LEFT_OUT, have_street, require_someone, warnings_of
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.service import Looked
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import MailingList, read_list
from quillpost.web import csrf
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.mailing_lists.endpoints import NewMailingList
from quillpost.web.cookies import zone_of
from quillpost.web.csrf import do_once
from quillpost.web.dashboard.forms import Filled, are_you_sure, read_body
from quillpost.web.dashboard.lists.pages import (
    NO_STREET,
    field_title,
    list_asked,
    list_view,
    page_of,
    reason_in_words,
)
from quillpost.web.forms import Form, PostedForm, PostedLargeForm
from quillpost.web.live_updates import stream
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

REJECTS_SHOWN = 100
ONE = "/lists/imports/{import_id}"


@router.get("/lists/import")
def import_page(request: Request, who: Reader, parts: OurParts) -> Response:
    """It calls the API with a token of its reader's session: so a large file is sent with its progress."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        into = list_asked(tx, request)
    return list_view(request, "import.html", who, parts, into=into, no_street=NO_STREET)


@router.get(ONE)
def one_page(request: Request, import_id: str, who: Reader, parts: OurParts) -> Response:
    work, into = _known(parts, who, import_id)
    return list_view(request, "one_import.html", who, parts, list=into, **_shown(parts, work, into))


@router.get(f"{ONE}/live")
def live(request: Request, import_id: str, who: Reader, parts: OurParts) -> Response:
    """The same part of the page for as long as the import goes on, and a word when it is over."""
    number = _known(parts, who, import_id)[0].id
    zone = zone_of(request)

    def draw() -> Mapping[str, str]:
        work, into = _known(parts, who, str(number))
        shown = _shown(parts, work, into)
        drawn = pages.text_of("lists/import_state.html", zone=zone, now=parts.clock(), list=into, **shown)
        return {"state": drawn} | ({"over": work.status} if work.is_finished else {})

    return stream(request, who, ("import", number), draw)


@router.get(f"{ONE}/rejected.csv")
def rejected(import_id: str, who: Reader, parts: OurParts) -> Response:
    work, _ = _known(parts, who, import_id)
    pieces = report.rejected_rows(parts.db, parts.shelf.store, work)
    named = f'attachment; filename="import-{work.id}-rejected.csv"'
    headers = {"Content-Disposition": named, "Cache-Control": "no-store"}
    return StreamingResponse(pieces, media_type="text/csv", headers=headers)


@router.get(f"{ONE}/cancel")
def cancel_page(request: Request, import_id: str, who: Reader, parts: OurParts) -> Response:
    work, into = _known(parts, who, import_id)
    if work.is_finished:
        return go(_page_of(work))
    return are_you_sure(
        request,
        who,
        title=f"Stop importing “{work.file_name}”?",
        means=[
            f"Nobody of the file comes onto “{into.description}”.",
            "You can import it again at any time.",
        ],
        button="Stop the import",
        back=_page_of(work),
    )


@router.post(f"{ONE}/cancel")
def cancel(import_id: str, who: Reader, _form: PostedForm, parts: OurParts) -> Response:
    work, _ = _known(parts, who, import_id)
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            import_service.cancel(tx, work.id, clock=parts.clock)
    except Conflict:  # it was over first: its page says how it went
        return go(_page_of(work), said="import_over")
    return go(_page_of(work), said="import_stopped")


def _known(parts: Parts, who: SignedIn, import_id: str) -> tuple[Import, MailingList]:
    with parts.db.transaction(tenant(who.caller)) as tx:
        work = import_queries.read_import(tx, id_in_path(import_id))
        return work, read_list(tx, work.mailing_list_id)


def _shown(parts: Parts, work: Import, into: MailingList) -> dict[str, Any]:
    """Rejected rows are the service's, and shown to whoever sees the import."""
    rejects = []
    if work.status == "done" and work.rows_rejected:
        with parts.db.work() as tx:
            rejects = import_queries.first_rejects(tx, work.id, most=REJECTS_SHOWN)
    return {
        "work": work,
        "rejects": rejects,
        "warnings": warnings_of(work.columns),
        "has_street": have_street(work.columns) or into.is_suppression_list,
        "has_report": bool(rejects) and work.file_key is not None,
        "back": page_of(into.id),
        "field_title": field_title,
        "reason_in_words": reason_in_words,
    }


def _page_of(work: Import) -> str:
    return f"/lists/imports/{work.id}"


PAGE = "/lists/paste"
LONGEST = 2_500_000
OFFERED = 200
SHOWN = 5
COLUMN = "column-"
NAME = "pasted.csv"
NOTHING = "Paste some rows first."
TWICE = "Another column is “{}” already."
NOBODY = "Choose which column is the street, or at least the e-mail."


@router.get(PAGE)
def paste_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        into = list_asked(tx, request)
    return _page(request, who, parts, Filled({} if into is None else {"list": [str(into.id)]}))


@router.post(PAGE)
def paste(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """Twice: what the columns seem to be is shown first, and imported when that was seen."""
    try:
        looked = _looked(form)
        if form.text("step") != "import":
            return _page(request, who, parts, Filled(form.fields), looked)
        made = _import(who, form, looked, parts)
    except (Invalid, Refused) as refused:
        back = Filled.back(form, refused, at="rows")
        return _page(request, who, parts, Filled(back.typed, _placed(back.faults)), _if_readable(form))
    return go(f"/lists/imports/{made.id}")


def _looked(form: Form, *, as_chosen: bool = True) -> Looked:
    rows = form.text("rows", most=LONGEST)
    if not rows:
        raise Invalid({"rows": [NOTHING]})
    chosen = {name.removeprefix(COLUMN): form.text(name) for name in form.fields if name.startswith(COLUMN)}
    if as_chosen:
        _require_each_once(chosen)
    # Beside choices a box that is not ticked says no; before them nobody was asked.
    has_header = bool(form.text("header")) if chosen else None
    mapping = chosen if chosen and as_chosen else None
    return import_service.look(BytesIO(rows.encode()), name=NAME, mapping=mapping, has_header=has_header)


def _if_readable(form: Form) -> Looked | None:
    """For another try; what was chosen stands in the form whether it can be or not."""
    try:
        return _looked(form, as_chosen=False)
    except Invalid:
        return None


def _import(who: SignedIn, form: Form, looked: Looked, parts: Parts) -> Import:
    require_someone(looked.columns)
    if form.number("list") is None:
        read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    key = import_service.keep(parts.shelf.store, looked, now=parts.clock())
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(
                tx,
                who,
                form.text(csrf.FIELD),
                instead="They are on their way to the list.",
                leads_to="/lists",
            )
            return import_service.place(tx, _into(tx, who, form, parts), looked, key, clock=parts.clock)
    except BaseException:
        parts.shelf.store.delete(key)
        raise


def _into(tx: Tx, who: SignedIn, form: Form, parts: Parts) -> int:
    """The list that is chosen, or a new one."""
    chosen = form.number("list")
    if chosen is not None:
        [into] = list_queries.read_lists(tx, [chosen])
        import_service.require_own(into)
        if not into.processed:
            raise Invalid({"list": [import_service.BUSY]})
        return into.id
    body = read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    made = list_service.make_list(tx, who.caller, parts.sealer, body.columns(parts), now=parts.clock())
    return made.id


def _require_each_once(chosen: Mapping[str, str]) -> None:
    """Of columns that are taken for the same, all but the first are wrong."""
    taken, faults = set[str](), dict[str, list[str]]()
    for place, field in chosen.items():
        if field in taken:
            faults[f"{COLUMN}{place}"] = [TWICE.format(field_title(field))]
        taken |= {field} - {LEFT_OUT}
    if faults:
        raise Invalid(faults)


def _placed(faults: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """At what the form has for it: a column's row, all columns, or the rows that cannot be read."""
    placed: dict[str, list[str]] = {}
    for name, told in faults.items():
        if name == "mapping":
            placed[name] = [NOBODY]
        elif name.startswith("mapping."):
            placed.setdefault(COLUMN + name.removeprefix("mapping."), []).extend(told)
        else:
            placed.setdefault("rows" if name == "file" else name, []).extend(told)
    return placed


def _page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, looked: Looked | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        offered = list_queries.list_page(tx, PageRequest(1, OFFERED)).rows
        chosen = id_in_path(form.values.get("list", ""))
        if chosen and chosen not in {each.id for each in offered}:
            offered += list_queries.known_lists(tx, [chosen]).values()
    bars = any(each.id == chosen and each.is_suppression_list for each in offered)
    return list_view(
        request,
        "paste.html",
        who,
        parts,
        form=form,
        own=[each for each in offered if each.kept_for is None],
        looked=looked,
        fields=[(field, field_title(field)) for field in FIELDS],
        samples=[] if looked is None else _samples(looked),
        warnings=[] if looked is None else _warnings(looked, bars=bars),
    )


def _warnings(looked: Looked, *, bars: bool) -> list[str]:
    """On a list that bars people their e-mail is enough."""
    is_enough = bars or have_street(looked.columns)
    return ([] if is_enough else [NO_STREET]) + warnings_of(looked.columns)


def _samples(looked: Looked) -> list[str]:
    """Of each column what stands in its first rows."""
    return [
        " · ".join(row[place] for row in looked.rows[:SHOWN] if place < len(row) and row[place])[:200]
        for place in range(looked.layout.width)
    ]
