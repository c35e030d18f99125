"""The token with which our pages call the API for their reader."""

from fastapi import APIRouter, Response

from quillpost.api.answers import answer
from quillpost.kit.errors import Conflict
from quillpost.people import sessions
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, FormOfAnyAccount, MovedOn, PostedForm
from quillpost.reception.show import go, safe_next
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

MODES = ("test", "live")
MOVED_ON = "You look at another account or mode by now. Load this page again."


@router.post("/session/token")
def give_token(parts: OurParts, who: Reader, form: PostedForm) -> Response:
    """A page says for which account and mode it was made: what is begun in one is not finished in another."""
    _require_same(who, form)
    with parts.db.work() as tx:
        token, seconds = sessions.page_token(tx, who, now=parts.clock())
    return answer(
        {"token": token, "expires_in": seconds, "mode": who.mode}, headers={"Cache-Control": "no-store"}
    )


@router.post("/session/switch")
def switch(parts: OurParts, who: Reader, form: FormOfAnyAccount) -> Response:
    """Another of one's accounts, or the other mode of the one that the page was about."""
    mode, chosen = form.text("mode"), form.number("membership") or _page_was_about(who, form)
    with parts.db.work() as tx:
        sessions.switch(tx, who, membership_id=chosen, mode=mode if mode in MODES else None)
    return go(safe_next(form.text("next", most=4_000)))


def _page_was_about(who: SignedIn, form: Form) -> int:
    for each in (who.here, *who.elsewhere):
        if each.membership_id == form.about.membership_id:
            return each.membership_id
    raise MovedOn


def _require_same(who: SignedIn, form: Form) -> None:
    membership, mode = form.number("membership"), form.text("mode")
    if membership not in (None, who.here.membership_id) or mode not in ("", who.mode):
        raise Conflict(MOVED_ON)
