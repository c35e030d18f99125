"""What the pages of the print room have in common: the frame, and the line in the audit log."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import Request, Response

from quillpost.accounts import audit
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.database import Tx
from quillpost.kit.errors import Forbidden
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn

ROOM = "/print-room"
LIVE_ALONE = (
    "This holds for live mail, too, so it is changed in live mode alone. Switch to live at the top of the"
    " page, and try again."
)


def room_page(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The page. Faults of no field that it has are its template's to show at the top, as `faults[""]`."""
    return show_form(
        request,
        f"print_room/{template}",
        who,
        form,
        status=status,
        now=parts.clock(),
        world=parts.worlds[who.mode],
        **values,
    )


def moved_under(form: Filled, known: Sequence[str], top: str) -> Filled:
    """Faults of a part of a field, such as `amounts.3`, told at the field, and those of fields that the form
    does not have at `top`."""
    faults: dict[str, list[str]] = {}
    for name, sentences in form.faults.items():
        field = name.partition(".")[0]
        faults.setdefault(field if field in known else top, []).extend(sentences)
    return Filled(form.typed, faults)


def require_live(who: SignedIn) -> None:
    """For what is one and the same in both modes."""
    if who.mode != "live":
        raise Forbidden(LIVE_ALONE)


def noted(who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> Callable[[Tx], None]:
    """A line in the log of the operator's account, for a deed that has a transaction of its own."""
    return lambda tx: note(tx, who, parts, act, about)


def counted(who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> Callable[[Tx, int], None]:
    """The same for one that is done to several, which are not known yet."""
    return lambda tx, how_many: note(tx, who, parts, act, {**about, "how_many": how_many})


def note(tx: Tx, who: SignedIn, parts: Parts, act: str, about: Mapping[str, Any]) -> None:
    audit.note(tx, who.here.account_id, act, who.actor, about=about, now=parts.clock())
