"""All accounts of the service: who they are, what they send, what they have."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from quillpost.accounts import directory
from quillpost.api.needs import id_in_path
from quillpost.dashboard.form_pages import EMPTY, Filled
from quillpost.dashboard.paging import asked_page
from quillpost.dashboard.print_room.room_pages import ROOM, room_page
from quillpost.parts import Parts
from quillpost.people.sessions import CONFIRMED_FOR, SignedIn
from quillpost.reception.visits import Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/accounts"
LONGEST_WORDS = 100


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts, find: str = "", page: str = "") -> Response:
    words = find.replace("\x00", "").strip()[:LONGEST_WORDS]
    month = parts.clock().date().replace(day=1)
    with parts.db.work() as tx:
        found = directory.list_accounts(tx, asked_page(page), mode=who.mode, month=month, words=words)
    address = f"{PAGE}?{urlencode({'find': words})}" if words else PAGE
    return room_page(request, "accounts.html", who, parts, page=found, find=words, address=address)


@router.get(f"{PAGE}/{{account_id}}")
def read_page(request: Request, account_id: str, who: Operator, parts: OurParts) -> Response:
    return account_page(request, who, parts, id_in_path(account_id))


def account_page(
    request: Request, who: SignedIn, parts: Parts, account_id: int, *, form: Filled = EMPTY
) -> Response:
    """One account, with the form that moves its credit, or the way there: whoever gave their password long
    ago gives it before they fill anything in."""
    month = parts.clock().date().replace(day=1)
    with parts.db.work() as tx:
        account = directory.find_known(tx, account_id, mode=who.mode, month=month)
        moves = directory.last_moves(tx, account_id, mode=who.mode)
    is_confirmed = parts.clock() - who.confirmed_at <= CONFIRMED_FOR
    return room_page(
        request,
        "account.html",
        who,
        parts,
        form=form,
        account=account,
        moves=moves,
        is_confirmed=is_confirmed,
    )
