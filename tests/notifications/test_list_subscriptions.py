"""Subscriptions to a list's events while the list moves or is merged into another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.orders.items import queries as item_queries
from quillpost.recipients.lists.service import change_list, merge_lists
from support.list_rows import make_list, make_order, make_sub_account
from support.orders import open_account
from support.webhook_outbox import event_types, fan_out, set_columns, subscribe


@dataclass(frozen=True)
class Town:
    """A list of one sub account's, which listens to it, and another sub account."""

    container: Container
    owner: Caller
    here: Caller
    there: Caller
    list_id: int
    hook: WebhookSubscription

    def move(self, home: Caller) -> int:
        with self.container.db.transaction(build_tenant(self.owner)) as tx:
            changes = {"sub_account_id": home.sub_account_id}
            return change_list(tx, self.owner, self.list_id, changes, now=self.container.clock()).id

    def merge(self, home: Caller) -> int:
        into = make_list(self.container, self.owner, sub_account_id=home.sub_account_id)
        with self.container.db.transaction(build_tenant(self.owner)) as tx:
            return merge_lists(tx, self.list_id, into, clock=self.container.clock).id

    def ship(self, order_id: int, status: str) -> None:
        set_columns(self.container, orders, order_id, status=status)
        with self.container.db.system_transaction() as tx:
            item_queries.record_order_status_change(tx, [order_id], previous="reviewing", now=self.container.clock())
        fan_out(self.container)


@pytest.fixture
def town(container: Container) -> Town:
    owner = open_account(container)
    here, there = (replace(owner, sub_account_id=make_sub_account(container, owner)) for _ in "ab")
    list_id = make_list(container, owner, sub_account_id=here.sub_account_id)
    return Town(container, owner, here, there, list_id, subscribe(container, here, mailing_list_id=list_id))


Going = Callable[[Town, Caller], int]


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
def test_events_of_mail_under_way_are_sent_to_the_end(town: Town, goes: Going) -> None:
    order_id = make_order(town.container, town.here, town.list_id)
    town.ship(order_id, "processing")
    before = len(event_types(town.container, town.hook))
    goes(town, town.there)
    town.ship(order_id, "printing")
    assert len(event_types(town.container, town.hook)) == before + 1


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
@pytest.mark.parametrize("home", ["there", "owner"])
def test_nobody_hears_of_another_sub_accounts_mail(town: Town, goes: Going, home: str) -> None:
    list_id = goes(town, getattr(town, home))
    town.ship(make_order(town.container, town.there, list_id), "processing")
    assert event_types(town.container, town.hook) == []


def test_whoever_listened_to_a_merged_list_hears_of_the_other(town: Town) -> None:
    list_id = town.merge(town.here)
    town.ship(make_order(town.container, town.here, list_id), "processing")
    assert event_types(town.container, town.hook) != []
