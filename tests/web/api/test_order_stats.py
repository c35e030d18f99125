"""What became of the orders of a time."""

from datetime import UTC, datetime

import pytest

from quillpost.accounts.billing.rules import format_dollars
from quillpost.app.container import Container
from support.bulk_orders import insert_orders
from support.factories import Account, Clock, make_sub_account, make_teammate, person, run_jobs_for

NOTHING = {
    "processing": 0, "printed": 0, "in_transit": 0, "in_local_area": 0, "processed_for_delivery": 0,
    "delivered": 0, "re_routed": 0, "returned_to_sender": 0, "failed": 0, "scans": 0, "multi_scans": 0,
    "total_cost": "$0.00", "total_requests": 0, "total_sent": 0,
}  # fmt: skip


def test_without_orders_everything_is_nothing(owner: Account) -> None:
    assert owner.get("/orders/stats").json() == NOTHING


@pytest.mark.usefixtures("clean_database")
def test_the_pieces_of_all_orders_are_added_up(owner: Account, container: Container, clock: Clock) -> None:
    audience = [person(), person(name="Test Returned", address="9 Oak Ave"), {"email": "e@example.com"}]
    owner.send(recipients=audience)
    owner.send(allow_duplicates=True)
    run_jobs_for(container, clock, seconds=45)
    cancelled = owner.send(recipients=[person(address="77 Elm St")]).json()["id"]
    owner.call("PUT", f"/orders/{cancelled}/cancel")
    owner.send(recipients=[person(address="78 Elm St")])
    assert owner.get("/orders/stats").json() == NOTHING | {
        "processing": 1,
        "delivered": 2,
        "returned_to_sender": 1,
        "failed": 2,
        "total_cost": "$4.36",
        "total_requests": 4,
        "total_sent": 3,
    }


def test_money_is_shown_as_a_person_reads_it(owner: Account, container: Container) -> None:
    insert_orders(container, owner.id, 10, pieces=1_234)
    assert owner.get("/orders/stats").json()["total_cost"] == "$13,450.60"


@pytest.mark.parametrize(
    ("cents", "shown"), [(0, "$0.00"), (-5, "-$0.05"), (-195, "-$1.95"), (-123_456, "-$1,234.56"), (5, "$0.05")]
)
def test_the_sign_stands_before_the_dollars(cents: int, shown: str) -> None:
    assert format_dollars(cents) == shown


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", 5),
        ("start_date=&end_date=", 5),
        ("start_date=2026-05-02", 4),
        ("end_date=2026-05-02", 3),
        ("start_date=2026-05-02&end_date=2026-05-02", 2),
        ("start_date=2026-05-02T12:00:00Z&end_date=2026-05-02T12:00:00Z", 1),
        ("start_date=2026-05-02T14:00:00%2B02:00&end_date=2026-05-02T14:00:00%2B02:00", 1),
        ("start_date=2026-05-02T14:00:00+02:00", 3),
        ("end_date=2026-05-02T11:59:59Z", 2),
        ("start_date=9999-12-31&end_date=9999-12-31", 0),
        ("start_date=0001-01-01&end_date=9999-12-31", 5),
        ("start_date=0001-01-01T00:00:00%2B14:00", 5),
    ],
)
def test_the_first_and_the_last_day_count(owner: Account, container: Container, query: str, found: int) -> None:
    for at in (
        datetime(2026, 5, 1, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 5, 2, 0, 0, 0, tzinfo=UTC),
        datetime(2026, 5, 2, 12, 0, 0, 500_000, tzinfo=UTC),
        datetime(2026, 5, 3, 0, 0, 0, tzinfo=UTC),
        datetime(2026, 5, 4, 0, 0, 0, tzinfo=UTC),
    ):
        insert_orders(container, owner.id, 1, at=at)
    assert owner.get(f"/orders/stats?{query}").json()["total_requests"] == found


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("start_date=yesterday", ["start_date"]),
        ("start_date=x&end_date=2026-02-30", ["start_date", "end_date"]),
        ("start_date=2026-05-02&end_date=2026-05-01", ["end_date"]),
        ("start_date=2026-05-02T12:00:01Z&end_date=2026-05-02T12:00:00Z", ["end_date"]),
        ("sub_account_id=x", ["sub_account_id"]),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(owner: Account, query: str, fields: list[str]) -> None:
    refused = owner.get(f"/orders/stats?{query}")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, fields)


def test_everyone_adds_up_their_own(owner: Account, stranger: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    for sub_account, how_many in ((mine, 1), (other, 2), (None, 4)):
        insert_orders(container, owner.id, how_many, sub_account_id=sub_account, pieces=1)
    insert_orders(container, owner.id, 8, mode="live")

    def requests(account: Account, query: str = "") -> int:
        found: int = account.get(f"/orders/stats?{query}").json()["total_requests"]
        return found

    assert (requests(owner), requests(owner, f"sub_account_id={mine}"), requests(stranger)) == (7, 1, 0)
    teammate = make_teammate(container, owner, mine)
    assert requests(teammate) == requests(teammate, f"sub_account_id={mine}") == 1
    for account, foreign in ((teammate, other), (stranger, mine), (owner, 999)):
        refused = account.get(f"/orders/stats?sub_account_id={foreign}")
        assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
