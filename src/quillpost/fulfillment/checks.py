"""What is looked at when a review ends: an order of which a check says something waits for an operator.

Each reason is a sentence that the sender reads, too. An order of which no piece is left to make has none:
nothing of it would reach paper.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import orders
from quillpost.fulfillment.rules import UNDELIVERABLE_NAME
from quillpost.orders import designs
from quillpost.orders.materialization import DAYS, FIELDS, longest_mailed
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.recipients.addresses import service as address_service
from quillpost.recipients.rules import NO_PRICE
from quillpost.rendering.renderer import Studio
from quillpost.rendering.text.variables import compile_text

log = structlog.get_logger(__name__)

UNDELIVERABLE = "Undeliverable address"
"""Why a piece fails whose address nobody can deliver to."""


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Up to where an order goes on by itself; each is a setting."""

    dpi: int = 75
    contrast: float = 1.7
    unfilled_percent: int = 50
    undeliverable_percent: int = 50

    def is_too_soft(self, dpi: int | None) -> bool:
        """Whether an order waits whose softest picture prints so; None, they are all sharp."""
        return dpi is not None and dpi < self.dpi

    def is_too_faint(self, contrast: float | None) -> bool:
        """The same of one whose handwriting stands out so little; None, it is easy to read."""
        return contrast is not None and contrast < self.contrast


def review_reasons(
    tx: Tx, studio: Studio, order_ids: Sequence[int], limits: ReviewLimits
) -> dict[int, list[str]]:
    """Why these orders should wait, by their ids; those that need not are left out."""
    rows = tx.execute(
        sa.select(orders).where(orders.c.id.in_(order_ids), orders.c.n_processing > 0).order_by(orders.c.id)
    ).all()
    inside = [Order.of(row) for row in rows]
    verified = {row.id for row in rows if row.verified_at is not None}
    unfilled = _unfilled(tx, inside, limits.unfilled_percent)
    undeliverable = _undeliverable(tx, inside, verified, limits.undeliverable_percent)
    found = {
        order.id: [
            *_words(tx, studio, order),
            *_resolution(order, limits),
            *_contrast(order, limits),
            *unfilled.get(order.id, ()),
            *undeliverable.get(order.id, ()),
            *_return_address(order),
        ]
        for order in inside
    }
    return {order_id: told for order_id, told in found.items() if told}


def _words(tx: Tx, studio: Studio, order: Order) -> list[str]:
    if order.style not in studio.hands.styles:
        return [
            f"Its handwriting style {order.style} is no longer installed: choose another and send again,"
            " or have it released once it is back."
        ]
    try:
        return _fit(tx, studio, order)
    except LookupError as missing:
        # What else it is drawn with may have gone since. That is one order's trouble: the others go on.
        log.warning("order.not_checked", order=order.id, error=repr(missing))
        return [
            "What it is drawn with is no longer all installed: have it released once it is back,"
            " or send it again in another way."
        ]


def _fit(tx: Tx, studio: Studio, order: Order) -> list[str]:
    """The lists' people may have changed since their words were laid out; the call's own have not."""
    used = {slot.name for slot in compile_text(order.message).slots}
    if not (order.mailing_list_ids and used):
        return []
    design = designs.design(order, sender=order.sender, return_address=order.return_address, indicia=())
    longest = [designs.addressee(person) for person in longest_mailed(tx, order.id, used)]
    words = studio.wordings(design, longest)
    found = studio.misfits(design, [], qr=order.qrcode_url is not None, wordings=words)
    return [
        f"{too_long.message} So it is with the longest values of its recipients:"
        " printed as it is, the pieces that do not fit fail."
        for too_long in list(found.messages.values())[:1]
    ]


def _resolution(order: Order, limits: ReviewLimits) -> list[str]:
    if not limits.is_too_soft(order.lowest_dpi):
        return []
    return [
        f"A picture would print at {order.lowest_dpi} dpi, below the {limits.dpi} that are asked for, and"
        " look blurred: send it again with more pixels."
    ]


def _contrast(order: Order, limits: ReviewLimits) -> list[str]:
    is_blank = not (order.message.strip() or order.pdf_only)
    if is_blank or not limits.is_too_faint(order.lowest_contrast):
        return []
    return [
        f"The handwriting would be nearly invisible: its contrast is {order.lowest_contrast:.1f} to 1, below"
        f" the {limits.contrast:g} to 1 that are asked for. Send it again in another color, or on another"
        " picture."
    ]


# What callers write comes in without blanks around it, so a text that is there says something.
_HAS: Mapping[str, str] = {
    **dict.fromkeys(("FIRST_NAME", "FULL_NAME", "NAME"), "i.name <> ''"),
    # As composition reads them, nearly: a single word is a first name.
    "LAST_NAME": "strpos(i.name, ' ') > 0",
    **{name: f"i.{column} <> ''" for name, column in FIELDS.items()},
    **{name: f"i.{column} is not null" for name, column in DAYS.items()},
}
_BITS = {name: 1 << place for place, name in enumerate(_HAS)}
"""A bit for each variable that a piece has nothing for; an order's own bits say which of them matter."""

_LACKING = """
    with wanted as (
        select * from unnest(cast(:orders as bigint[]), cast(:bits as integer[])) as w (order_id, bits)),
    lacking as materialized (
        select i.order_id, w.bits & ({bits}) as bits
          from items i join wanted w on w.order_id = i.order_id
         where i.status = 'Processing')
    select order_id, count(*) as pieces, count(*) filter (where bits <> 0) as unfilled, bit_or(bits) as bits
      from lacking group by order_id
"""


def _unfilled(tx: Tx, inside: Sequence[Order], most_percent: int) -> dict[int, list[str]]:
    """Orders with too many pieces that would be written with a gap."""
    used = {order.id: _without_fallback(order) for order in inside}
    bits = {order_id: sum(_BITS[name] for name in names if name in _BITS) for order_id, names in used.items()}
    of_people = {order_id: own for order_id, own in bits.items() if own}
    lacking: dict[int, tuple[int, list[str]]] = {}
    if of_people:
        every = sorted({name for names in used.values() for name in names if name in _BITS})
        tested = " | ".join(f"case when {_HAS[name]} then 0 else {_BITS[name]} end" for name in every)
        statement = sa.text(_LACKING.replace("{bits}", tested))
        for row in tx.execute(statement, {"orders": list(of_people), "bits": list(of_people.values())}):
            names = [name for name in _HAS if row.bits & _BITS[name]]
            lacking[row.order_id] = (row.unfilled, names)
    found = {}
    for order in inside:
        pieces = order.tally[ItemStatus.PROCESSING]
        unfilled, names = lacking.get(order.id, (0, []))
        if senders := [name for name in used[order.id] if _sender_lacks(order, name)]:
            unfilled, names = pieces, names + senders
        if unfilled * 100 > most_percent * pieces:
            variables = " or ".join(f"%{name}%" for name in names)
            found[order.id] = [
                f"{unfilled:,} of {pieces:,} {_pieces(pieces)} nothing for {variables}:"
                f" fill it in, or write what to say instead, as in %{names[0]}|friend%."
            ]
    return found


def _without_fallback(order: Order) -> list[str]:
    """The variables of its message that leave a gap where there is no value."""
    return sorted({slot.name for slot in compile_text(order.message).slots if not slot.fallback})


def _sender_lacks(order: Order, variable: str) -> bool:
    own = {"YOUR_NAME": order.sender.name, "YOUR_COMPANY": order.sender.company}
    return variable in own and not (own[variable] or "").strip()


def _pieces(how_many: int) -> str:
    return "piece has" if how_many == 1 else "pieces have"


# In testing mode a reserved name asks for its failure, which says nothing about the rest.
_UNDELIVERABLE = sa.text(
    """
    select i.order_id, count(*) as people,
           count(*) filter (where i.deliverability = :verdict or i.failure = any(:sentences)
                            or starts_with(i.failure, :no_price)) as failed
      from items i
     where i.order_id = any(:orders) and (i.mode <> 'test' or lower(i.name) is distinct from :reserved)
     group by i.order_id
    """
)


def _undeliverable(
    tx: Tx, inside: Sequence[Order], verified: Container[int], most_percent: int
) -> dict[int, list[str]]:
    """Orders of whose people too many have no address that mail reaches. What a verifier has found out since
    a piece was accepted fails it only when the review has ended."""
    suspects = [order.id for order in inside if order.tally[ItemStatus.FAILED] or order.id in verified]
    if not suspects:
        return {}
    rows = tx.execute(
        _UNDELIVERABLE,
        {
            "orders": suspects,
            "verdict": address_service.UNDELIVERABLE,
            "sentences": [address_service.NO_ADDRESS, address_service.HALF_AN_ADDRESS, UNDELIVERABLE],
            "no_price": NO_PRICE.partition("{}")[0],
            "reserved": UNDELIVERABLE_NAME.lower(),
        },
    )
    return {
        row.order_id: [
            f"{row.failed:,} of {row.people:,} recipients cannot be delivered to, more than"
            f" {most_percent} %: complete their addresses and send again, or have the rest released."
        ]
        for row in rows
        if row.failed * 100 > most_percent * row.people
    }


def _return_address(order: Order) -> list[str]:
    home = order.return_address
    if not (home.address or "").strip():
        told = "There is no return address: set one in the account, and send again."
        return [told] if order.mode == "live" else []
    parts = {"city": home.city, "state": home.province, "ZIP code": home.postal_code}
    lacking = [part for part, text in parts.items() if not (text or "").strip()]
    if not lacking:
        return []
    return [f"The return address lacks its {' and '.join(lacking)}: complete it, and send again."]
