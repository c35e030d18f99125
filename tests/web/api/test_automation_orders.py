"""Orders of automations that cannot be sent, that meet each other, and that are too many."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
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
from support.images import ImageServer
from support.rows import execute, scalar
from support.test_client import TestClient
from support.waiting import is_lock_awaited, wait_until

CENTS = 109
HOME = {"return_address": "1 Elm St, Austin, TX 78702"}


@pytest.fixture
def flow(owner: Account, container: Container, clock: Clock, clean_database: None) -> AutomationDriver:
    return AutomationDriver(owner, container, clock)


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


def list_emails(flow: AutomationDriver) -> list[tuple[str, str]]:
    """To whom what was written."""
    rows = execute(flow.container, sa.select(notices.c.address, notices.c.subject).order_by(notices.c.id))
    return [(row.address, row.subject) for row in rows]


def test_what_the_credit_does_not_cover_waits_until_it_does(paying: AutomationDriver) -> None:
    automation, visitors = paying.welcome("1 Main St", "2 Main St", send=SEND | HOME)
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
    sent = [("owner@example.com", f'Automation {automation} ("Welcome") cannot send')]
    assert list_emails(paying) == sent
    assert paying.account.get("/account").json()["credit"] == 0
    # A failure stops counting once nobody waits.
    [jane] = paying.lists.fill(visitors, "3 Main St")
    paying.work()
    assert paying.lists.delete(f"/recipients/{jane}").status_code == 200
    paying.pass_days(8)
    paying.lists.fill(visitors, "4 Main St")
    paying.work()
    known = paying.read(automation)
    assert (known["enabled"], known["waiting"], paying.row(automation).tries) == (True, 1, 1)
    assert list_emails(paying) == sent * 3, "each time it cannot send is told"


def test_it_tries_more_and_more_rarely_and_then_is_switched_off(paying: AutomationDriver) -> None:
    automation = paying.welcome("1 Main St", "2 Main St", send=SEND | HOME)[0]
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
    assert [subject for _, subject in list_emails(paying)] == [f"{named} cannot send", f"{named} is switched off"]


def test_what_its_owner_changes_is_tried_at_once(paying: AutomationDriver, art: ImageServer) -> None:
    visitors = paying.lists.make()
    pay_in(paying, 10 * CENTS)
    automation = paying.make(plan(visitors, send=SEND | HOME | {"front_image_url": art.picture()}))
    with paying.container.db.system_transaction() as tx:  # a picture that goes away after it was checked
        kept = sa.func.replace(automations.c.send, art.picture(), art.url("/gone"))
        tx.execute(sa.update(automations).values(send=kept))
    paying.lists.fill(visitors, "1 Main St")
    paying.work()
    assert paying.read(automation)["last_error"].startswith("send.front_image_url: ")
    assert paying.read(automation)["waiting"] == 1
    changed = paying.put(automation, send=SEND | HOME)
    assert (changed.json()["last_error"], changed.json()["waiting"]) == (None, 1)
    paying.clock.advance(seconds=1)
    run_due_jobs(paying.container)
    assert paying.mailed() == [["Jane Doe"]]


def test_one_that_cannot_send_holds_up_no_other(flow: AutomationDriver) -> None:
    homes = [flow.lists.make() for _ in range(3)]
    made = broken, refused, _ = [flow.make(plan(home)) for home in homes]
    with flow.container.db.system_transaction() as tx:
        for automation, send in ((broken, "[]"), (refused, '{"piece":"postcard","message":"%NICKNAME%"}')):
            tx.execute(sa.update(automations).where(automations.c.id == automation).values(send=send))
    for home in homes:
        flow.lists.fill(home, "1 Main St")
    flow.work()
    errors = [flow.read(each)["last_error"] for each in made]
    assert errors[0] == "Something went wrong on our side. It is tried again."
    assert errors[1].startswith("send.message: Unknown variable %NICKNAME%.")
    assert errors[2] is None
    assert [flow.read(each)["waiting"] for each in made] == [1, 1, 0]


def test_a_day_s_limit_puts_the_others_off_to_the_next_days(flow: AutomationDriver) -> None:
    automation, visitors = flow.welcome(*(f"{n} Main St" for n in range(1, 12)), daily_limit=4)
    for expected in ([4], [4, 4], [4, 4, 3]):
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
    assert list_emails(flow) == [("owner@example.com", limit)] * 2
    assert flow.read(automation)["last_error"] is None
    flow.lists.fill(visitors, *(f"{n} Elm St" for n in range(1, 7)))
    flow.work()
    assert flow.read(automation)["held_by"] == "daily_limit"
    assert flow.put(automation, daily_limit=5).json()["held_by"] is None
    flow.work()
    assert [len(names) for names in flow.mailed()] == [4, 4, 3, 4, 1], "a raised limit counts at once"
    assert flow.read(automation)["waiting"] == 1


def test_a_piece_by_hand_within_36_hours_is_not_repeated(flow: AutomationDriver) -> None:
    _, visitors = flow.welcome()
    flow.account.send(recipients=[person()], message=SEND["message"])
    flow.lists.fill(visitors, "12 Main St")
    flow.work()
    [item] = flow.items(flow.orders()[-1]["id"])
    assert item["failure"] == "The same piece went to this address less than 36 hours ago."


def context(flow: AutomationDriver) -> Any:
    return app_tasks.build_automation_context(flow.container)


def claimed(flow: AutomationDriver, automation: int) -> Any:
    found = automation_tasks._claim_next(context(flow), now=flow.clock.now())
    assert found is not None
    assert found.id == automation
    return found


@contextmanager
def meanwhile(owner: Any, name: str, act: Callable[[], object]) -> Iterator[None]:
    """Just before the function runs, something else is done."""
    usual = getattr(owner, name)

    def act_first(*given: Any, **more: Any) -> Any:
        act()
        return usual(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, act_first)
        yield


def test_two_workers_mail_everyone_once(flow: AutomationDriver) -> None:
    homes = [flow.lists.make() for _ in range(4)]
    made = [flow.make(plan(each, send=SEND | {"message": f"Hi {each}!"})) for each in homes]
    for each in homes:
        flow.lists.fill(each, *(f"{n} Main St" for n in range(1, 21)))
    both = Barrier(2)

    def work(_: int) -> None:
        both.wait()
        automation_tasks.send_due(context(flow))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert [flow.read(each)["sent_count"] for each in made] == [20] * 4
    assert [len(stored_progress(flow.container, each)) for each in made] == [20] * 4


def test_two_workers_with_the_same_people_place_one_order(flow: AutomationDriver) -> None:
    """A lease may run out while its holder still works: both come to place the order."""
    automation = flow.welcome("1 Main St", "2 Main St")[0]
    both, found = Barrier(2, timeout=30), claimed(flow, automation)
    with meanwhile(automation_tasks, "_create_order", both.wait), ThreadPoolExecutor(2) as pool:
        done = [pool.submit(automation_tasks._process, context(flow), found, now=flow.clock.now()) for _ in range(2)]
        for each in done:
            each.result()
    assert flow.mailed() == [["Jane Doe", "Jane Doe"]]
    assert flow.read(automation)["sent_count"] == 2


def test_what_its_owner_changes_while_it_prepares_holds(flow: AutomationDriver) -> None:
    changes: list[dict[str, Any]] = [{"enabled": False}, {"send": SEND | {"message": "No!"}}]
    for change in changes:
        automation = flow.welcome("1 Main St")[0]
        with meanwhile(order_service, "store_files", partial(flow.put, automation, **change)):
            automation_tasks._process(context(flow), claimed(flow, automation), now=flow.clock.now())
        assert flow.orders() == []
        flow.work()
    assert [order["message"] for order in flow.orders()] == ["No!"]


def test_a_worker_that_dies_before_the_end_has_done_nothing(flow: AutomationDriver) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    automation = flow.welcome("1 Main St")[0]
    before = count_rows(flow.container)
    for step in ("insert_rows", "_record_success"):
        with meanwhile(automation_tasks, step, die), pytest.raises(KeyboardInterrupt):
            automation_tasks.send_due(context(flow))
        assert count_rows(flow.container) == before
        flow.work()
        assert flow.orders() == [], "for a while it is still the dead worker's"
        flow.clock.advance(seconds=automation_rules.LEASE_DURATION.total_seconds())
    flow.work()
    assert flow.mailed() == [["Jane Doe"]]
    assert flow.read(automation)["waiting"] == 0


def test_people_come_and_go_while_an_order_is_placed(flow: AutomationDriver) -> None:
    """Neither waits for the other, and whoever has gone is not mailed."""
    automation, visitors = flow.welcome()
    [jane] = flow.lists.fill(visitors, "1 Main St")
    found = claimed(flow, automation)
    flow.lists.delete(f"/recipients/{jane}")
    automation_tasks._process(context(flow), found, now=flow.clock.now())
    assert (flow.orders(), flow.read(automation)["waiting"]) == ([], 0)
    flow.lists.fill(visitors, "2 Main St")
    flow.clock.advance(seconds=automation_rules.LEASE_DURATION.total_seconds())
    with meanwhile(automation_queries, "delete_due_rows", lambda: flow.lists.fill(visitors, "3 Main St")):
        automation_tasks._process(context(flow), claimed(flow, automation), now=flow.clock.now())
    assert flow.read(automation)["waiting"] == 1
    flow.work()
    assert [len(names) for names in flow.mailed()] == [1, 1]


def test_a_template_is_not_deleted_while_an_automation_that_names_it_is_made(flow: AutomationDriver) -> None:
    named = {"type": "postcard", "name": "Hi", "content": "Hi!", "handwriting_style_id": 1}
    template = flow.account.post("/message-templates", named).json()["id"]
    deleted: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def delete() -> None:
            deleted.append(pool.submit(flow.account.delete, f"/message-templates/{template}"))
            wait_until(lambda: is_lock_awaited(flow.container) or deleted[0].done())

        with meanwhile(automation_queries, "insert_automation", delete):
            automation = flow.make(plan(flow.lists.make(), send=SEND | {"message_template": template}))
        error = deleted[0].result().json()["message"]
    assert error.startswith(f"Automation {automation} ")


def test_a_large_import_is_mailed_in_several_orders(flow: AutomationDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert automation_rules.MAX_PEOPLE_PER_ORDER == 5_000
    monkeypatch.setattr(automation_rules, "MAX_PEOPLE_PER_ORDER", 50)
    visitors = flow.lists.make()
    automation = flow.make(birthday(visitors, daily_limit=70))
    rows = [each | {"mailing_list_id": visitors, "dob": "1990-05-04"} for each in people(80)]
    flow.account.post("/recipients_multi", rows)
    flow.work()
    assert [order["recipient_count"] for order in flow.orders()] == [50, 20]
    assert flow.read(automation)["waiting"] == 10
    assert scalar(flow.container, sa.select(sa.func.count()).select_from(automation_due)) == 10
