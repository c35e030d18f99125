"""Buy the records that a search found: onto a list and into the ledger, both or neither."""

from datetime import datetime
from uuid import uuid4

import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import recipients
from quillpost.core.database.tables.recipients import lead_purchases
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, NoMatch, Refused
from quillpost.recipients.leads.ports import LeadProvider
from quillpost.recipients.leads.rules import LeadSearch
from quillpost.recipients.leads.search import LeadSearchResult, search_leads
from quillpost.recipients.lists.queries import UNKNOWN_LIST, lock_lists, read_lists
from quillpost.recipients.lists.service import create_list
from quillpost.recipients.models import MailingList
from quillpost.recipients.service import insert_recipients

REPORT_PURCHASE_TASK = "leads.report_purchase"
RADIUS_LIST_TYPE = "radius"
MAX_LIST_NAME_LENGTH = 300
MAX_PURCHASES_PER_RUN = 1_000

ALL_ON_LIST = "All whom this search has found are on the list already."
SUPPRESSION_LIST_REFUSED = "This is a suppression list: nobody on it is mailed to. Name another list, or none."
SUB_ACCOUNT_OF_LIST = "The list has a sub account of its own, or none: leave this out, or name no list."
RECORDS_NOT_COVERED = "The account's credit of {} does not cover these records at {}: add credit, or ask for fewer."


def find_leads(
    db: Database,
    provider: LeadProvider,
    caller: Caller,
    search: LeadSearch,
    *,
    sub_account_id: int | None,
    mailing_list_id: int | None,
    now: datetime,
) -> tuple[LeadSearchResult, int | None]:
    """Whom the search finds who is not on the list yet, and the sub account that they are for."""
    owner_id = sub_account_id if sub_account_id is not None else caller.sub_account_id
    with db.transaction(build_tenant(caller)) as tx:
        if sub_account_id is not None:
            require_sub_account(tx, sub_account_id)
        if mailing_list_id is not None:
            [mailing_list] = read_lists(tx, [mailing_list_id])
            if mailing_list.is_suppression_list:
                raise Invalid({"mailing_list_id": [SUPPRESSION_LIST_REFUSED]})
            if sub_account_id not in (None, mailing_list.sub_account_id):
                raise Invalid({"sub_account_id": [SUB_ACCOUNT_OF_LIST]})
            owner_id = mailing_list.sub_account_id
    leads = search_leads(
        db, provider, caller, search, sub_account_id=owner_id, mailing_list_id=mailing_list_id, now=now
    )
    return leads, owner_id


def buy_onto_list(
    tx: Tx,
    caller: Caller,
    encryptor: Encryptor,
    result: LeadSearchResult,
    search: LeadSearch,
    *,
    mailing_list_id: int | None,
    sub_account_id: int | None,
    name: str | None = None,
    list_type: str = RADIUS_LIST_TYPE,
    needs_credit: bool = False,
    now: datetime,
) -> tuple[MailingList, LeadSearchResult]:
    """The list, a new one or `mailing_list_id`, and those who were bought. With `needs_credit` the credit must cover
    them."""
    if mailing_list_id is None:
        bought = result
        target_list = create_lead_list(
            tx, caller, encryptor, search, sub_account_id=sub_account_id, name=name, list_type=list_type, now=now
        )
    else:
        target_list = _lock_target_list(tx, mailing_list_id)
        bought = result.without(_find_keys_on_list(tx, target_list, result))
        if not bought.people:
            raise NoMatch(ALL_ON_LIST)
    add_to_list(tx, target_list, bought, now=now)
    if needs_credit:
        billing_service.require_credit(
            tx, caller.account_id, caller.mode, cents=bought.cents, sentence=RECORDS_NOT_COVERED
        )
    record_purchase(tx, caller, bought, target_list, order_id=None, now=now)
    return target_list, bought


def create_lead_list(
    tx: Tx,
    caller: Caller,
    encryptor: Encryptor,
    search: LeadSearch,
    *,
    sub_account_id: int | None,
    name: str | None = None,
    list_type: str = RADIUS_LIST_TYPE,
    now: datetime,
) -> MailingList:
    """An empty list, named after the search unless `name` is given."""
    values = {
        "type": list_type,
        "description": (name or f"Around {' '.join(search.address.split())}")[:MAX_LIST_NAME_LENGTH],
        "is_suppression_list": False,
        "sub_account_id": sub_account_id,
    }
    return create_list(tx, caller, encryptor, values, now=now)


def add_to_list(tx: Tx, target_list: MailingList, result: LeadSearchResult, *, now: datetime) -> None:
    people = [(target_list, person) for person in result.people]
    insert_recipients(tx, people, are_samples=result.are_samples, now=now)


def record_purchase(
    tx: Tx, caller: Caller, bought: LeadSearchResult, target_list: MailingList, *, order_id: int | None, now: datetime
) -> None:
    """Record the purchase, charge for it, and enqueue the report to the provider."""
    purchase = {
        "account_id": caller.account_id,
        "sub_account_id": target_list.sub_account_id,
        "mode": caller.mode,
        "mailing_list_id": target_list.id,
        "order_id": order_id,
        "records": len(bought.people),
        "cents": bought.cents,
        "reference": uuid4(),
        "lead_ids": bought.ids if bought.needs_purchase_report else None,
        "created_at": now,
    }
    inserted = tx.execute(sa.insert(lead_purchases).values(purchase).returning(lead_purchases.c.id))
    purchase_id = int(inserted.scalar_one())
    billing_service.charge_leads(
        tx,
        account_id=caller.account_id,
        sub_account_id=target_list.sub_account_id,
        mode=caller.mode,
        purchase_id=purchase_id,
        cents=bought.cents,
        order_id=order_id,
        now=now,
    )
    if bought.needs_purchase_report:
        jobs.enqueue(tx, REPORT_PURCHASE_TASK, purchase_id=purchase_id)


def report_purchase(db: Database, provider: LeadProvider, purchase_id: int, *, now: datetime) -> None:
    """Idempotent by the purchase's reference."""
    query = sa.select(lead_purchases).where(lead_purchases.c.id == purchase_id)
    with db.system_transaction() as tx:
        purchase = tx.execute(query).first()
    if purchase is None or purchase.lead_ids is None:
        return
    provider.confirm_purchase(str(purchase.reference), purchase.lead_ids, now=now)
    with db.system_transaction() as tx:
        values = {"told_at": now, "lead_ids": None}
        tx.execute(sa.update(lead_purchases).where(lead_purchases.c.id == purchase_id).values(values))


def enqueue_unreported_purchases(db: Database) -> None:
    """Enqueue the job of every unreported purchase that has none."""
    with db.system_transaction() as tx:
        unreported_ids = tx.execute(
            sa.select(lead_purchases.c.id)
            .where(lead_purchases.c.lead_ids.is_not(None))
            .order_by(lead_purchases.c.id)
            .limit(MAX_PURCHASES_PER_RUN)
        )
        for purchase_id in unreported_ids.scalars().all():
            if not jobs.is_waiting(tx, REPORT_PURCHASE_TASK, purchase_id=purchase_id) and not jobs.is_running(
                tx, REPORT_PURCHASE_TASK, purchase_id=purchase_id
            ):
                jobs.enqueue(tx, REPORT_PURCHASE_TASK, purchase_id=purchase_id)


def _lock_target_list(tx: Tx, list_id: int) -> MailingList:
    target_list = lock_lists(tx, [list_id]).get(list_id)
    if target_list is None:
        raise Refused(UNKNOWN_LIST)
    if target_list.is_suppression_list:
        raise Invalid({"mailing_list_id": [SUPPRESSION_LIST_REFUSED]})
    return target_list


def _find_keys_on_list(tx: Tx, target_list: MailingList, result: LeadSearchResult) -> set[str]:
    """Those added to the list since the search."""
    keys = [person.address_key for person in result.people]
    rows = tx.execute(
        sa.select(recipients.c.address_key).where(
            recipients.c.mailing_list_id == target_list.id, recipients.c.address_key.in_(keys)
        )
    )
    return set(rows.scalars())
