"""Who of saved lists is mailed: each reason not to be, in its order, counted and named."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.orders.audience import queries as audience_queries
from quillpost.orders.audience.queries import AudienceCount, AudienceCriteria
from quillpost.orders.designs import longest_on_lists
from quillpost.orders.models import Handwriting, ResolvedRequest, can_repeat
from quillpost.orders.products import GIFTCARD, POSTCARD
from quillpost.recipients.models import Person
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED, validate_recipients
from quillpost.rendering.text.variables import VARIABLE_NAMES
from support import mailing_lists
from support.factories import make_sub_account, people, person
from support.orders import open_account
from support.rows import execute, run_as
from support.waiting import is_lock_awaited, wait_until

NO_ADDRESS = {"name": "Nobody", "email": "nobody@example.com"}
ABROAD = person(address="9 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")
ELSEWHERE = person(address="7 Elm St")


@dataclass(frozen=True)
class Sender:
    """Someone with lists, whose next order is asked about."""

    container: Container
    caller: Caller

    def list(self, *whom: dict[str, Any], **how: Any) -> int:
        return mailing_lists.make_list(self.container, self.caller, whom, **how)

    def suppress(self, *whom: dict[str, Any], **how: Any) -> int:
        return self.list(*whom, suppresses=True, **how)

    def criteria(self, *lists: int, **changes: Any) -> AudienceCriteria:
        return mailing_lists.audience_criteria(self.container, self.caller, *lists, **changes)

    def count(self, *lists: int, **changes: Any) -> AudienceCount:
        return run_as(self.container, self.caller, audience_queries.count_audience, self.criteria(*lists, **changes))

    def counted(self, *lists: int, **changes: Any) -> tuple[int, int, int]:
        """How many are mailed, doubles and suppressed."""
        found = self.count(*lists, **changes)
        return found.mailed_items, found.duplicates, found.suppressed

    def first_mailed(self, *lists: int) -> Person | None:
        return run_as(self.container, self.caller, audience_queries.find_first_mailed, self.criteria(*lists))

    def refusals(self, *whom: dict[str, Any], **changes: Any) -> Sequence[str | None]:
        criteria, checked = self.criteria(**changes), validate_recipients(whom)
        found = run_as(self.container, self.caller, audience_queries.refuse_inline_people, checked, criteria, lock=True)
        return [someone.refusal for someone in found]

    def longest(self, lists: Sequence[int], *variables: str) -> Sequence[Person]:
        return run_as(self.container, self.caller, longest_on_lists, lists, variables)

    def mail(self, whom: dict[str, Any], *, hours: float = 0, **columns_of_item: Any) -> int:
        """Another order, due so many hours after ours, with one piece on its way."""
        due_at = self.criteria().mails_at + timedelta(hours=hours)
        how: dict[str, Any] = {"inline": [whom], "audience_pending": False, "due_at": due_at}
        order_id = mailing_lists.make_order(self.container, self.caller, **how)
        if columns_of_item:
            execute(self.container, sa.update(items).where(items.c.order_id == order_id).values(**columns_of_item))
        return order_id

    def limited_to(self, sub_account_id: int) -> "Sender":
        return Sender(self.container, replace(self.caller, sub_account_id=sub_account_id))


@pytest.fixture
def sender(container: Container, caller: Caller) -> Sender:
    return Sender(container, caller)


@pytest.fixture
def stranger(container: Container) -> Sender:
    return Sender(container, open_account(container, "stranger@example.com"))


@pytest.fixture
def branch(container: Container, caller: Caller) -> int:
    return make_sub_account(container, caller)


NOBODY = AudienceCount(mailed_items=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)


def test_everyone_with_an_address_and_a_price_is_mailed_once(sender: Sender) -> None:
    assert sender.count(sender.list(*people(3))) == replace(NOBODY, mailed_items=3, cents=3 * 109)
    half = person(address="9 Elm St", postal_code=None)
    found = sender.count(sender.list(person(), NO_ADDRESS, ABROAD, half))
    assert found == replace(NOBODY, mailed_items=1, cents=109, undeliverable=3)
    canada = person(country="CA", province="ON", postal_code="K1A 0B1")
    tariff = Tariff({"US": 100, "CA": 130, "*": 170})
    assert sender.count(sender.list(person(), ABROAD, canada), tariff=tariff).cents == 400
    first, second = sender.list(*people(2)), sender.list(person(address="2 main st."), ELSEWHERE)
    assert sender.counted(second, first) == (3, 1, 0)
    key = mailing_lists.recipient_columns(person())["address_key"]
    assert sender.counted(sender.list(person(), ELSEWHERE), inline_keys=[key]) == (1, 1, 0)


# Suppressions


def test_a_suppressed_address_or_e_mail_is_not_mailed(sender: Sender) -> None:
    sender.suppress(person(address="12 MAIN ST"), {"email": "Jane@Example.com"})
    whom = [person(), person(address="3 Oak St", email="jane@example.COM"), ELSEWHERE]
    assert sender.counted(sender.list(*whom)) == (1, 0, 2)
    assert sender.refusals(*whom) == [SUPPRESSED, SUPPRESSED, None]


def test_an_entry_suppresses_its_own_address_for_its_account_alone(sender: Sender, stranger: Sender) -> None:
    sender.suppress(person(email="jane@example.com"))
    moved = person(address="3 Oak St", email="jane@example.com")
    stranger.suppress(moved)
    assert sender.counted(sender.list(moved)) == (1, 0, 0)
    assert sender.refusals(moved) == [None]


def test_a_strangers_list_reaches_nobody(container: Container, sender: Sender, stranger: Sender) -> None:
    theirs = stranger.list(*people(3))
    assert sender.count(theirs) == NOBODY
    with container.db.system_transaction() as tx:  # nor where the database itself would show it
        assert audience_queries.find_first_mailed(tx, sender.criteria(theirs)) is None


def test_another_branchs_suppressions_do_not_hold(container: Container, sender: Sender, branch: int) -> None:
    """And a limited caller learns nothing of them."""
    other = make_sub_account(container, sender.caller)
    sender.suppress(person(), sub_account_id=other)
    assert sender.limited_to(other).refusals(person()) == [SUPPRESSED]
    assert sender.refusals(person(), sub_account_id=branch) == [None]
    places = sa.text("select suppressed_places(:sub, 'test', array[:key], array[null::text], array[null::text])")
    listed_there = sa.text("select suppressed_recipients(:sub, 'test', array[:its])")
    [whom] = validate_recipients([person()])
    params = {"sub": other, "key": whom.address_key, "its": sender.list(person(), sub_account_id=other)}
    for reader, found in ((sender, 1), (sender.limited_to(branch), 0)):
        with container.db.transaction(build_tenant(reader.caller)) as tx:
            assert [len(tx.execute(query, params).all()) for query in (places, listed_there)] == [found, found]


def test_a_suppressed_email_leaves_the_address_to_the_next_person(sender: Sender) -> None:
    sender.suppress({"email": "Barred@example.com"})
    suppressed = person(name="Barred", email="barred@example.com")
    ada, bob = person(name="Ada", email="ada@example.com"), person(name="Bob")
    lists = [sender.list(someone) for someone in (suppressed, ada, bob)]
    assert sender.count(*lists) == AudienceCount(mailed_items=1, cents=109, undeliverable=0, duplicates=1, suppressed=1)
    assert sender.first_mailed(*lists) == validate_recipients([ada])[0]
    assert sender.count(*lists[:2]).mailed_items == 1
    results = sender.refusals(suppressed, suppressed, ada, bob, ada)
    assert results == [SUPPRESSED, SUPPRESSED, None, SAME_ADDRESS, SAME_ADDRESS]
    assert sender.refusals(bob, suppressed, ada) == [None, SUPPRESSED, SAME_ADDRESS]


# Repeats


@pytest.mark.parametrize("hours", [-35.9, 0, 35.9])
def test_the_same_piece_within_36_hours_is_refused(sender: Sender, hours: float) -> None:
    order_id = sender.mail(person(), hours=hours)
    lists = [sender.list(person(), ELSEWHERE), sender.list(person())]
    assert sender.counted(lists[0]) == (1, 1, 0)
    assert sender.refusals(person(), ELSEWHERE) == [RECENTLY_MAILED, None]
    assert sender.refusals(person(), order_id=order_id) == [None], "an order's own pieces are no repeats"
    # Where duplicates are allowed, the same order still never reaches an address twice.
    assert sender.counted(*lists, allows_repeats=True) == (2, 1, 0)
    assert sender.refusals(person(), allows_repeats=True) == [None]
    twice = [person(email="a@example.com"), person(email="b@example.com")]
    assert sender.refusals(*twice) == [RECENTLY_MAILED, SAME_ADDRESS], "of doubles the first says so"


def test_another_piece_is_no_repeat(sender: Sender, branch: int) -> None:
    others: list[dict[str, Any]] = [
        {"creative_key": uuid4()}, {"mode": "live"}, {"status": "Failed"}, {"hours": -36}, {"hours": 36},
    ]  # fmt: skip
    for other in others:
        sender.mail(person(), **other)
    assert sender.refusals(person()) == [None]
    assert sender.counted(sender.list(person())) == (1, 0, 0)
    sender.mail(person())
    assert sender.refusals(person(), sub_account_id=branch) == [None], "nor is another branch's"
    assert sender.refusals(person()) == [RECENTLY_MAILED]


def test_a_gift_card_may_follow_another() -> None:
    may = {POSTCARD: False, GIFTCARD: True}
    columns = Handwriting().column_values()
    found = {product: can_repeat(ResolvedRequest(product=product, message="", **columns)) for product in may}
    assert found == may


def test_of_several_reasons_the_first_is_given(sender: Sender) -> None:
    everything = person(email="jane@example.com")
    sender.suppress(everything, {"email": "nobody@example.com"})
    sender.mail(everything)
    found = sender.count(sender.list(everything, NO_ADDRESS), sender.list(everything))
    assert found == replace(NOBODY, undeliverable=1, suppressed=2)
    assert sender.refusals(everything, everything) == [SUPPRESSED, SUPPRESSED]


def test_two_sends_at_one_moment_do_not_both_reach_an_address(container: Container, sender: Sender) -> None:
    order_id = mailing_lists.make_order(container, sender.caller, audience_pending=False)
    with ThreadPoolExecutor(1) as meanwhile:
        with container.db.transaction(build_tenant(sender.caller)) as tx:
            checked = validate_recipients([person()])
            [mine] = audience_queries.refuse_inline_people(tx, checked, sender.criteria(), lock=True)
            theirs = meanwhile.submit(sender.refusals, person())
            wait_until(lambda: is_lock_awaited(container))
            mailing_lists.insert_item(tx, order_id, person(), now=container.clock())
        assert mine.refusal is None
        assert theirs.result() == [RECENTLY_MAILED]


# Who is shown


def test_the_first_mailed_person_is_shown(sender: Sender) -> None:
    sender.suppress(person())
    chosen = person(name="Ada Byron", address="3 Oak St", email="ada@example.com", dob="1990-02-03", custom4="blue")
    whom = sender.list(NO_ADDRESS, ABROAD, person(), chosen, ELSEWHERE)
    assert sender.first_mailed(whom) == validate_recipients([chosen])[0]
    assert sender.first_mailed(sender.list(NO_ADDRESS)) is None


def test_the_longest_values_of_all_mailed_people_come_together(sender: Sender) -> None:
    half = {"address": "9 Elm St", "custom1": "endless " * 30}
    unmailed = {"email": "no@example.com", "custom1": "of one who is never mailed"}
    first = sender.list(person(city="Austin", custom1="z", dob="1990-02-03"), ELSEWHERE)
    second = sender.list(person(city="Springfield", custom1="long enough"), half, unmailed)
    found = sender.longest([first, second], "CITY", "CUSTOM1", "DOB", "PHONE", "YOUR_NAME")
    custom = ("long enough",) + (None,) * 9
    assert found == [Person(city="Springfield", custom=custom, dob=date(1990, 2, 3))]
    names = ["Bartholomew Li", "Al Featherstonehaugh", "Mary Ann de la Cruz Lee", "Bo Ek"]
    whose = [sender.list(*(person(name=name, address=f"{n} Elm St") for n, name in enumerate(names)))]
    expected: dict[tuple[str, ...], list[str]] = {
        ("FIRST_NAME",): names[:1], ("LAST_NAME",): names[1:2], ("NAME", "FULL_NAME"): names[2:3],
        ("FIRST_NAME", "LAST_NAME", "NAME"): names[:3],
    }  # fmt: skip
    for variables, longest in expected.items():
        assert [someone.name for someone in sender.longest(whose, *variables)] == longest
    [someone] = sender.longest([sender.list(person(company="Acme", address2="Apt 4"))], *VARIABLE_NAMES)
    assert (someone.name, someone.company, someone.address2) == ("Jane Doe", "Acme", "Apt 4")
    assert (someone.province, someone.postal_code) == ("TX", "78701")
    nobody = [sender.list()]  # there is still someone to write to
    assert sender.longest(nobody) == sender.longest(nobody, "FIRST_NAME", "CUSTOM1") == [Person()]
