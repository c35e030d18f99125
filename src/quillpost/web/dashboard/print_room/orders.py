"""Orders that wait for an operator's word: released, or refused with a reason that the sender reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Conflict, Invalid, NotFound
from quillpost.fulfillment import review
from quillpost.fulfillment.proofs import draw_proof
from quillpost.fulfillment.review import list_held
from quillpost.orders.items import read_order
from quillpost.orders.models import Order
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.api.print_room.held_orders import Refusal, Release
from quillpost.web.dashboard.forms import EMPTY, Filled, Reason, are_you_sure, read_body
from quillpost.web.dashboard.labels import TYPE_NAMES
from quillpost.web.dashboard.lists_common import asked_page
from quillpost.web.dashboard.print_room.pages import ROOM, note, room_page
from quillpost.web.forms import Form, PostedForm
from quillpost.web.rendering import cents, go, plural
from quillpost.web.sessions import Operator, OurParts

router = APIRouter(include_in_schema=False)

PAGE = f"{ROOM}/held"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an operator may say of an order: what that means to them, why they say it, and how it is done."""

    verb: str
    done: str
    means: Callable[[Order], Sequence[str]]
    reason: Reason
    body: type[Release | Refusal]
    give: Callable[..., Order]
    is_harmless: bool = False


RELEASE = Verdict(
    "Release",
    "released",
    lambda order: [
        f"{plural(order.pieces, 'piece')} for {cents(order.grand_total)}: it goes to the press,"
        " past the checks that held it.",
        *(f"Held because: {reason}" for reason in order.hold_reasons or order.warnings),
        "If its sender has changed it since, it is reviewed once more.",
    ],
    Reason("Why it may be printed all the same", "For operators alone. You may leave it empty."),
    Release,
    review.release,
    is_harmless=True,
)
REFUSE = Verdict(
    "Refuse",
    "refused",
    lambda order: [
        f"Its {plural(order.pieces, 'piece')} will not be printed. This cannot be undone.",
        f"The sender has {cents(order.grand_total - order.leads_fee)} back."
        + (f" Its addresses stay billed, {cents(order.leads_fee)}." if order.leads_fee else ""),
    ],
    Reason(
        "Why it is not printed",
        "The sender reads it. Say what to do, such as: Send it again with your own picture.",
        is_needed=True,
    ),
    Refusal,
    review.refuse,
)


@router.get(PAGE)
def list_page(request: Request, who: Operator, parts: OurParts, page: str = "") -> Response:
    return _list_page(request, who, parts, page=page)


@router.get(f"{PAGE}/{{order_id}}/proof")
def proof(order_id: str, who: Operator, parts: OurParts) -> Response:
    """The first pieces as the press would draw them."""
    order = _order(who, parts, order_id)
    drawn = draw_proof(parts.press, order.id)
    headers = {
        "Content-Disposition": f'inline; filename="order-{order.id}-proof.pdf"',
        "Cache-Control": "no-store",
    }
    return Response(drawn, media_type="application/pdf", headers=headers)


@router.get(f"{PAGE}/{{order_id}}/release")
def release_page(request: Request, order_id: str, who: Operator, parts: OurParts) -> Response:
    return _ask(request, RELEASE, who, _order(who, parts, order_id))


@router.post(f"{PAGE}/{{order_id}}/release")
def release(request: Request, order_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    return _give(request, RELEASE, who, parts, _order(who, parts, order_id), form)


@router.get(f"{PAGE}/{{order_id}}/refuse")
def refuse_page(request: Request, order_id: str, who: Operator, parts: OurParts) -> Response:
    return _ask(request, REFUSE, who, _order(who, parts, order_id))


@router.post(f"{PAGE}/{{order_id}}/refuse")
def refuse(request: Request, order_id: str, who: Operator, form: PostedForm, parts: OurParts) -> Response:
    return _give(request, REFUSE, who, parts, _order(who, parts, order_id), form)


def _ask(request: Request, verdict: Verdict, who: SignedIn, order: Order, form: Filled = EMPTY) -> Response:
    return are_you_sure(
        request,
        who,
        form,
        title=f"{verdict.verb} order {order.id}?",
        means=verdict.means(order),
        button=f"{verdict.verb} it",
        back=PAGE,
        reason=verdict.reason,
        is_harmless=verdict.is_harmless,
    )


def _give(
    request: Request, verdict: Verdict, who: SignedIn, parts: Parts, order: Order, form: Form
) -> Response:
    try:
        reason = read_body(verdict.body, {"reason": form.text("reason", most=10_000)}).reason or ""
        with parts.db.work() as tx:
            verdict.give(
                tx,
                parts.worlds[who.mode],
                order.id,
                operator_id=who.here.account_id,
                reason=reason,
                now=parts.clock(),
            )
            about = {"name": f"order {order.id}", "mode": order.mode, "reason": reason}
            note(tx, who, parts, f"order.{verdict.done}", about)
    except Invalid as refused:
        return _ask(request, verdict, who, order, Filled.back(form, refused, at="reason"))
    except Conflict as refused:
        return _list_page(request, who, parts, refused=refused.message)
    return go(PAGE, said=f"order_{verdict.done}")


def _order(who: SignedIn, parts: Parts, order_id: str) -> Order:
    with parts.db.work() as tx:
        order = read_order(tx, id_in_path(order_id))
    if order.mode != who.mode:
        raise NotFound
    return order


def _list_page(
    request: Request, who: SignedIn, parts: Parts, *, page: str = "", refused: str | None = None
) -> Response:
    with parts.db.work() as tx:
        found = list_held(tx, who.mode, asked_page(page))
    status = 409 if refused else None
    return room_page(
        request,
        "held.html",
        who,
        parts,
        page=found,
        address=PAGE,
        type_names=TYPE_NAMES,
        refused=refused,
        status=status,
    )
