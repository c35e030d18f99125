"""Buying what a search has found: records onto a list and their fee into the ledger, both or neither."""

from datetime import datetime
from uuid import uuid4

import sqlalchemy as sa

from quillpost.accounts.billing import credit, ledger
from quillpost.accounts.billing.rules import dollars
from quillpost.accounts.models import Caller
from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import recipients
from quillpost.core.database.tables.leads import lead_purchases
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Invalid, NoMatch, Refused, Unpaid
from quillpost.recipients.leads.ports import LeadsProvider
from quillpost.recipients.leads.rules import Search
from quillpost.recipients.leads.search import Find
from quillpost.recipients.lists.queries import UNKNOWN_LIST, MailingList, lock_lists
from quillpost.recipients.lists.service import make_list
from quillpost.recipients.service import store_new

TELL = "leads.tell"
"""The task that tells a provider which of its records were bought."""
RADIUS = "radius"
"""The type of lists that a search fills."""
LONGEST_NAME = 300
PURCHASES_AT_ONCE = 1_000

ALL_THERE = "All whom this search has found are on the list already."
BARS = "This is a suppression list: nobody on it is mailed to. Name another list, or none."


def buy_onto_list(
    tx: Tx,
    who: Caller,
    sealer: Sealer,
    found: Find,
    search: Search,
    *,
    into: int | None,
    home: int | None,
    name: str | None = None,
    kind: str = RADIUS,
    needs_credit: bool = False,
    now: datetime,
) -> tuple[MailingList, Find]:
    """The list that they are on now, a new one of this `kind` or `into`, and who of them was bought. Where it
    `needs_credit` the account's must do."""
    if into is None:
        bought, onto = found, new_list(tx, who, sealer, search, home=home, name=name, kind=kind, now=now)
    else:
        onto = _held(tx, into)
        bought = found.without(_there(tx, onto, found))
        if not bought.people:
            raise NoMatch(ALL_THERE)
    put_on(tx, onto, bought, now=now)
    if needs_credit:
        _require(tx, who, bought.cents)
    note_purchase(tx, who, bought, onto, order_id=None, now=now)
    return onto, bought


def new_list(
    tx: Tx,
    who: Caller,
    sealer: Sealer,
    search: Search,
    *,
    home: int | None,
    name: str | None = None,
    kind: str = RADIUS,
    now: datetime,
) -> MailingList:
    """An empty one for what is bought, named after the search unless it has a name."""
    values = {
        "type": kind,
        "description": (name or f"Around {' '.join(search.address.split())}")[:LONGEST_NAME],
        "is_suppression_list": False,
        "sub_account_id": home,
    }
    return make_list(tx, who, sealer, values, now=now)


def put_on(tx: Tx, onto: MailingList, found: Find, *, now: datetime) -> None:
    """Everyone on the list, which is in our hands."""
    people = [(onto, person) for person in found.people]
    store_new(tx, people, are_samples=found.are_samples, now=now)


def note_purchase(
    tx: Tx, who: Caller, bought: Find, onto: MailingList, *, order_id: int | None, now: datetime
) -> None:
    """What was bought, its fee, and the job that tells whoever the records are from: with the records."""
    purchase = {
        "account_id": who.account_id,
        "sub_account_id": onto.sub_account_id,
        "mode": who.mode,
        "mailing_list_id": onto.id,
        "order_id": order_id,
        "records": len(bought.people),
        "cents": bought.cents,
        "reference": uuid4(),
        "lead_ids": bought.ids if bought.is_told else None,
        "created_at": now,
    }
    made = tx.execute(sa.insert(lead_purchases).values(purchase).returning(lead_purchases.c.id))
    purchase_id = int(made.scalar_one())
    ledger.charge_leads(
        tx,
        account_id=who.account_id,
        sub_account_id=onto.sub_account_id,
        mode=who.mode,
        purchase_id=purchase_id,
        cents=bought.cents,
        order_id=order_id,
        now=now,
    )
    if bought.is_told:
        jobs.defer(tx, TELL, purchase_id=purchase_id)


def tell(db: Database, provider: LeadsProvider, purchase_id: int, *, now: datetime) -> None:
    """Say which records were bought. Said twice, after a crash in between, it is the same purchase."""
    wanted = sa.select(lead_purchases).where(lead_purchases.c.id == purchase_id)
    with db.work() as tx:
        purchase = tx.execute(wanted).first()
    if purchase is None or purchase.lead_ids is None:
        return
    provider.bought(str(purchase.reference), purchase.lead_ids, now=now)
    with db.work() as tx:
        told = {"told_at": now, "lead_ids": None}
        tx.execute(sa.update(lead_purchases).where(lead_purchases.c.id == purchase_id).values(told))


def tell_again(db: Database) -> None:
    """Book the job for every purchase of which its source has not heard, and that no job is booked for."""
    with db.work() as tx:
        waiting = tx.execute(
            sa.select(lead_purchases.c.id)
            .where(lead_purchases.c.lead_ids.is_not(None))
            .order_by(lead_purchases.c.id)
            .limit(PURCHASES_AT_ONCE)
        )
        for purchase_id in waiting.scalars().all():
            if not jobs.is_waiting(tx, TELL, purchase_id=purchase_id) and not jobs.is_running(
                tx, TELL, purchase_id=purchase_id
            ):
                jobs.defer(tx, TELL, purchase_id=purchase_id)


def _held(tx: Tx, list_id: int) -> MailingList:
    onto = lock_lists(tx, [list_id]).get(list_id)
    if onto is None:
        raise Refused(UNKNOWN_LIST)
    if onto.is_suppression_list:
        raise Invalid({"mailing_list_id": [BARS]})
    return onto


def _there(tx: Tx, onto: MailingList, found: Find) -> set[str]:
    """Who has come onto the list since it was searched."""
    keys = [person.address_key for person in found.people]
    rows = tx.execute(
        sa.select(recipients.c.address_key).where(
            recipients.c.mailing_list_id == onto.id, recipients.c.address_key.in_(keys)
        )
    )
    return set(rows.scalars())


def _require(tx: Tx, who: Caller, cents: int) -> None:
    credit.take_turns(tx, who.account_id, who.mode)
    has = credit.credit(tx, who.mode)
    if has < cents:
        raise Unpaid(
            f"The account's credit of {dollars(has)} does not cover these records at {dollars(cents)}: "
            "add credit, or ask for fewer."
        )
