"""The automatic checks at the end of a review. Each reason is a sentence that the sender also reads."""

from collections.abc import Container, Mapping, Sequence

import sqlalchemy as sa
import structlog

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.errors import Message
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME
from quillpost.fulfillment.models import ReviewLimits
from quillpost.orders import designs
from quillpost.orders.designs import DATE_VARIABLE_FIELDS, VARIABLE_FIELDS, longest_in_order
from quillpost.orders.handwriting.models import OwnHandwriting
from quillpost.orders.handwriting.queries import read_own_handwriting
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.recipients.addresses import rules as address_rules
from quillpost.recipients.rules import NO_PRICE
from quillpost.rendering.service import Renderer
from quillpost.rendering.text.variables import compile_template

log = structlog.get_logger(__name__)
UNDELIVERABLE_REASON = "Undeliverable address"


def find_review_reasons(
    tx: Tx, renderer: Renderer, order_ids: Sequence[int], limits: ReviewLimits
) -> dict[int, list[Message]]:
    """Why these orders should be paused, by id; an order without items left to print has no reasons."""
    rows = tx.execute(
        sa.select(orders).where(orders.c.id.in_(order_ids), orders.c.n_processing > 0).order_by(orders.c.id)
    ).all()
    reviewed = [Order.of(row) for row in rows]
    verified_ids = {row.id for row in rows if row.verified_at is not None}
    unfilled = _check_missing_values(tx, reviewed, limits.max_unfilled_percent)
    undeliverable = _check_undeliverable(tx, reviewed, verified_ids, limits.max_undeliverable_percent)
    reasons = {
        order.id: [
            *_check_message(tx, renderer, order),
            *_check_resolution(order, limits),
            *_check_contrast(order, limits),
            *unfilled.get(order.id, ()),
            *undeliverable.get(order.id, ()),
            *_check_return_address(order),
        ]
        for order in reviewed
    }
    return {order_id: messages for order_id, messages in reasons.items() if messages}


def _check_message(tx: Tx, renderer: Renderer, order: Order) -> list[Message]:
    own_handwriting = read_own_handwriting(tx, [(order.id, order)])[order.id]
    if order.style not in renderer.hands.styles and own_handwriting.hand is None:
        text = (
            f"Its handwriting style {order.style} is no longer installed: choose another and send again,"
            " or have it released once it is back."
        )
        return [Message("style_missing", text)]
    try:
        return _check_message_fit(tx, renderer, order, own_handwriting)
    except LookupError as error:
        # Other resources may be gone since. That holds up one order only.
        log.warning("orders.check_failed", order=order.id, error=repr(error))
        text = (
            "What it is drawn with is no longer all installed: have it released once it is back,"
            " or send it again in another way."
        )
        return [Message("resource_missing", text)]


def _check_message_fit(tx: Tx, renderer: Renderer, order: Order, own_handwriting: OwnHandwriting) -> list[Message]:
    """Recipients of lists may have changed since the message was laid out."""
    variables = {slot.name for slot in compile_template(order.message).slots}
    if not (order.mailing_list_ids and variables):
        return []
    design = designs.build_design(
        order, own_handwriting=own_handwriting, sender=order.sender, return_address=order.return_address, indicia=()
    )
    longest_addressees = [designs.build_addressee(recipient) for recipient in longest_in_order(tx, order.id, variables)]
    wordings = renderer.fill_messages(design, longest_addressees)
    misfits = renderer.find_misfits(design, [], qr=order.qrcode_url is not None, messages=wordings)
    note = "So it is with the longest values of its recipients: printed as it is, the pieces that do not fit fail."
    return [
        Message("message_too_long", f"{overlong.message} {note}") for overlong in list(misfits.messages.values())[:1]
    ]


def _check_resolution(order: Order, limits: ReviewLimits) -> list[Message]:
    if not limits.is_resolution_too_low(order.lowest_dpi):
        return []
    text = (
        f"A picture would print at {order.lowest_dpi} dpi, below the {limits.min_dpi} that are asked for, and"
        " look blurred: send it again with more pixels."
    )
    return [Message("resolution_low", text)]


def _check_contrast(order: Order, limits: ReviewLimits) -> list[Message]:
    is_blank = not (order.message.strip() or order.pdf_only)
    if is_blank or not limits.is_contrast_too_low(order.lowest_contrast):
        return []
    text = (
        f"The handwriting would be nearly invisible: its contrast is {order.lowest_contrast:.1f} to 1, below"
        f" the {limits.min_contrast:g} to 1 that are asked for. Send it again in another color, or on another"
        " picture."
    )
    return [Message("contrast_low", text)]


# Values are stored stripped, so a text that is not empty says something.
_HAS_VALUE_SQL: Mapping[str, str] = {
    **dict.fromkeys(("FIRST_NAME", "FULL_NAME", "NAME"), "i.name <> ''"),
    # Nearly as rendering reads them: a single word is a first name.
    "LAST_NAME": "strpos(i.name, ' ') > 0",
    **{name: f"i.{column} <> ''" for name, column in VARIABLE_FIELDS.items()},
    **{name: f"i.{column} is not null" for name, column in DATE_VARIABLE_FIELDS.items()},
}
_VARIABLE_BITS = {name: 1 << bit for bit, name in enumerate(_HAS_VALUE_SQL)}
"""A bit for each variable without a value; an order's own bits are those its message uses."""

_COUNT_MISSING_VALUES = """
    with wanted as (
        select * from unnest(cast(:orders as bigint[]), cast(:bits as integer[])) as w (order_id, bits)),
    lacking as materialized (
        select i.order_id, w.bits & ({bits}) as bits
          from items i join wanted w on w.order_id = i.order_id
         where i.status = 'Processing')
    select order_id, count(*) as pieces, count(*) filter (where bits <> 0) as unfilled, bit_or(bits) as bits
      from lacking group by order_id
"""


def _check_missing_values(tx: Tx, reviewed: Sequence[Order], max_percent: int) -> dict[int, list[Message]]:
    """Orders with too many items whose message would have a gap."""
    variables_by_order = {
        order.id: sorted({slot.name for slot in compile_template(order.message).slots if not slot.fallback})
        for order in reviewed
    }
    bits = {
        order_id: sum(_VARIABLE_BITS[name] for name in names if name in _VARIABLE_BITS)
        for order_id, names in variables_by_order.items()
    }
    recipient_bits = {order_id: order_bits for order_id, order_bits in bits.items() if order_bits}
    missing_by_order: dict[int, tuple[int, list[str]]] = {}
    if recipient_bits:
        checked_names = sorted(
            {name for names in variables_by_order.values() for name in names if name in _VARIABLE_BITS}
        )
        bit_expression = " | ".join(
            f"case when {_HAS_VALUE_SQL[name]} then 0 else {_VARIABLE_BITS[name]} end" for name in checked_names
        )
        statement = sa.text(_COUNT_MISSING_VALUES.replace("{bits}", bit_expression))
        for row in tx.execute(statement, {"orders": list(recipient_bits), "bits": list(recipient_bits.values())}):
            names = [name for name in _HAS_VALUE_SQL if row.bits & _VARIABLE_BITS[name]]
            missing_by_order[row.order_id] = (row.unfilled, names)
    reasons = {}
    for order in reviewed:
        item_count = order.status_counts[ItemStatus.PROCESSING]
        unfilled, names = missing_by_order.get(order.id, (0, []))
        if missing_sender_names := [
            name for name in variables_by_order[order.id] if _is_sender_value_missing(order, name)
        ]:
            unfilled, names = item_count, names + missing_sender_names
        if unfilled * 100 > max_percent * item_count:
            variables = " or ".join(f"%{name}%" for name in names)
            noun = "piece has" if item_count == 1 else "pieces have"
            text = (
                f"{unfilled:,} of {item_count:,} {noun} nothing for {variables}:"
                f" fill it in, or write what to say instead, as in %{names[0]}|friend%."
            )
            reasons[order.id] = [Message("values_missing", text)]
    return reasons


def _is_sender_value_missing(order: Order, variable: str) -> bool:
    sender_values = {"YOUR_NAME": order.sender.name, "YOUR_COMPANY": order.sender.company}
    return variable in sender_values and not (sender_values[variable] or "").strip()


# A reserved name in testing mode fails on purpose.
_COUNT_UNDELIVERABLE = sa.text("""
    select i.order_id, count(*) as people,
           count(*) filter (where i.deliverability = :verdict or i.failure = any(:sentences)
                            or starts_with(i.failure, :no_price)) as failed
      from items i
     where i.order_id = any(:orders) and (i.mode <> 'test' or lower(i.name) is distinct from :reserved)
     group by i.order_id
""")


def _check_undeliverable(
    tx: Tx, reviewed: Sequence[Order], verified_ids: Container[int], max_percent: int
) -> dict[int, list[Message]]:
    """Orders with too many undeliverable recipients. What verification found fails an item only after the review."""
    order_ids = [order.id for order in reviewed if order.status_counts[ItemStatus.FAILED] or order.id in verified_ids]
    if not order_ids:
        return {}
    params = {
        "orders": order_ids,
        "verdict": address_rules.UNDELIVERABLE,
        "sentences": [address_rules.NO_ADDRESS, address_rules.INCOMPLETE_ADDRESS, UNDELIVERABLE_REASON],
        "no_price": NO_PRICE.partition("{}")[0],
        "reserved": UNDELIVERABLE_NAME.lower(),
    }
    reasons = {}
    for row in tx.execute(_COUNT_UNDELIVERABLE, params):
        if row.failed * 100 > max_percent * row.people:
            text = (
                f"{row.failed:,} of {row.people:,} recipients cannot be delivered to, more than"
                f" {max_percent} %: complete their addresses and send again, or have the rest released."
            )
            reasons[row.order_id] = [Message("recipients_undeliverable", text)]
    return reasons


def _check_return_address(order: Order) -> list[Message]:
    return_address = order.return_address
    if not (return_address.address or "").strip():
        text = "There is no return address: set one in the account, and send again."
        return [Message("review_return_address_missing", text)] if order.mode == "live" else []
    parts = {"city": return_address.city, "state": return_address.province, "ZIP code": return_address.postal_code}
    missing_parts = [label for label, text in parts.items() if not (text or "").strip()]
    if not missing_parts:
        return []
    text = f"The return address lacks its {' and '.join(missing_parts)}: complete it, and send again."
    return [Message("return_address_incomplete", text)]
