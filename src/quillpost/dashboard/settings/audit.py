"""What was done in an account, by whom: a page for owners, and the same for a spreadsheet."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response

from quillpost.accounts.audit import Entry, read_log
from quillpost.accounts.audit_words import csv_rows, told
from quillpost.api.needs import id_in_path
from quillpost.dashboard.settings.settings_pages import settings_page, sub_account_titles
from quillpost.dashboard.spreadsheets import AT_ONCE, csv_file
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.visits import OurParts, Owner

router = APIRouter(include_in_schema=False)

PAGE = "/settings/audit"
A_PAGE = 50


@router.get(PAGE)
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


@router.get(f"{PAGE}.csv")
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
