"""Who of saved lists is mailed: each reason not to be, in its order, counted and named."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from quillpost.orders.products import GIFTCARD, POSTCARD, Product
from quillpost.recipients.models import Person
from quillpost.recipients.rules import RECENTLY_MAILED, SAME_ADDRESS, SUPPRESSED, validate_recipients
from quillpost.rendering.text.variables import VARIABLE_NAMES
from support.factories import people, person
from support.list_rows import (
    add_people,
    audience_criteria,
    insert_item,
    make_list,
    make_order,
    make_sub_account,
    recipient_columns,
)
from support.orders import open_account
from support.waiting import wait_until

NO_ADDRESS = {"name": "Nobody", "email": "nobody@example.com"}
ABROAD = person(address="9 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")
ELSEWHERE = person(address="7 Elm St")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def branch(container: Container, owner: Caller) -> int:
    return make_sub_account(container, owner)


def count_audience(container: Container, caller: Caller, criteria: AudienceCriteria) -> AudienceCount:
    with container.db.transaction(build_tenant(caller)) as tx:
        return audience_queries.count_audience(tx, criteria)


def refusals(container: Container, caller: Caller, whom: Sequence[dict[str, Any]], **changes: Any) -> list[str | None]:
    with container.db.transaction(build_tenant(caller)) as tx:
        checked = audience_queries.refuse_inline_people(
            tx, validate_recipients(whom), audience_criteria(container, caller, **changes), lock=True
        )
    return [someone.refusal for someone in checked]


def mail(
    container: Container, caller: Caller, whom: dict[str, Any], *, hours: float = 0, **columns_of_item: Any
) -> int:
    """Another order, due so many hours after ours, with one piece on its way."""
    due_at = audience_criteria(container, caller).mails_at + timedelta(hours=hours)
    order_id = make_order(container, caller, inline=[whom], audience_pending=False, due_at=due_at)
    if columns_of_item:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(items).where(items.c.order_id == order_id).values(**columns_of_item))
    return order_id


def test_everyone_with_an_address_and_a_price_is_mailed(container: Container, owner: Caller) -> None:
    criteria = audience_criteria(container, owner, make_list(container, owner, people(3)))
    assert count_audience(container, owner, criteria) == AudienceCount(
        mailed_items=3, cents=3 * 109, undeliverable=0, duplicates=0, suppressed=0
    )


def test_people_without_address_or_price_are_undeliverable(container: Container, owner: Caller) -> None:
    half = person(address="9 Elm St", postal_code=None)
    criteria = audience_criteria(container, owner, make_list(container, owner, [person(), NO_ADDRESS, ABROAD, half]))
    assert count_audience(container, owner, criteria) == AudienceCount(
        mailed_items=1, cents=109, undeliverable=3, duplicates=0, suppressed=0
    )


def test_abroad_costs_what_its_country_costs_or_all_others_do(container: Container, owner: Caller) -> None:
    canada = person(country="CA", province="ON", postal_code="K1A 0B1")
    list_id = make_list(container, owner, [person(), ABROAD, canada])
    criteria = audience_criteria(container, owner, list_id, tariff=Tariff({"US": 100, "CA": 130, "*": 170}))
    assert count_audience(container, owner, criteria).cents == 400


def test_an_address_on_two_lists_is_mailed_once(container: Container, owner: Caller) -> None:
    first = make_list(container, owner, people(2))
    second = make_list(container, owner, [person(address="2 main st."), ELSEWHERE])
    found = count_audience(container, owner, audience_criteria(container, owner, second, first))
    assert (found.mailed_items, found.duplicates) == (3, 1)


def test_an_inline_recipient_comes_before_the_lists(container: Container, owner: Caller) -> None:
    key = recipient_columns(person())["address_key"]
    criteria = audience_criteria(
        container, owner, make_list(container, owner, [person(), ELSEWHERE]), inline_keys=[key]
    )
    found = count_audience(container, owner, criteria)
    assert (found.mailed_items, found.duplicates) == (1, 1)


def test_a_suppressed_address_or_e_mail_is_not_mailed(container: Container, owner: Caller) -> None:
    make_list(container, owner, [person(address="12 MAIN ST"), {"email": "Jane@Example.com"}], suppresses=True)
    whom = [person(), person(address="3 Oak St", email="jane@example.COM"), ELSEWHERE]
    found = count_audience(container, owner, audience_criteria(container, owner, make_list(container, owner, whom)))
    assert (found.mailed_items, found.suppressed) == (1, 2)
    assert refusals(container, owner, whom) == [SUPPRESSED, SUPPRESSED, None]


def test_an_entry_with_an_address_suppresses_that_address_alone(container: Container, owner: Caller) -> None:
    make_list(container, owner, [person(email="jane@example.com")], suppresses=True)
    moved = person(address="3 Oak St", email="jane@example.com")
    assert (
        count_audience(
            container, owner, audience_criteria(container, owner, make_list(container, owner, [moved]))
        ).mailed_items
        == 1
    )
    assert refusals(container, owner, [moved]) == [None]


def test_a_strangers_suppressions_hold_for_the_stranger_alone(container: Container, owner: Caller) -> None:
    make_list(container, open_account(container, "stranger@example.com"), [person()], suppresses=True)
    assert (
        count_audience(
            container, owner, audience_criteria(container, owner, make_list(container, owner, [person()]))
        ).mailed_items
        == 1
    )
    assert refusals(container, owner, [person()]) == [None]


def test_a_strangers_list_reaches_nobody(container: Container, owner: Caller) -> None:
    theirs = make_list(container, open_account(container, "stranger@example.com"), people(3))
    nobody = AudienceCount(mailed_items=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)
    criteria = audience_criteria(container, owner, theirs)
    assert count_audience(container, owner, criteria) == nobody
    with container.db.system_transaction() as tx:  # nor where the database itself would show it
        assert audience_queries.find_first_mailed(tx, criteria) is None


def test_the_accounts_own_suppressions_hold_for_a_limited_caller(
    container: Container, owner: Caller, branch: int
) -> None:
    make_list(container, owner, [person()], suppresses=True)
    limited = replace(owner, sub_account_id=branch)
    its = make_list(container, owner, [person(), ELSEWHERE], sub_account_id=branch)
    found = count_audience(container, limited, audience_criteria(container, limited, its))
    assert (found.mailed_items, found.suppressed) == (1, 1)
    assert refusals(container, limited, [person()]) == [SUPPRESSED]


def test_another_branchs_suppressions_do_not_hold(container: Container, owner: Caller, branch: int) -> None:
    make_list(container, owner, [person()], sub_account_id=branch, suppresses=True)
    limited = replace(owner, sub_account_id=branch)
    assert refusals(container, limited, [person()]) == [SUPPRESSED]
    other = make_sub_account(container, owner)
    assert refusals(container, owner, [person()], sub_account_id=other) == [None]


def test_a_limited_caller_learns_nothing_of_another_branchs_suppressions(
    container: Container, owner: Caller, branch: int
) -> None:
    other = make_sub_account(container, owner)
    make_list(container, owner, [person()], sub_account_id=other, suppresses=True)
    its = make_list(container, owner, [person()], sub_account_id=other)
    places = sa.text("select suppressed_places(:sub, 'test', array[:key], array[null::text], array[null::text])")
    listed_there = sa.text("select suppressed_recipients(:sub, 'test', array[:its])")
    [whom] = validate_recipients([person()])
    params = {"sub": other, "key": whom.address_key, "its": its}
    for caller, found in ((owner, 1), (replace(owner, sub_account_id=branch), 0)):
        with container.db.transaction(build_tenant(caller)) as tx:
            counts = [len(tx.execute(query, params).all()) for query in (places, listed_there)]
        assert counts == [found, found]


@pytest.mark.parametrize("hours", [-35.9, 0, 35.9])
def test_the_same_piece_within_36_hours_is_refused(container: Container, owner: Caller, hours: float) -> None:
    mail(container, owner, person(), hours=hours)
    found = count_audience(
        container, owner, audience_criteria(container, owner, make_list(container, owner, [person(), ELSEWHERE]))
    )
    assert (found.mailed_items, found.duplicates) == (1, 1)
    assert refusals(container, owner, [person(), ELSEWHERE]) == [RECENTLY_MAILED, None]


@pytest.mark.parametrize(
    "differs",
    [{"creative_key": uuid4()}, {"mode": "live"}, {"status": "Failed"}, {"hours": -36}, {"hours": 36}],
    ids=["another creative", "another mode", "it failed", "36 hours before", "36 hours later"],
)
def test_another_piece_is_no_repeat(container: Container, owner: Caller, differs: dict[str, Any]) -> None:
    mail(container, owner, person(), **differs)
    assert refusals(container, owner, [person()]) == [None]
    assert (
        count_audience(
            container, owner, audience_criteria(container, owner, make_list(container, owner, [person()]))
        ).mailed_items
        == 1
    )


def test_another_branchs_piece_is_no_repeat(container: Container, owner: Caller, branch: int) -> None:
    mail(container, owner, person())
    assert refusals(container, owner, [person()], sub_account_id=branch) == [None]
    assert refusals(container, owner, [person()]) == [RECENTLY_MAILED]


def test_an_orders_own_pieces_are_no_repeats(container: Container, owner: Caller) -> None:
    order_id = mail(container, owner, person())
    assert refusals(container, owner, [person()], order_id=order_id) == [None]


def test_repeats_are_taken_where_duplicates_are_allowed(container: Container, owner: Caller) -> None:
    mail(container, owner, person())
    first, second = (make_list(container, owner, [person()]) for _ in range(2))
    found = count_audience(container, owner, audience_criteria(container, owner, first, second, allows_repeats=True))
    assert (found.mailed_items, found.duplicates) == (1, 1)  # the same order never reaches an address twice
    assert refusals(container, owner, [person()], allows_repeats=True) == [None]


@pytest.mark.parametrize(("product", "may_repeat"), [(POSTCARD, False), (GIFTCARD, True)])
def test_a_gift_card_may_follow_another(product: Product, may_repeat: bool) -> None:
    request = ResolvedRequest(product=product, message="", **Handwriting().column_values())
    assert can_repeat(request) == may_repeat


def test_of_several_reasons_the_first_is_given(container: Container, owner: Caller) -> None:
    everything = person(email="jane@example.com")
    make_list(container, owner, [everything, {"email": "nobody@example.com"}], suppresses=True)
    mail(container, owner, everything)
    first, second = (make_list(container, owner, [everything, NO_ADDRESS]), make_list(container, owner, [everything]))
    found = count_audience(container, owner, audience_criteria(container, owner, first, second))
    assert found == AudienceCount(mailed_items=0, cents=0, undeliverable=1, duplicates=0, suppressed=2)
    assert refusals(container, owner, [everything, everything]) == [SUPPRESSED, SUPPRESSED]


def test_of_doubles_that_are_repeats_the_first_says_so(container: Container, owner: Caller) -> None:
    mail(container, owner, person())
    twice = [person(email="a@example.com"), person(email="b@example.com")]
    assert refusals(container, owner, twice) == [RECENTLY_MAILED, SAME_ADDRESS]


def test_a_suppressed_email_leaves_the_address_to_the_next_person(container: Container, owner: Caller) -> None:
    make_list(container, owner, [{"email": "Barred@example.com"}], suppresses=True)
    suppressed = person(name="Barred", email="barred@example.com")
    ada, bob = person(name="Ada", email="ada@example.com"), person(name="Bob")
    lists = [make_list(container, owner, [someone]) for someone in (suppressed, ada, bob)]
    criteria = audience_criteria(container, owner, *lists)
    assert count_audience(container, owner, criteria) == AudienceCount(
        mailed_items=1, cents=109, undeliverable=0, duplicates=1, suppressed=1
    )
    with container.db.transaction(build_tenant(owner)) as tx:
        shown = audience_queries.find_first_mailed(tx, criteria)
    assert shown == validate_recipients([ada])[0]
    assert count_audience(container, owner, audience_criteria(container, owner, *lists[:2])).mailed_items == 1
    results = refusals(container, owner, [suppressed, suppressed, ada, bob, ada])
    assert results == [SUPPRESSED, SUPPRESSED, None, SAME_ADDRESS, SAME_ADDRESS]
    assert refusals(container, owner, [bob, suppressed, ada]) == [None, SUPPRESSED, SAME_ADDRESS]


def test_two_sends_at_one_moment_do_not_both_reach_an_address(container: Container, owner: Caller) -> None:
    order_id = make_order(container, owner, audience_pending=False)
    waiting = sa.text("select count(*) from pg_locks where locktype = 'advisory' and not granted")

    def someone_waits() -> bool:
        with container.db.system_transaction() as tx:
            return bool(tx.execute(waiting).scalar_one())

    with ThreadPoolExecutor(1) as meanwhile:
        with container.db.transaction(build_tenant(owner)) as tx:
            [mine] = audience_queries.refuse_inline_people(
                tx, validate_recipients([person()]), audience_criteria(container, owner), lock=True
            )
            theirs = meanwhile.submit(refusals, container, owner, [person()])
            wait_until(someone_waits)
            insert_item(tx, order_id, person(), now=container.clock())
        assert mine.refusal is None
        assert theirs.result() == [RECENTLY_MAILED]


def test_the_first_mailed_person_is_shown(container: Container, owner: Caller) -> None:
    make_list(container, owner, [person()], suppresses=True)
    chosen = person(name="Ada Byron", address="3 Oak St", email="ada@example.com", dob="1990-02-03", custom4="blue")
    criteria = audience_criteria(
        container, owner, make_list(container, owner, [NO_ADDRESS, ABROAD, person(), chosen, ELSEWHERE])
    )
    with container.db.transaction(build_tenant(owner)) as tx:
        assert audience_queries.find_first_mailed(tx, criteria) == validate_recipients([chosen])[0]


def test_of_lists_that_reach_nobody_nobody_is_shown(container: Container, owner: Caller) -> None:
    criteria = audience_criteria(container, owner, make_list(container, owner, [NO_ADDRESS]))
    with container.db.transaction(build_tenant(owner)) as tx:
        assert audience_queries.find_first_mailed(tx, criteria) is None


def longest(container: Container, caller: Caller, lists: list[int], *variables: str) -> list[Person]:
    with container.db.transaction(build_tenant(caller)) as tx:
        return longest_on_lists(tx, lists, variables)


def test_people_that_cannot_be_mailed_need_no_room(container: Container, owner: Caller) -> None:
    half = {"address": "9 Elm St", "custom1": "endless " * 30}
    none = {"email": "jane@example.com", "custom1": "by e-mail alone"}
    whose = make_list(container, owner, [person(custom1="short"), half, none])
    [someone] = longest(container, owner, [whose], "CUSTOM1")
    assert someone.custom[0] == "short"


def test_the_longest_values_of_all_lists_come_together(container: Container, owner: Caller) -> None:
    first = make_list(container, owner, [person(city="Austin", custom1="z", dob="1990-02-03"), ELSEWHERE])
    second = make_list(container, owner, [person(city="Springfield", custom1="long enough")])
    add_people(container, second, [{"email": "no@example.com", "custom1": "of one who is never mailed"}])
    found = longest(container, owner, [first, second], "CITY", "CUSTOM1", "DOB", "PHONE", "YOUR_NAME")
    custom = ("long enough",) + (None,) * 9
    assert found == [Person(city="Springfield", custom=custom, dob=date(1990, 2, 3))]


def test_names_are_long_in_their_own_ways(container: Container, owner: Caller) -> None:
    names = ["Bartholomew Li", "Al Featherstonehaugh", "Mary Ann de la Cruz Lee", "Bo Ek"]
    whom = [person(name=name, address=f"{n} Elm St") for n, name in enumerate(names)]
    whose = [make_list(container, owner, whom)]

    def found(*variables: str) -> list[str | None]:
        return [someone.name for someone in longest(container, owner, whose, *variables)]

    assert found("FIRST_NAME") == [names[0]]
    assert found("LAST_NAME") == [names[1]]
    assert found("NAME", "FULL_NAME") == [names[2]]
    assert found("FIRST_NAME", "LAST_NAME", "NAME") == names[:3]


def test_every_variable_can_be_requested(container: Container, owner: Caller) -> None:
    whose = [make_list(container, owner, [person(company="Acme", address2="Apt 4")])]
    [someone] = longest(container, owner, whose, *VARIABLE_NAMES)
    assert (someone.name, someone.company, someone.address2) == ("Jane Doe", "Acme", "Apt 4")
    assert (someone.province, someone.postal_code) == ("TX", "78701")


def test_without_variables_or_people_there_is_still_someone_to_write_to(container: Container, owner: Caller) -> None:
    whose = [make_list(container, owner)]
    assert longest(container, owner, whose) == longest(container, owner, whose, "FIRST_NAME", "CUSTOM1") == [Person()]
