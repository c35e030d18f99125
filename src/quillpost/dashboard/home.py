"""The first page, and a kind word where there is none."""

import sqlalchemy as sa
from fastapi import APIRouter, FastAPI, Request, Response

from quillpost.api.errors import answer_to
from quillpost.database.event_tables import webhooks
from quillpost.kit.errors import NotFound
from quillpost.kit.hosts import is_this_machine
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.show import show
from quillpost.reception.visits import MaybeReader, OurParts, is_for_people, reader_of

router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request, parts: OurParts, who: MaybeReader) -> Response:
    """What this is, and where to go from here."""
    key = parts.receiver_key
    is_theirs = key is not None and (who is None or _is_receiver_of(who, parts))
    may_see = is_theirs and _is_at_this_machine(request)
    return show(
        request,
        "home.html",
        who=who,
        has_receiver=is_theirs,
        receiver_path=f"/receiver/{key}" if may_see else None,
    )


def add_missing_page(app: FastAPI) -> None:
    """People who lose their way get a page; programs, and whoever calls the API, get JSON."""

    async def answer_missing(request: Request, failure: Exception) -> Response:
        if not is_for_people(request):
            return answer_to(request, failure)
        return show(request, "missing.html", who=await reader_of(request), status=404)

    app.add_exception_handler(NotFound, answer_missing)
    app.add_exception_handler(404, answer_missing)


def _is_at_this_machine(request: Request) -> bool:
    """The receiver's address is its key. Only a visitor from this machine is told it, and only under a
    name of this machine: another site that points its own name here learns nothing."""
    if request.client is None:
        return False
    return is_this_machine(request.client.host) and is_this_machine(request.url.hostname or "")


def _is_receiver_of(who: SignedIn, parts: Parts) -> bool:
    """Whether it tells of this reader's account, and they decide there: it shows every test event of all that
    subscribe it."""
    if not who.is_owner:
        return False
    its_own = sa.or_(
        *(webhooks.c.url.endswith(f"/receiver/{key}/hook", autoescape=True) for key in parts.receiver_keys)
    )
    with parts.db.transaction(who.tenant) as tx:
        mine = webhooks.c.account_id == who.here.account_id
        return tx.execute(sa.select(webhooks.c.id).where(its_own, mine).limit(1)).first() is not None
