"""What is missing before live mail may reach paper: of the service, and a price for an order's own pieces."""

from collections.abc import Mapping, Sequence
from datetime import date

import sqlalchemy as sa

from quillpost.accounts.billing.rules import EVERYWHERE_ELSE
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.fulfillment.environments import Environment, ReadinessGap
from quillpost.orders.products import DISPLAY_TYPES

# Where a price for every other country is in force, no piece needs to be looked at.
FIND_PRICE_GAPS = sa.text(
    f"""
    with open as (
        select id, type, size, mail_class from orders o
         where id = any(:orders) and not exists (
               select 1 from prices p
                where (p.type, p.size, p.mail_class) = (o.type, coalesce(o.size, ''), o.mail_class)
                  and p.country = '{EVERYWHERE_ELSE}' and p.valid_from <= :on)),
    destinations as (
        select distinct o.id, o.type, o.size, o.mail_class, i.country
          from open o join items i on i.order_id = o.id
         where i.status = 'Processing')
    select id, type, size, mail_class, country from destinations d
     where not exists (
           select 1 from prices p
            where (p.type, p.size, p.mail_class) = (d.type, coalesce(d.size, ''), d.mail_class)
              and p.country = d.country and p.valid_from <= :on)
     order by id, country
    """
)


HAS_PRICES = sa.text("select exists (select from prices where valid_from <= :on)")
NO_PRICES_GAP = ReadinessGap(
    "prices", "No price is in force: set prices at /print-room/prices.", "No prices are in force."
)
NO_RETURN_ADDRESS_GAP = ReadinessGap(
    "return_address",
    "The account has no return address: set one, or give one with each send.",
    "Your account has no return address. Add one, or give one with each order.",
)
PAUSE_WARNING = "Live mail isn't ready yet, so this order will be paused when its review ends."


def find_service_gaps(tx: Tx, environment: Environment, *, on: date) -> list[ReadinessGap]:
    """What keeps every order of a live world from paper that day; a simulated one lacks nothing."""
    if environment.mode != "live":
        return []
    missing = list(environment.readiness_gaps)
    if environment.gaps and not missing:
        missing = [ReadinessGap("settings", " ".join(environment.gaps), "The service is not set up for live mail.")]
    return missing if tx.execute(HAS_PRICES, {"on": on}).scalar_one() else [*missing, NO_PRICES_GAP]


def list_pause_warnings(
    db: Database, environments: Mapping[str, Environment], clock: Clock, caller: Caller
) -> list[str]:
    """What a sender is told whose live order could not be mailed as the service is set up now."""
    if caller.is_testing:
        return []
    with db.transaction(build_tenant(caller)) as tx:
        gaps = find_service_gaps(tx, environments[caller.mode], on=clock().date())
    return format_pause_warnings(gaps)


def format_pause_warnings(gaps: Sequence[ReadinessGap]) -> list[str]:
    """What a sender is told whose order will wait for these."""
    return [" ".join([PAUSE_WARNING, *(gap.for_sender for gap in gaps)])] if gaps else []


def reasons_for_sender(reasons: Sequence[str], environment: Environment) -> list[str]:
    """Why an order is held, with what only the service can mend in words for whoever sent it."""
    sender_texts = {gap.for_operator: gap.for_sender for gap in environment.readiness_gaps}
    return [sender_texts.get(reason, reason) for reason in reasons]


def find_price_gaps(tx: Tx, order_ids: Sequence[int], *, on: date) -> dict[int, list[str]]:
    """By order, a sentence for each destination that no price is in force for that day."""
    gaps: dict[int, list[str]] = {}
    for row in tx.execute(FIND_PRICE_GAPS, {"orders": list(order_ids), "on": on}):
        product_label = DISPLAY_TYPES.get((row.type, row.size), row.type)
        gaps.setdefault(row.id, []).append(
            f"No price is in force for {product_label} by {row.mail_class} class to {row.country}."
        )
    return gaps
