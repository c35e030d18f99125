"""Live orders and a verifier: what it says reaches the pieces before they are made."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from listing import entries, make_list, make_order
from loopback_house import said
from placing import CENTS, balances, item_rows, open_account, order_row, place
from pressing import READY, batch_rows, sweep
from verify_house import VerifyHouse, place_of

from makers import Build, Clock, do_due_jobs, person
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.cli.doctor.operations import check_addresses
from quillpost.core.database import Tenant
from quillpost.fulfillment import production, review
from quillpost.orders.mailed_items import verify
from quillpost.orders.materialization import materialise
from quillpost.privacy import do_not_mail
from quillpost.privacy.erasure import erase
from quillpost.privacy.models import whom_of
from quillpost.recipients.rules import SUPPRESSED
from quillpost.recipients.verification.service import LACKS_UNIT, MOVED_AWAY, NOT_DELIVERED_TO
from quillpost.recipients.verification.tasks import VERIFY

WAIT = 600
MAIN, ELM, OAK, PINE, ASH = (f"12 {name} St" for name in ("Main", "Elm", "Oak", "Pine", "Ash"))


@pytest.fixture
def house() -> Iterator[VerifyHouse]:
    with VerifyHouse() as house:
        house.knows = {
            "12 MAIN ST": {"dpv": "Y", "address": place_of("12 MAIN ST", "AUSTIN", "78701-2345")},
            "12 ELM ST": {"dpv": "N"},
            "12 OAK ST": {"dpv": "D"},
            "12 PINE ST": {"dpv": "Y", "moved": {"date": "2026-04", "address": place_of("9 NEW RD")}},
            "12 ASH ST": {"moved": {"date": "2026-04", "address": None}},
        }
        yield house


@pytest.fixture
def parts(build: Build, house: VerifyHouse) -> Parts:
    return build(**READY, **house.settings, verify_wait_seconds=WAIT, review_undeliverable_percent=100)


@pytest.fixture
def sender(parts: Parts) -> Caller:
    return open_account(parts, mode="live")


def verified(parts: Parts) -> None:
    assert parts.verifying is not None
    verify(parts.verifying)


def everyone() -> list[dict[str, Any]]:
    return [person(address=street) for street in (MAIN, ELM, OAK, PINE, ASH)]


def test_an_order_is_made_as_the_verifier_says_and_pays_for_what_is_mailed(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    order = place(parts, sender, everyone())
    verified(parts)
    sweep(parts, clock)
    with parts.db.work() as tx:
        rows = item_rows(tx, order)
        assert [(row.status, row.failure) for row in rows] == [
            ("Processing", None),
            ("Failed", NOT_DELIVERED_TO),
            ("Processing", None),
            ("Processing", None),
            ("Failed", MOVED_AWAY),
        ]
        assert rows[0].standard == ["12 MAIN ST", None, "AUSTIN", "TX", "78701-2345"]
        assert (rows[2].deliverability, rows[2].reasons) == ("doubtful", [LACKS_UNIT])
        assert (rows[3].address, rows[3].standard[0], rows[3].reasons) == (
            PINE, "9 NEW RD", ["They have moved: mail goes to their new address in DALLAS TX."],
        )  # fmt: skip
        assert balances(tx, order) == {"credit": -3 * CENTS, "held": 3 * CENTS, "earned": 0}
        [batch] = batch_rows(tx)
    production.compose(parts.press, batch.id, now=clock.now())
    manifest = parts.shelf.store.get(f"batches/{batch.id}/manifest.csv").decode()
    assert "9 NEW RD,,DALLAS,TX,75201-0001" in manifest
    assert "12 MAIN ST,,AUSTIN,TX,78701-2345" in manifest
    assert len(house.streets) == 5


def test_a_due_order_waits_for_answers_and_then_goes_on_without(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    house.answers = [said(503, b"down")] * 100
    order = place(parts, sender, [person(address=ELM)])
    sweep(parts, clock)
    do_due_jobs(parts)
    clock.advance(seconds=2)
    do_due_jobs(parts)
    with parts.db.work() as tx:
        assert (order_row(tx, order).status, batch_rows(tx)) == ("reviewing", [])
        finding = check_addresses(tx)
    assert finding.verdict == "warning"
    assert "not verified since 2026-05-04 12:00: 127.0.0.1 answered with status 503." in finding.what
    assert len(house.calls) >= 1
    clock.advance(seconds=WAIT)
    review.sweep(parts.press, now=clock.now())
    with parts.db.work() as tx:
        assert [row.status for row in item_rows(tx, order)] == ["Processing"]
        assert order_row(tx, order).status == "processing"


def test_answers_that_come_let_the_order_go_at_once(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    order = place(parts, sender, [person(address=MAIN)])
    sweep(parts, clock)
    with parts.db.work() as tx:
        assert order_row(tx, order).status == "reviewing"
        booked = tx.execute(sa.text("select task_name from procrastinate_jobs where status = 'todo'"))
        assert VERIFY in booked.scalars().all()
    for _ in range(3):
        clock.advance(seconds=1)
        do_due_jobs(parts)
    with parts.db.work() as tx:
        assert order_row(tx, order).status in ("processing", "printing")
        assert item_rows(tx, order)[0].standard[4] == "78701-2345"


def test_nobody_is_asked_about_twice(parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse) -> None:
    other = open_account(parts, "other@example.com", mode="live")
    for who in (sender, other):
        place(parts, who, [person(address=MAIN), person(address=ELM)])
        make_list(parts, who, [person(address="12 main street")])
        verified(parts)
    assert sorted(house.streets) == ["12 ELM ST", "12 MAIN ST"]
    # Somebody else there may have moved, or not.
    place(parts, sender, [person(address=MAIN, name="John Roe")])
    verified(parts)
    assert len(house.streets) == 3
    clock.advance(days=91)
    place(parts, sender, [person(address=MAIN)])
    verified(parts)
    assert house.streets[3:].count("12 MAIN ST") == 1


def test_what_is_only_tried_out_is_not_asked_about(parts: Parts, clock: Clock, house: VerifyHouse) -> None:
    order = place(parts, open_account(parts, mode="test"), everyone())
    verified(parts)
    sweep(parts, clock)
    with parts.db.work() as tx:
        assert order_row(tx, order).status == "processing"
    assert house.calls == []


def test_who_moved_to_a_barred_address_is_not_mailed(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    barred = {"address": "9 New Road", "city": "Dallas", "province": "TX", "postal_code": "75201"}
    make_list(parts, sender, [barred], suppresses=True)
    order = place(parts, sender, [person(address=PINE), person(address=MAIN)])
    verified(parts)
    sweep(parts, clock)
    with parts.db.work() as tx:
        found = [(row.status, row.failure) for row in item_rows(tx, order)]
    assert found == [("Failed", SUPPRESSED), ("Processing", None)]


NEW_HOME = {"address": "9 New Road", "city": "Dallas", "province": "TX", "postal_code": "75201"}


def found_in(parts: Parts, order_id: int) -> list[tuple[str, str, str | None]]:
    query = sa.text("select name, status, failure from items where order_id = :o order by id")
    with parts.db.work() as tx:
        return [tuple(row) for row in tx.execute(query, {"o": order_id})]


@pytest.mark.parametrize("is_barred_first", [True, False])
def test_who_moved_before_the_order_is_not_mailed_at_a_barred_address(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse, is_barred_first: bool
) -> None:
    """Their list was verified, so the order's piece has the new address from the first."""
    listed = make_list(parts, sender, [person(address=PINE), person(address=MAIN)])
    verified(parts)
    if is_barred_first:
        make_list(parts, sender, [NEW_HOME], suppresses=True)
    order = make_order(parts, sender, listed, return_address="1 Elm St")
    materialise(parts.db, order, now=clock.now())
    verified(parts)
    if not is_barred_first:
        make_list(parts, sender, [NEW_HOME], suppresses=True)
    with parts.db.work() as tx:
        late = tx.execute(sa.text("select count(*) from suppressed_items(:o)"), {"o": [order]}).scalar_one()
    assert (found_in(parts, order)[0][1:], late) == (
        (("Failed", SUPPRESSED), 0) if is_barred_first else (("Processing", None), 1)
    )
    assert found_in(parts, order)[1][1] == "Processing"


def test_who_moved_and_is_given_another_address_is_known_there_no_more(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    make_list(parts, sender, [person(address=PINE)])
    verified(parts)
    moved = sa.text("select moved_key is not null from recipients")
    with parts.db.work() as tx:
        assert tx.execute(moved).scalar_one()
        tx.execute(sa.text("update recipients set address_key = 'another', standard[1] = '12 ELM ST'"))
        assert not tx.execute(moved).scalar_one()


def test_whoever_holds_a_piece_that_followed_them_bars_where_it_went(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    order = place(parts, sender, [person(address=PINE)])
    verified(parts)
    with parts.db.work() as tx:
        tx.execute(sa.text("update items set code = 'ABCDEFGH'"))
        [piece] = item_rows(tx, order)
        do_not_mail.ask(tx, piece.code, now=clock.now())
    do_not_mail.take_in(parts.db, parts.sealer, clock=clock.now)
    with parts.db.work() as tx:
        barred = tx.execute(sa.text("select address, city, address_key from recipients")).one()
    assert tuple(barred) == ("9 NEW RD", "DALLAS", piece.moved_key)
    # Who asks to be erased there is found, too.
    with parts.db.work() as tx:
        whom = whom_of({"address": "9 New Road, Dallas, TX 75201"})
        assert erase(tx, parts.sealer, Tenant(sender.account_id), whom, now=clock.now()).erased["items"] == 1


def test_who_moved_away_does_not_stand_for_who_moved_in(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    one = make_list(parts, sender, [person(address=ASH)])
    verified(parts)
    house.knows = {}
    two = make_list(parts, sender, [person(address=ASH, name="New Tenant")])
    verified(parts)
    order = make_order(parts, sender, one, two)
    materialise(parts.db, order, now=clock.now())
    assert found_in(parts, order) == [
        ("Jane Doe", "Failed", MOVED_AWAY), ("New Tenant", "Processing", None),
    ]  # fmt: skip


def test_an_address_that_is_found_for_two_is_given_to_one(
    build: Build, clock: Clock, house: VerifyHouse
) -> None:
    parts = build(**READY, **house.settings, verifier_appends=True)
    who = open_account(parts, mode="live")
    for name in ("a", "b"):
        house.finds[f"{name}@example.com"] = place_of("12 OAK ST")
    house.finds["c@example.com"] = place_of("12 MAIN ST")
    house.finds["d@example.com"] = place_of("9 NEW RD")
    make_list(parts, who, [*({"email": f"{name}@example.com"} for name in "abcd"), NEW_HOME])
    verified(parts)
    with parts.db.work() as tx:
        found = tx.execute(sa.text("select address, standard[1] from recipients order by id")).all()
    assert [tuple(row) for row in found] == [
        ("12 OAK ST", "12 OAK ST"), (None, None), ("12 MAIN ST", "12 MAIN ST"), (None, None),
        ("9 New Road", "9 NEW RD"),
    ]  # fmt: skip


def test_an_order_of_which_too_much_does_not_arrive_waits_for_an_operator(
    build: Build, clock: Clock, house: VerifyHouse
) -> None:
    parts = build(**READY, **house.settings)
    who = open_account(parts, mode="live")
    order = place(parts, who, [person(address=street) for street in (MAIN, ELM, ASH)])
    verified(parts)
    sweep(parts, clock)
    with parts.db.work() as tx:
        row = order_row(tx, order)
    assert row.status == "paused"
    assert row.hold_reasons[0].startswith("2 of 3 recipients cannot be delivered to, more than 50 %")


def test_the_people_of_lists_are_verified_and_found(build: Build, clock: Clock, house: VerifyHouse) -> None:
    parts = build(**READY, **house.settings, verifier_appends=True)
    who = open_account(parts, mode="live")
    house.finds["joe@example.com"] = place_of("12 ELM ST")
    list_id = make_list(parts, who, [person(address=OAK), {"email": "Joe@example.com", "name": "Joe"},
                                     {"email": "nobody@example.com"}])  # fmt: skip
    make_list(parts, who, [person(address=PINE)], suppresses=True)
    clock.advance(minutes=1)
    verified(parts)
    shown = sa.text(
        "select address, city, deliverability, reasons[1] as why, updated_at from recipients"
        " where mailing_list_id = :list order by id"
    )
    with parts.db.work() as tx:
        first, found, unknown = tx.execute(shown, {"list": list_id}).all()
    assert (first.address, first.deliverability, first.why) == (OAK, "doubtful", LACKS_UNIT)
    assert (first.updated_at, unknown.address, unknown.deliverability) == (clock.now(), None, "undeliverable")
    assert (found.address, found.city, found.why) == (
        "12 ELM ST",
        "DALLAS",
        "The address was found by the e-mail.",
    )
    # What was found is an address like any other, and asked about when its turn comes.
    verified(parts)
    with parts.db.work() as tx:
        assert tx.execute(shown, {"list": list_id}).all()[1].why == NOT_DELIVERED_TO
    assert house.streets == ["12 OAK ST", "12 ELM ST"]
    order_id = make_order(parts, who, list_id, mode="live", return_address="1 Elm St")
    materialise(parts.db, order_id, now=clock.now())
    with parts.db.work() as tx:
        rows = tx.execute(sa.text("select status, standard[1] from items order by id")).all()
    assert [tuple(row) for row in rows] == [
        ("Processing", "12 OAK ST"), ("Failed", "12 ELM ST"), ("Failed", None),
    ]  # fmt: skip
    assert [cents for _, cents, _ in entries(parts, order_id)] == [CENTS]


def test_a_changed_address_is_asked_about_anew(parts: Parts, sender: Caller, house: VerifyHouse) -> None:
    make_list(parts, sender, [person(address=MAIN)])
    verified(parts)
    change = sa.text(
        "update recipients set address = '12 Elm St', address_key = 'another', standard[1] = '12 ELM ST'"
    )
    with parts.db.work() as tx:
        tx.execute(change)
    verified(parts)
    with parts.db.work() as tx:
        assert tx.execute(sa.text("select deliverability from recipients")).scalar_one() == "undeliverable"
        assert tx.execute(sa.text("select count(*) from recipients_to_verify")).scalar_one() == 0


def test_one_asks_at_a_time_and_a_dead_one_is_waited_for(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse
) -> None:
    place(parts, sender, [person(address=MAIN)])
    taken = sa.text(
        "insert into address_passes (name, rules, last_id, until_id, leased_until)"
        " values ('verify', 0, 0, 0, :until)"
    )
    with parts.db.work() as tx:
        tx.execute(taken, {"until": clock.now() + timedelta(minutes=1)})
    verified(parts)
    assert house.calls == []
    clock.advance(minutes=2)
    verified(parts)
    assert len(house.calls) == 1


def test_half_answers_are_kept_when_it_breaks_down(
    parts: Parts, clock: Clock, sender: Caller, house: VerifyHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.recipients.verification.service.A_CALL", 2)
    place(parts, sender, everyone())
    whole = house.hear
    calls = iter([whole, lambda *_: said(503), whole, whole, whole])
    monkeypatch.setattr(house, "hear", lambda *asked: next(calls)(*asked))
    verified(parts)
    assert len(house.streets) == 2
    verified(parts)
    assert sorted(house.streets) == sorted(
        {"12 MAIN ST", "12 ELM ST", "12 OAK ST", "12 PINE ST", "12 ASH ST"}
    )
