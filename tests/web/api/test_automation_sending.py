"""Automations that cannot send, that meet each other, and that have too much to do."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import automation_due, automations, notices
from quillpost.orders import service as order_service
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations import rules as automation_rules
from quillpost.orders.automations import tasks as automation_tasks
from quillpost.web.application import create_app
from support.automations import SEND, AutomationDriver, birthday, plan, stored_progress
from support.factories import Account, Build, Clock, count_rows, make_account, make_live, people, person, run_due_jobs
from support.image_server import ImageServer
from support.mailing_lists import ListOwner
from support.test_client import TestClient
from support.waiting import wait_until

CENTS = 109
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}
WAITING = sa.text("select count(*) from pg_locks where not granted")


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


@pytest.fixture
def paying(build: Build, clock: Clock) -> Iterator[AutomationDriver]:
    """Someone whose credit must cover what is sent, and has none."""
    container = build(credit_control=True, allow_private_urls=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        yield AutomationDriver(make_live(container, owner), container, clock)


def pay_in(flow: AutomationDriver, cents: int) -> None:
    with flow.container.db.system_transaction() as tx:
        key = secrets.token_hex(8)
        billing_service.deposit(tx, flow.account.id, cents=cents, key=key, note=None, now=flow.clock.now())


def list_emails(container: Container) -> list[tuple[str, str]]:
    """To whom what was written."""
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(notices.c.address, notices.c.subject).order_by(notices.c.id))
        return [(row.address, row.subject) for row in rows]


def test_what_the_credit_does_not_cover_waits_until_it_does(paying: AutomationDriver) -> None:
    visitors = ListOwner(paying.account).make()
    automation = paying.make(plan(visitors, send=SEND | HOME))
    ListOwner(paying.account).fill(visitors, "1 Main St", "2 Main St")
    before = count_rows(paying.container)
    paying.work()
    known = paying.read(automation)
    assert (known["enabled"], known["waiting"], known["sent_count"]) == (True, 2, 0)
    assert known["last_error"].startswith("The account's credit of $0.00 does not cover this order of $2.18")
    assert known["last_error_at"] == "2026-05-04T12:00:00Z"
    after = count_rows(paying.container)
    assert {name for name in after if after[name] != before[name]} == {"notices"}
    pay_in(paying, 2 * CENTS)
    paying.work()
    assert paying.orders() == [], "not before its time"
    paying.clock.advance(minutes=1)
    paying.work()
    known = paying.read(automation)
    assert (known["sent_count"], known["waiting"], known["last_error"]) == (2, 0, None)
    assert list_emails(paying.container) == [("owner@example.com", f'Automation {automation} ("Welcome") cannot send')]
    assert paying.account.get("/account").json()["credit"] == 0


def test_it_tries_more_and_more_rarely_and_then_is_switched_off(paying: AutomationDriver) -> None:
    visitors = ListOwner(paying.account).make()
    automation = paying.make(plan(visitors, send=SEND | HOME))
    ListOwner(paying.account).fill(visitors, "1 Main St", "2 Main St")
    tried: list[datetime] = []
    while (row := paying.row(automation)).enabled:
        paying.clock.advance(seconds=(row.next_at - paying.clock.now()).total_seconds() - 1)
        paying.work_of_sending()
        assert paying.row(automation).tries == len(tried), "not before its time"
        paying.clock.advance(seconds=1)
        paying.work_of_sending()
        tried.append(paying.clock.now())
    gaps = [later - earlier for earlier, later in pairwise(tried)]
    assert gaps[:4] == list(automation_rules.RETRY_DELAYS[:4])
    assert set(gaps[4:-1]) == {automation_rules.RETRY_DELAYS[-1]}
    assert tried[-1] - tried[0] >= automation_rules.GIVE_UP_AFTER
    known = paying.read(automation)
    assert (known["enabled"], known["waiting"], known["sent_count"]) == (False, 0, 0)
    assert known["last_error"].endswith("Switched off after 7 days of this: 2 people were not mailed to.")
    named = f'Automation {automation} ("Welcome")'
    assert [subject for _, subject in list_emails(paying.container)] == [
        f"{named} cannot send",
        f"{named} is switched off",
    ]


def test_a_failure_stops_counting_once_nobody_is_waiting(paying: AutomationDriver) -> None:
    lists = ListOwner(paying.account)
    visitors = lists.make()
    automation = paying.make(plan(visitors, send=SEND | HOME))
    [jane] = lists.fill(visitors, "1 Main St")
    paying.work()
    assert lists.delete(f"/recipients/{jane}").status_code == 200
    paying.pass_days(8)
    lists.fill(visitors, "2 Main St")
    paying.work()
    known = paying.read(automation)
    assert (known["enabled"], known["waiting"], paying.row(automation).tries) == (True, 1, 1)
    assert [subject for _, subject in list_emails(paying.container)] == [
        f'Automation {automation} ("Welcome") cannot send'
    ] * 2, "each trouble is told"


def test_what_its_owner_mends_is_tried_at_once(paying: AutomationDriver, art: ImageServer) -> None:
    visitors = ListOwner(paying.account).make()
    pay_in(paying, 10 * CENTS)
    automation = paying.make(plan(visitors, send=SEND | HOME | {"front_image_url": art.picture()}))
    with paying.container.db.system_transaction() as tx:  # a picture that goes away after it was checked
        kept = sa.func.replace(automations.c.send, art.picture(), art.url("/gone"))
        tx.execute(sa.update(automations).values(send=kept))
    ListOwner(paying.account).fill(visitors, "1 Main St")
    paying.work()
    assert paying.read(automation)["last_error"].startswith("send.front_image_url: ")
    assert paying.read(automation)["waiting"] == 1
    mended = paying.put(automation, send=SEND | HOME)
    assert (mended.json()["last_error"], mended.json()["waiting"]) == (None, 1)
    paying.clock.advance(seconds=1)
    run_due_jobs(paying.container)
    assert paying.mailed() == [["Jane Doe"]]


def test_one_that_cannot_send_holds_up_no_other(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (lists.make() for _ in range(3))
    broken = flow.make(plan(first, name="Broken"))
    refused = flow.make(plan(second, name="Refused"))
    fine = flow.make(plan(third, name="Fine"))
    with flow.container.db.system_transaction() as tx:
        spoil = sa.update(automations).where(automations.c.id == broken)
        tx.execute(spoil.values(send="[]"))
        tx.execute(
            sa.update(automations)
            .where(automations.c.id == refused)
            .values(send='{"piece":"postcard","message":"%NICKNAME%"}')
        )
    for each in (first, second, third):
        lists.fill(each, "1 Main St")
    flow.work()
    errors = [flow.read(each)["last_error"] for each in (broken, refused, fine)]
    assert errors[0] == "Something went wrong on our side. It is tried again."
    assert errors[1].startswith("send.message: Unknown variable %NICKNAME%.")
    assert errors[2] is None
    assert [flow.read(each)["waiting"] for each in (broken, refused, fine)] == [1, 1, 0]


def test_a_day_s_limit_puts_the_others_off_to_the_next_days(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors, daily_limit=40))
    lists.fill(visitors, *(f"{n} Main St" for n in range(1, 101)))
    for expected in ([40], [40, 40], [40, 40, 20]):
        for _ in range(2):
            flow.work()
            assert [len(names) for names in flow.mailed()] == expected
            known = flow.read(automation)
            tomorrow = f"2026-05-{flow.clock.now().day + 1:02}T00:00:00Z"
            held = ("daily_limit", tomorrow) if known["waiting"] else (None, None)
            assert (known["held_by"], known["held_until"]) == held
            assert known["last_order_id"] == flow.orders()[-1]["id"]
        flow.clock.advance(days=1)
    limit = f'Automation {automation} ("Welcome") has reached its limit for today'
    assert list_emails(flow.container) == [("owner@example.com", limit)] * 2
    assert flow.read(automation)["last_error"] is None


def test_a_raised_limit_counts_at_once(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors, daily_limit=1))
    lists.fill(visitors, "1 Main St", "2 Main St", "3 Main St")
    flow.work()
    assert flow.read(automation)["held_by"] == "daily_limit"
    assert flow.put(automation, daily_limit=2).json()["held_by"] is None
    flow.work()
    assert [len(names) for names in flow.mailed()] == [1, 1]
    assert flow.read(automation)["waiting"] == 1


def test_a_piece_by_hand_within_36_hours_is_not_repeated(flow: AutomationDriver, lists: ListOwner) -> None:
    visitors = lists.make()
    flow.make(plan(visitors))
    flow.account.send(recipients=[person()], message=SEND["message"])
    lists.fill(visitors, "12 Main St")
    flow.work()
    [item] = flow.items(flow.orders()[-1]["id"])
    assert item["failure"] == "The same piece went to this address less than 36 hours ago."


def means(flow: AutomationDriver) -> Any:
    return app_tasks.build_automation_context(flow.container)


def test_two_workers_mail_everyone_once(flow: AutomationDriver, lists: ListOwner) -> None:
    homes = [lists.make() for _ in range(4)]
    made = [flow.make(plan(each, send=SEND | {"message": f"Hi {each}!"})) for each in homes]
    for each in homes:
        lists.fill(each, *(f"{n} Main St" for n in range(1, 21)))
    both = Barrier(2)

    def work(_: int) -> None:
        both.wait()
        automation_tasks.send_due(means(flow))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert [flow.read(each)["sent_count"] for each in made] == [20] * 4
    assert [len(stored_progress(flow.container, each)) for each in made] == [20] * 4


def test_two_workers_with_the_same_people_place_one_order(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may run out while its holder still works: both come to place the order."""
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St", "2 Main St")
    both, place = Barrier(2), automation_tasks._create_order

    def together(*given: Any, **more: Any) -> None:
        both.wait(timeout=30)
        place(*given, **more)

    monkeypatch.setattr(automation_tasks, "_create_order", together)
    found = claimed(flow, automation)
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(automation_tasks._process, means(flow), found, now=flow.clock.now()) for _ in range(2)]
        for each in done:
            each.result()
    assert flow.mailed() == [["Jane Doe", "Jane Doe"]]
    assert flow.read(automation)["sent_count"] == 2


def claimed(flow: AutomationDriver, automation: int) -> Any:
    found = automation_tasks._claim_next(means(flow), now=flow.clock.now())
    assert found is not None
    assert found.id == automation
    return found


@pytest.mark.parametrize("change", [{"enabled": False}, {"send": SEND | {"message": "No!"}}])
def test_what_its_owner_changes_while_it_prepares_holds(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    keep = order_service.store_files

    def meanwhile(*given: Any, **more: Any) -> Any:
        assert flow.put(automation, **change).status_code == 200
        return keep(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(order_service, "store_files", meanwhile)
        found = claimed(flow, automation)
        automation_tasks._process(means(flow), found, now=flow.clock.now())
    assert flow.orders() == []
    flow.work()
    assert [order["message"] for order in flow.orders()] == (["No!"] if "send" in change else [])


def dies_at(where: str) -> Callable[..., Any]:
    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt(where)

    return die


@pytest.mark.parametrize("step", ["insert_rows", "_record_success"])
def test_a_worker_that_dies_before_the_end_has_done_nothing(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    before = count_rows(flow.container)
    with monkeypatch.context() as patch:
        patch.setattr(automation_tasks, step, dies_at(step))
        with pytest.raises(KeyboardInterrupt):
            automation_tasks.send_due(means(flow))
    assert count_rows(flow.container) == before
    flow.work()
    assert flow.orders() == [], "for a while it is still the dead worker's"
    flow.clock.advance(seconds=automation_rules.LEASE_DURATION.total_seconds())
    flow.work()
    assert flow.mailed() == [["Jane Doe"]]
    assert flow.read(automation)["waiting"] == 0


def test_people_come_onto_the_list_while_an_order_is_placed(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for the other."""
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    lists.fill(visitors, "1 Main St")
    settle = automation_queries.delete_due_rows

    def meanwhile(*given: Any, **more: Any) -> None:
        assert len(lists.fill(visitors, "2 Main St")) == 1
        settle(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(automation_queries, "delete_due_rows", meanwhile)
        automation_tasks._process(means(flow), claimed(flow, automation), now=flow.clock.now())
    assert flow.read(automation)["waiting"] == 1
    flow.work()
    assert [len(names) for names in flow.mailed()] == [1, 1]


def test_a_list_that_is_deleted_meanwhile_waits_for_the_order(flow: AutomationDriver, lists: ListOwner) -> None:
    """The list cannot go while the automation is switched on; its people can, and are not mailed then."""
    visitors = lists.make()
    automation = flow.make(plan(visitors))
    [jane] = lists.fill(visitors, "1 Main St")
    found = claimed(flow, automation)
    lists.delete(f"/recipients/{jane}")
    automation_tasks._process(means(flow), found, now=flow.clock.now())
    assert (flow.orders(), flow.read(automation)["waiting"]) == ([], 0)


def test_a_template_is_not_deleted_while_an_automation_that_names_it_is_made(
    flow: AutomationDriver, lists: ListOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = flow.account.post(
        "/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!", "handwriting_style_id": 1}
    ).json()["id"]
    visitors = lists.make()
    insert = automation_queries.insert_automation
    deleted: list[Any] = []

    with ThreadPoolExecutor(1) as pool:

        def meanwhile(*given: Any, **more: Any) -> Any:
            deleted.append(pool.submit(flow.account.delete, f"/message-templates/{template}"))
            wait_until(lambda: someone_waits(flow.container) or deleted[0].done())
            return insert(*given, **more)

        monkeypatch.setattr(automation_queries, "insert_automation", meanwhile)
        automation = flow.make(plan(visitors, send=SEND | {"message_template": template}))
        error = deleted[0].result().json()["message"]
    assert error.startswith(f"Automation {automation} ")


def someone_waits(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return int(tx.execute(WAITING).scalar_one()) > 0


def test_an_import_of_many_is_due_in_one_statement_and_mailed_in_orders_of_five_thousand(
    flow: AutomationDriver, lists: ListOwner
) -> None:
    visitors = lists.make()
    automation = flow.make(birthday(visitors, daily_limit=7_000))
    rows = [each | {"mailing_list_id": visitors, "dob": "1990-05-04"} for each in people(8_000)]
    for start in (0, 4_000):
        flow.account.post("/recipients_multi", rows[start : start + 4_000])
    flow.work()
    assert [order["recipient_count"] for order in flow.orders()] == [5_000, 2_000]
    assert flow.read(automation)["waiting"] == 1_000
    with flow.container.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(automation_due)).scalar_one() == 1_000
