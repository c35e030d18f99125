"""One list: its people, its imports, and the whole of it as a file."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts import audit
from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.api.v2.audience_shapes import deliverability_of
from quillpost.audience import lists, recipients
from quillpost.audience.export import chunks, csv_file
from quillpost.audience.importing import store
from quillpost.audience.recipients import Recipient
from quillpost.audience.search import Found, looks_everywhere, search
from quillpost.dashboard.lists.list_pages import list_view, sought_in
from quillpost.dashboard.paging import asked_page
from quillpost.kit.paging import Page
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

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
        mailing_list = lists.read_list(tx, id_in_path(list_id))
        page: Page[Recipient] = Page([], mailing_list.total_recipients, asked)
        is_deep = asked.window(page.total).skip > DEEPEST
        if sought:
            shown = search(parts.db, tx, mailing_list, sought)
        else:
            page = page if is_deep else recipients.list_recipients(tx, mailing_list, asked)
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
        mailing_list = lists.read_list(tx, id_in_path(list_id))
        imports = store.recent_imports(tx, mailing_list.id, most=IMPORTS_SHOWN)
    return list_view(request, "imports.html", who, parts, list=mailing_list, tab="imports", imports=imports)


@router.get("/lists/{list_id}/export.csv")
def export(list_id: str, who: Reader, parts: OurParts) -> Response:
    """The file that the API gives; who took it along is noted with it."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = lists.read_list(tx, id_in_path(list_id))
        audit.note(
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
