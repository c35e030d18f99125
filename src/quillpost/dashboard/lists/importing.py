"""Files of people on their way into a list: the page that takes one, and the page of each import."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.audience.importing import intake, report, store
from quillpost.audience.importing.columns import have_street, warnings_of
from quillpost.audience.importing.store import Import
from quillpost.audience.lists import MailingList, read_list
from quillpost.dashboard.form_pages import are_you_sure
from quillpost.dashboard.lists.list_pages import (
    NO_STREET,
    field_title,
    list_asked,
    list_view,
    page_of,
    reason_in_words,
)
from quillpost.kit.errors import Conflict
from quillpost.pages import render as pages
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.live import stream
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader
from quillpost.reception.zones import zone_of

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
            intake.cancel(tx, work.id, clock=parts.clock)
    except Conflict:  # it was over first: its page says how it went
        return go(_page_of(work), said="import_over")
    return go(_page_of(work), said="import_stopped")


def _known(parts: Parts, who: SignedIn, import_id: str) -> tuple[Import, MailingList]:
    with parts.db.transaction(tenant(who.caller)) as tx:
        work = store.read_import(tx, id_in_path(import_id))
        return work, read_list(tx, work.mailing_list_id)


def _shown(parts: Parts, work: Import, into: MailingList) -> dict[str, Any]:
    """Rejected rows are the service's, and shown to whoever sees the import."""
    rejects = []
    if work.status == "done" and work.rows_rejected:
        with parts.db.work() as tx:
            rejects = store.first_rejects(tx, work.id, most=REJECTS_SHOWN)
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
