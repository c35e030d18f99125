"""Rows whose addresses were not judged by the rules of this release: a job judges them, while everything goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from placing import end_review, item_rows, open_account, place
from pressing import files_of, pool

from makers import Build, Clock, person
from quillpost.accounts.models import Caller
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.cli.doctor.operations import check_addresses
from quillpost.core.database import Tenant
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import Invalid
from quillpost.core.settings import Settings
from quillpost.fulfillment import production, review
from quillpost.fulfillment.drawing import redraw_batch_files
from quillpost.fulfillment.queries import read_batch
from quillpost.orders.materialization import materialize_order
from quillpost.orders.rejudged import restandardize
from quillpost.privacy import erasure
from quillpost.privacy.erasure import SECOND_PASS_DELAY, erase_subject
from quillpost.privacy.models import parse_subject
from quillpost.recipients import rejudging
from quillpost.recipients.addresses.service import HOME_COUNTRY, standardize
from quillpost.recipients.lists.service import remove_duplicates
from quillpost.recipients.rejudging import ADDRESS_RULES, is_under_way, rejudge_recipients
from quillpost.recipients.rules import SAME_ADDRESS, SUPPRESSED
from quillpost.recipients.service import change_recipient
from quillpost.recipients.webhooks import rules as webhook_rules
from quillpost.recipients.webhooks.service import ListKeyOwner, upsert_recipients

ALL_ARE = "all are judged by the rules of this release"
NOT_JUDGED = """
    update recipients set address_rules = null;
    update items set address_rules = null;
    delete from address_passes;
"""
NOT_BEGUN = sa.text("delete from address_passes")
"""A database that is new has nobody to judge, and says so."""
MAIN_PARTS = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
MAIN_ST = {"address": "12 Main St, Austin, TX 78701"}
STREETS = ("12 Main Street", "12 Main St", "9 Oak Ave", "1 Elm St Apt 4", "PO Box 7")
ACCOUNT = """
    insert into accounts (email, name, is_operator, test_mode, created_at, updated_at)
    values ('old@example.com', 'Olga', false, false, now(), now()) returning id
"""
LIST = """
    insert into mailing_lists (account_id, type, description, is_suppression_list, processed,
                               created_at, updated_at)
    values (%(account)s, 'manual', 'Old', %(barring)s, true, now(), now()) returning id
"""
PERSON = """
    insert into recipients (account_id, mailing_list_id, name, address, city, province, postal_code, country,
                            address_key, created_at, updated_at)
    values (%(account)s, %(list)s, 'Jane Doe', %(street)s, 'Austin', 'TX', '78701', 'US', %(key)s,
            '2026-01-01Z', '2026-01-01Z')
"""
ORDER = """
    insert into orders (account_id, mode, type, size, piece, mail_class, status, method, message, style,
                        handwriting_color, handwriting_realism, font_size, total_estimated_recipients,
                        recipient_count, authorization_total, order_total, due_at, mailing_list_ids,
                        audience_pending, n_processing, created_at, updated_at)
    values (%(account)s, 'test', 'postcard', '4x6', 'postcard-4x6', 'first', 'reviewing', 'api', 'Hi!', 1,
            'rgba(0,0,255,1)', false, 'medium', 1, 1, 0, 0, %(due)s, %(lists)s, %(pending)s, %(pieces)s,
            now(), now())
    returning id
"""
PIECE = """
    insert into items (account_id, mode, order_id, status, price_cents, name, address, city,
                       province, postal_code, country, address_key, created_at, updated_at)
    values (%(account)s, 'test', %(order)s, 'Processing', 0, 'Jane Doe', %(street)s, 'Austin', 'TX', '78701',
            'US', %(key)s, now(), now())
"""


def old_key(street: str) -> str:
    """As other rules knew a door."""
    return f"{street.upper().replace(' ', '')}||78701|US"


def new_key(street: str) -> str | None:
    parts = {"address": street, "address2": None, "city": "Austin", "province": "TX", "postal_code": "78701"}
    return standardize(parts, HOME_COUNTRY).key


class Old:
    """Rows that nobody has judged."""

    def __init__(self, conninfo: str, clock: Clock) -> None:
        with psycopg.connect(conninfo) as db:

            def add(statement: str, **values: Any) -> int:
                row = db.execute(statement, values | {"account": self.account}).fetchone()
                assert row is not None
                return int(row[0])

            self.account = 0
            self.account = add(ACCOUNT)
            self.people = add(LIST, barring=False)
            self.barred = add(LIST, barring=True)
            for where, streets in ((self.people, STREETS), (self.barred, ("9 Oak Avenue",))):
                for street in streets:
                    known = {"street": street, "key": old_key(street), "list": where, "account": self.account}
                    db.execute(PERSON, known)
            due = clock.now()
            self.inline = add(ORDER, due=due, lists=[], pending=False, pieces=2)
            for street in ("9 Oak Ave", "1 Elm St Apt 4"):
                known = {"street": street, "key": old_key(street), "order": self.inline}
                db.execute(PIECE, known | {"account": self.account})
            self.listed = add(ORDER, due=due, lists=[self.people], pending=True, pieces=0)
            db.execute(NOT_JUDGED)


@pytest.fixture(scope="module")
def upgraded(postgres: EmbeddedPostgres, template: str) -> Iterator[tuple[str, Old]]:
    """The name of a database with such rows, for copies of it, and what is in it."""
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"create database not_judged template {template} strategy file_copy")
        yield "not_judged", Old(postgres.conninfo("not_judged"), Clock())
        admin.execute("drop database not_judged with (force)")


@pytest.fixture
def old(upgraded: tuple[str, Old]) -> Old:
    return upgraded[1]


@pytest.fixture
def container(
    postgres: EmbeddedPostgres, upgraded: tuple[str, Old], clock: Clock, tmp_path: Path
) -> Iterator[Container]:
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"create database rejudged template {upgraded[0]} strategy file_copy")
        conninfo = postgres.conninfo("rejudged")
        container = bootstrap.build_container(Settings(home=tmp_path / "home"), conninfo, clock=clock.now)
        yield container
        container.db.close()
        admin.execute("drop database rejudged with (force)")


def rows(container: Container, query: str, **values: Any) -> list[Any]:
    with container.db.system_transaction() as tx:
        return [tuple(row) for row in tx.execute(sa.text(query), values)]


def pieces_of(container: Container, order_id: int) -> list[Any]:
    return rows(container, "select address, status, failure from items where order_id = :o order by id", o=order_id)


def test_everyone_is_judged_and_nobody_is_lost(container: Container, old: Old, clock: Clock) -> None:
    with container.db.system_transaction() as tx:
        assert check_addresses(tx).message.endswith("items: not begun, recipients: not begun")
    restandardize(container.db, clock.now)
    assert not is_under_way(container.db)
    with container.db.system_transaction() as tx:
        assert check_addresses(tx).message == ALL_ARE
    found = rows(
        container,
        "select address, address_key, standard[1], deliverability, address_rules, told_apart, id"
        " from recipients"
        " where mailing_list_id = :l order by id",
        l=old.people,
    )
    assert [row[0] for row in found] == list(STREETS)
    assert [row[1] for row in found] == [new_key(street) for street in STREETS]
    assert found[0][2] == found[1][2] == "12 MAIN ST"
    assert {row[3] for row in found} == {"deliverable"}
    double = int([row[4] for row in found].index(-1))
    assert double in (0, 1)
    assert [row[5] for row in found] == [f"double {row[6]}" if row is found[double] else "" for row in found]
    # Nothing that a sender sees has changed, so nobody who follows the list hears of it.
    assert rows(
        container, "select distinct extract(year from updated_at), extract(month from updated_at) from recipients"
    ) == [(2026, 1)]


def test_a_double_that_was_found_is_removed_when_the_lists_owner_says_so(
    container: Container, old: Old, clock: Clock
) -> None:
    restandardize(container.db, clock.now)
    with container.db.system_transaction() as tx:
        assert [remove_duplicates(tx, old.people) for _ in range(2)] == [1, 0]
        left = tx.execute(sa.text("select address from recipients where mailing_list_id = :l"), {"l": old.people})
        assert "12 Main St" not in left.scalars().all()
    oldest = "select address_rules, address_key from recipients where address = '12 Main Street'"
    assert rows(container, oldest) == [(1, new_key("12 Main St"))]


def test_who_has_no_double_any_more_is_told_apart_from_nobody(container: Container, old: Old, clock: Clock) -> None:
    restandardize(container.db, clock.now)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from recipients where address like '12 Main%' and address_rules > 0"))
        assert remove_duplicates(tx, old.people) == 0
    left = "select address_rules, address_key, told_apart from recipients where address like '12 Main%'"
    assert rows(container, left) == [(1, new_key("12 Main St"), "")]


def bar(container: Container, old: Old, street: str) -> None:
    with container.db.system_transaction() as tx:
        insert = PERSON.replace("%(", ":").replace(")s", "")
        tx.execute(
            sa.text(insert), {"account": old.account, "list": old.barred, "street": street, "key": new_key(street)}
        )


def test_who_is_barred_at_a_door_is_barred_under_both_spellings(container: Container, old: Old, clock: Clock) -> None:
    bar(container, old, "12 Main St")
    materialize_order(container.db, old.listed, now=clock.now())
    listed = {street: (status, why) for street, status, why in pieces_of(container, old.listed)}
    assert listed["12 Main Street"] == listed["12 Main St"] == ("Failed", SUPPRESSED)


def test_both_of_a_door_are_erased(container: Container, old: Old, clock: Clock) -> None:
    restandardize(container.db, clock.now)
    with container.db.system_transaction() as tx:
        whom = parse_subject({"address": "12 Main Str, Austin, TX 78701"})  # as neither of them is spelt
        done = erase_subject(tx, container.encryptor, Tenant(old.account), whom, now=clock.now())
    assert done.erased["recipients"] == 2
    assert rows(container, "select address from recipients where address like '12 Main%'") == []


def test_an_erasure_is_not_done_until_all_are_known_by_their_doors(
    container: Container, old: Old, clock: Clock
) -> None:
    """Nobody has looked yet who of the old rows lives there: 12 Main Street has another key."""
    with container.db.system_transaction() as tx:
        erase_subject(tx, container.encryptor, Tenant(old.account), parse_subject(MAIN_ST), now=clock.now())
    clock.advance(seconds=SECOND_PASS_DELAY.seconds + 1)
    erasure.finish_erasures(container.db, container.encryptor, container.storage.store, now=clock.now())
    assert rows(container, "select done_at from erasures") == [(None,)]
    assert rows(container, "select address from recipients where address like '12 Main%'") != []
    restandardize(container.db, clock.now)
    erasure.finish_erasures(container.db, container.encryptor, container.storage.store, now=clock.now())
    assert rows(container, "select done_at is not null from erasures") == [(True,)]
    assert rows(container, "select address from recipients where address like '12 Main%'") == []


def test_a_double_can_be_changed(container: Container, old: Old, clock: Clock) -> None:
    """By its own id, and by whoever sends rows to the list: it is told apart all the same."""
    restandardize(container.db, clock.now)
    holder = ListKeyOwner(old.people, Tenant(old.account), b"digest")
    [(double,)] = rows(container, "select id from recipients where address_rules < 0")
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update mailing_lists set key_digest = 'digest' where id = :l"), {"l": old.people})
        tx.execute(sa.text("update recipients set email = 'j' || id || '@example.com'"))
    with container.db.transaction(Tenant(old.account)) as tx:
        changed = change_recipient(tx, double, {"name": "Jo Roe"}, clock=clock.now)
        assert changed.person.name == "Jo Roe"
        with pytest.raises(Invalid) as refused:
            change_recipient(tx, double, {"address": "PO Box 7"}, clock=clock.now)
        assert "address" in refused.value.fields
        said = [{"email": f"j{double}@example.com", "phone": "1"}, {**MAIN_PARTS, "phone": "2"}]
        outcomes = upsert_recipients(
            tx, holder, [webhook_rules.read_person(row) for row in said], source=None, clock=clock.now
        )
        assert [outcome[0] for outcome in outcomes if isinstance(outcome, tuple)] == ["changed"] * 2
    assert rows(container, "select told_apart from recipients where id = :i", i=double) == [(f"double {double}",)]
    assert rows(container, "select count(*) from recipients where mailing_list_id = :l", l=old.people) == [(5,)]


def test_suppression_holds_though_nobody_was_judged_yet(container: Container, old: Old, clock: Clock) -> None:
    """The two spellings of one door had two keys before."""
    materialize_order(container.db, old.listed, now=clock.now())
    listed = {street: (status, why) for street, status, why in pieces_of(container, old.listed)}
    assert listed["9 Oak Ave"] == ("Failed", SUPPRESSED)
    # Two of the list are one door, which gets one piece.
    assert [status for status, _ in listed.values()].count("Processing") == 3
    assert (listed["12 Main Street"], listed["12 Main St"]) == (("Processing", None), ("Failed", SAME_ADDRESS))
    review.sweep_due_orders(container.production, now=clock.now())
    assert pieces_of(container, old.inline) == [
        ("9 Oak Ave", "Failed", SUPPRESSED),
        ("1 Elm St Apt 4", "Processing", None),
    ]
    assert rows(container, "select standard[1] from items where order_id = :o order by id", o=old.inline)[1] == (
        "1 ELM ST APT 4",
    )


def test_the_job_goes_on_where_it_was_stopped(
    container: Container, old: Old, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejudging, "AT_ONCE", 2)
    monkeypatch.setattr(rejudging, "PORTIONS", 1)
    assert rejudge_recipients(container.db, now=clock.now())
    assert rows(container, "select count(*) from recipients where address_rules is not null") == [(2,)]
    with container.db.system_transaction() as tx:
        assert "recipients to 6: at 2" in check_addresses(tx).message
    written, calls = rejudging.written, iter([True, False])
    monkeypatch.setattr(rejudging, "written", lambda some: written(some) if next(calls, False) else 1 / 0)
    rejudge_recipients(container.db, now=clock.now())
    with pytest.raises(ZeroDivisionError):
        rejudge_recipients(container.db, now=clock.now())
    assert rows(container, "select last_id from address_passes where name = 'recipients'") == [(4,)]
    monkeypatch.setattr(rejudging, "written", written)
    while rejudge_recipients(container.db, now=clock.now()):
        pass
    assert rows(container, "select count(*) from recipients where address_rules is null") == [(0,)]


def test_new_rules_judge_all_rows_again(
    container: Container, old: Old, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    restandardize(container.db, clock.now)
    for module in ("recipients.rejudging", "orders.rejudged"):
        monkeypatch.setattr(f"quillpost.{module}.ADDRESS_RULES", ADDRESS_RULES + 1)
    assert is_under_way(container.db)
    restandardize(container.db, clock.now)
    assert not is_under_way(container.db)
    assert rows(container, "select distinct abs(address_rules) from recipients") == [(2,)]
    assert rows(container, "select distinct address_rules from items") == [(2,)]


def test_new_rows_have_the_number_of_this_releases_rules(build: Build, clock: Clock) -> None:
    container = build()
    place(container, open_account(container), [person()])
    assert rows(container, "select address_rules from items") == [(ADDRESS_RULES,)]
    defaults = rows(
        container, "select distinct column_default from information_schema.columns where column_name = 'address_rules'"
    )
    assert defaults == [(str(ADDRESS_RULES),)]


def test_what_lies_in_a_batch_is_made_again_to_the_byte(build: Build, clock: Clock) -> None:
    container = build()
    order = place(container, open_account(container), [person(address="12 Main Street"), person(address="9 Oak Ave")])
    as_before = sa.text(
        "update items set standard = null, deliverability = null, address_rules = null, address_key = 'old ' || id"
    )
    with container.db.system_transaction() as tx:
        tx.execute(as_before)
        tx.execute(NOT_BEGUN)
    end_review(container, order)
    with container.db.system_transaction() as tx:
        [batch_id] = pool(container, tx, order)
    production.compose_batch(container.production, batch_id, now=clock.now())
    made = files_of(container, batch_id)
    restandardize(container.db, clock.now)
    with container.db.system_transaction() as tx:
        batch, pieces = read_batch(tx, batch_id), item_rows(tx, order)
    assert not any(row.address_key.startswith("old") for row in pieces)
    again = redraw_batch_files(container.production, batch)
    assert {f"batches/{batch_id}/{name}": data for name, data in again.items()} == made
    assert b"12 Main Street" in again["manifest.csv"]
    assert [(row.standard, row.deliverability) for row in pieces] == [(None, "deliverable")] * 2


def test_a_waiting_order_is_printed_by_the_new_rules(build: Build, clock: Clock) -> None:
    container = build()
    caller: Caller = open_account(container)
    order = place(container, caller, [person(address="12 Main Street")])
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set standard = null, deliverability = null, address_rules = null"))
        tx.execute(NOT_BEGUN)
    clock.advance(seconds=10)
    review.sweep_due_orders(container.production, now=clock.now())
    with container.db.system_transaction() as tx:
        assert item_rows(tx, order)[0].standard[0] == "12 MAIN ST"
