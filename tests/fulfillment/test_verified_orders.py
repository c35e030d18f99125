"""Live orders and a verifier: what it says reaches the pieces before they are made."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.cli.doctor.operations import check_addresses
from quillpost.core.database import Tenant
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.models import Order
from quillpost.orders.tasks import materialize_order, verify_addresses
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.erasure.service import erase_subject
from quillpost.recipients.rules import SUPPRESSED
from quillpost.recipients.verification.service import MISSING_UNIT, MOVED_AWAY, NOT_DELIVERED_TO, delete_expired_results
from quillpost.recipients.verification.tasks import VERIFY_TASK
from support.factories import Build, Clock, person, run_due_jobs
from support.fake_server import respond
from support.mailing_lists import ledger_entries, make_list, make_order
from support.orders import CENTS, balances, create_order, item_rows, open_account, order_row
from support.production import LIVE_SETTINGS, batch_rows, compose, sweep_due_orders
from support.rows import execute, run, scalar, scalars
from support.verification_server import VerificationServer, place_of

WAIT = 600
MAIN, ELM, OAK, PINE, ASH = (f"12 {name} St" for name in ("Main", "Elm", "Oak", "Pine", "Ash"))


@pytest.fixture
def house() -> Iterator[VerificationServer]:
    with VerificationServer() as house:
        house.knows = {
            "12 MAIN ST": {"dpv": "Y", "address": place_of("12 MAIN ST", "AUSTIN", "78701-2345")},
            "12 ELM ST": {"dpv": "N"},
            "12 OAK ST": {"dpv": "D"},
            "12 PINE ST": {"dpv": "Y", "moved": {"date": "2026-04", "address": place_of("9 NEW RD")}},
            "12 ASH ST": {"moved": {"date": "2026-04", "address": None}},
        }
        yield house


@pytest.fixture
def container(build: Build, house: VerificationServer) -> Container:
    return build(**LIVE_SETTINGS, **house.settings, verify_wait_seconds=WAIT, review_undeliverable_percent=100)


@pytest.fixture
def sender(container: Container) -> Caller:
    return open_account(container, mode="live")


def verified(container: Container) -> None:
    assert container.verification is not None
    verify_addresses(container.verification)


def everyone() -> list[dict[str, Any]]:
    return [person(address=street) for street in (MAIN, ELM, OAK, PINE, ASH)]


def listed_order(container: Container, caller: Caller, *lists: int, **values: Any) -> int:
    order_id = make_order(container, caller, *lists, mode="live", return_address="1 Elm St", **values)
    materialize_order(container.db, order_id, now=container.clock())
    return order_id


def fates(container: Container, order: Order | int) -> list[tuple[str, str | None]]:
    return [(row.status, row.failure) for row in item_rows(container, order)]


MADE = ("Processing", None)


def test_an_order_is_made_as_the_verifier_says_and_pays_for_what_is_mailed(
    container: Container, clock: Clock, sender: Caller, house: VerificationServer
) -> None:
    order = create_order(container, sender, everyone())
    of_test = create_order(container, open_account(container, "test@example.com"), everyone())
    verified(container)
    sweep_due_orders(container, clock)
    assert fates(container, order) == [MADE, ("Failed", NOT_DELIVERED_TO), MADE, MADE, ("Failed", MOVED_AWAY)]
    main, _, oak, pine, _ = item_rows(container, order)
    assert main.standard == ["12 MAIN ST", None, "AUSTIN", "TX", "78701-2345"]
    assert (oak.deliverability, oak.reasons) == ("doubtful", [MISSING_UNIT])
    moved = "They have moved: mail goes to their new address in DALLAS TX."
    assert (pine.address, pine.standard[0], pine.reasons) == (PINE, "9 NEW RD", [moved])
    assert balances(container, order) == {"credit": -3 * CENTS, "held": 3 * CENTS, "earned": 0}
    [batch_id] = [batch.id for batch in batch_rows(container) if batch.mode == "live"]
    compose(container, batch_id)
    manifest = container.storage.store.get(f"batches/{batch_id}/manifest.csv").decode()
    assert "9 NEW RD,,DALLAS,TX,75201-0001" in manifest
    assert "12 MAIN ST,,AUSTIN,TX,78701-2345" in manifest
    assert len(house.streets) == 5, "addresses of test orders are not verified"
    assert order_row(container, of_test).status == "processing"


def test_a_due_order_waits_for_answers_and_then_goes_on_without(
    container: Container, clock: Clock, sender: Caller, house: VerificationServer
) -> None:
    house.answers = [respond(503, b"down")] * 100
    order = create_order(container, sender, [person(address=ELM)])
    sweep_due_orders(container, clock)
    run_due_jobs(container)
    clock.advance(seconds=2)
    run_due_jobs(container)
    with container.db.system_transaction() as tx:
        assert (order_row(tx, order).status, batch_rows(tx)) == ("reviewing", [])
        finding = check_addresses(tx)
    assert finding.status == "warning"
    assert "not verified since 2026-05-04 12:00: 127.0.0.1 answered with status 503." in finding.message
    assert len(house.calls) >= 1
    clock.advance(seconds=WAIT)
    review_service.sweep_due_orders(container.production, now=clock.now())
    assert [row.status for row in item_rows(container, order)] == ["Processing"]
    assert order_row(container, order).status == "processing"


def test_answers_that_come_let_the_order_go_at_once(container: Container, clock: Clock, sender: Caller) -> None:
    order = create_order(container, sender, [person(address=MAIN)])
    sweep_due_orders(container, clock)
    assert order_row(container, order).status == "reviewing"
    assert VERIFY_TASK in scalars(container, "select task_name from procrastinate_jobs where status = 'todo'")
    for _ in range(3):
        clock.advance(seconds=1)
        run_due_jobs(container)
    assert order_row(container, order).status in ("processing", "printing")
    assert item_rows(container, order)[0].standard[4] == "78701-2345"


def test_an_address_is_sent_once(container: Container, clock: Clock, sender: Caller, house: VerificationServer) -> None:
    other = open_account(container, "other@example.com", mode="live")
    for caller in (sender, other):
        create_order(container, caller, [person(address=MAIN), person(address=ELM)])
        make_list(container, caller, [person(address="12 main street")])
        verified(container)
    assert sorted(house.streets) == ["12 ELM ST", "12 MAIN ST"]
    # Somebody else there may have moved, or not.
    create_order(container, sender, [person(address=MAIN, name="John Roe")])
    verified(container)
    assert len(house.streets) == 3
    clock.advance(days=91)
    create_order(container, sender, [person(address=MAIN)])
    verified(container)
    assert house.streets[3:].count("12 MAIN ST") == 1
    delete_expired_results(container.db, now=clock.now())
    assert execute(container, "select expires_at > :now from address_verdicts", now=clock.now()) == [(True,)]


NEW_HOME = {"address": "9 New Road", "city": "Dallas", "province": "TX", "postal_code": "75201"}


def test_a_move_to_a_suppressed_address_is_not_mailed(container: Container, clock: Clock, sender: Caller) -> None:
    make_list(container, sender, [NEW_HOME], suppresses=True)
    order = create_order(container, sender, [person(address=PINE), person(address=MAIN)])
    verified(container)
    sweep_due_orders(container, clock)
    assert fates(container, order) == [("Failed", SUPPRESSED), MADE]


def test_whoever_moved_earlier_is_not_mailed_at_a_suppressed_address(container: Container, sender: Caller) -> None:
    """Their list was verified, so an order's pieces have the new address from the first."""
    listed = make_list(container, sender, [person(address=PINE), person(address=MAIN)])
    verified(container)
    late = listed_order(container, sender, listed)
    make_list(container, sender, [NEW_HOME], suppresses=True)
    order = listed_order(container, sender, listed, allow_duplicates=True)
    verified(container)
    assert [fates(container, each) for each in (late, order)] == [[MADE, MADE], [("Failed", SUPPRESSED), MADE]]
    suppressed = "select count(*) from suppressed_items(:o)"
    assert [scalar(container, suppressed, o=[each]) for each in (late, order)] == [1, 0]


def test_a_changed_address_is_verified_again_and_discards_a_move(container: Container, sender: Caller) -> None:
    make_list(container, sender, [person(address=PINE)])
    verified(container)
    moved = "select moved_key is not null from recipients"
    assert scalar(container, moved)
    change = "update recipients set address = '12 Elm St', address_key = 'another', standard[1] = '12 ELM ST'"
    execute(container, change)
    assert not scalar(container, moved)
    verified(container)
    assert scalar(container, "select deliverability from recipients") == "undeliverable"
    assert scalar(container, "select count(*) from recipients_to_verify") == 0


def test_an_opt_out_of_a_piece_bars_where_it_followed_them(container: Container, clock: Clock, sender: Caller) -> None:
    order = create_order(container, sender, [person(address=PINE)])
    verified(container)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set code = 'ABCDEFGH'"))
        [piece] = item_rows(tx, order)
        privacy_tasks.record_request(tx, piece.code, now=clock.now())
    privacy_tasks.process_requests(container.db, container.encryptor, clock=clock.now)
    suppressed = execute(container, "select address, city, address_key from recipients")
    assert suppressed == [("9 NEW RD", "DALLAS", piece.moved_key)]
    # Who asks to be erased there is found, too.
    whom, tenant = parse_subject({"address": "9 New Road, Dallas, TX 75201"}), Tenant(sender.account_id)
    assert run(container, erase_subject, container.encryptor, tenant, whom, now=clock.now()).erased["items"] == 1


def test_the_new_resident_stays(container: Container, clock: Clock, sender: Caller, house: VerificationServer) -> None:
    one = make_list(container, sender, [person(address=ASH)])
    verified(container)
    house.knows = {}
    two = make_list(container, sender, [person(address=ASH, name="New Tenant")])
    verified(container)
    assert fates(container, listed_order(container, sender, one, two)) == [("Failed", MOVED_AWAY), MADE]


def test_an_address_found_for_two_is_given_to_one(build: Build, clock: Clock, house: VerificationServer) -> None:
    container = build(**LIVE_SETTINGS, **house.settings, verifier_appends=True)
    caller = open_account(container, mode="live")
    for name in ("a", "b"):
        house.finds[f"{name}@example.com"] = place_of("12 OAK ST")
    house.finds["c@example.com"] = place_of("12 MAIN ST")
    house.finds["d@example.com"] = place_of("9 NEW RD")
    make_list(container, caller, [*({"email": f"{name}@example.com"} for name in "abcd"), NEW_HOME])
    verified(container)
    assert execute(container, "select address, standard[1] from recipients order by id") == [
        ("12 OAK ST", "12 OAK ST"), (None, None), ("12 MAIN ST", "12 MAIN ST"), (None, None),
        ("9 New Road", "9 NEW RD"),
    ]  # fmt: skip


def test_an_order_that_hardly_arrives_waits_for_someone(build: Build, clock: Clock, house: VerificationServer) -> None:
    container = build(**LIVE_SETTINGS, **house.settings)
    caller = open_account(container, mode="live")
    order = create_order(container, caller, [person(address=street) for street in (MAIN, ELM, ASH)])
    verified(container)
    sweep_due_orders(container, clock)
    [reason] = order_row(container, order).hold_reasons
    assert reason.startswith("2 of 3 recipients cannot be delivered to, more than 50 %")


def test_the_people_of_lists_are_verified_and_found(build: Build, clock: Clock, house: VerificationServer) -> None:
    container = build(**LIVE_SETTINGS, **house.settings, verifier_appends=True)
    caller = open_account(container, mode="live")
    house.finds["joe@example.com"] = place_of("12 ELM ST")
    list_id = make_list(container, caller, [person(address=OAK), {"email": "Joe@example.com", "name": "Joe"},
                                     {"email": "nobody@example.com"}])  # fmt: skip
    make_list(container, caller, [person(address=PINE)], suppresses=True)
    clock.advance(minutes=1)
    verified(container)
    shown = sa.text(
        "select address, city, deliverability, reasons[1] as why, updated_at from recipients"
        " where mailing_list_id = :list order by id"
    )
    first, found, unknown = execute(container, shown, list=list_id)
    assert (first.address, first.deliverability, first.why) == (OAK, "doubtful", MISSING_UNIT)
    assert (first.updated_at, unknown.address, unknown.deliverability) == (clock.now(), None, "undeliverable")
    assert (found.address, found.city, found.why) == ("12 ELM ST", "DALLAS", "The address was found by the e-mail.")
    # What was found is an address like any other, and asked about when its turn comes.
    verified(container)
    assert execute(container, shown, list=list_id)[1].why == NOT_DELIVERED_TO
    assert house.streets == ["12 OAK ST", "12 ELM ST"]
    order_id = listed_order(container, caller, list_id)
    assert execute(container, "select status, standard[1] from items order by id") == [
        ("Processing", "12 OAK ST"), ("Failed", "12 ELM ST"), ("Failed", None),
    ]  # fmt: skip
    assert [cents for _, cents, _ in ledger_entries(container, order_id)] == [CENTS]


def test_of_two_workers_one_asks_and_one_waits(
    container: Container, clock: Clock, sender: Caller, house: VerificationServer
) -> None:
    create_order(container, sender, [person(address=MAIN)])
    taken = sa.text("insert into address_passes (name, last_id, leased_until) values ('verify', 0, :until)")
    execute(container, taken, until=clock.now() + timedelta(minutes=1))
    verified(container)
    assert house.calls == []
    clock.advance(minutes=2)
    verified(container)
    assert len(house.calls) == 1


def test_half_answers_are_kept_when_it_breaks_down(
    container: Container, clock: Clock, sender: Caller, house: VerificationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.recipients.verification.service.QUESTIONS_PER_CALL", 2)
    create_order(container, sender, everyone())
    whole = house.handle
    calls = iter([whole, lambda *_: respond(503), whole, whole, whole])
    monkeypatch.setattr(house, "handle", lambda *args: next(calls)(*args))
    verified(container)
    assert len(house.streets) == 2
    verified(container)
    assert sorted(house.streets) == sorted(street.upper() for street in (MAIN, ELM, OAK, PINE, ASH))
