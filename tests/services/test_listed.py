"""Who of saved lists is mailed: each reason not to be, in its order, counted and named."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from listing import add_people, columns, insert_piece, make_branch, make_list, make_order, reach
from placing import open_account
from waiting import wait_until

from makers import people, person
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items
from quillpost.orders import audience
from quillpost.orders.audience import Reach, Tally
from quillpost.orders.materialization import longest_people
from quillpost.recipients.rules import REPEATED, SAME_ADDRESS, SUPPRESSED, Person, examine
from quillpost.rendering.text.variables import KNOWN

NO_ADDRESS = {"name": "Nobody", "email": "nobody@example.com"}
ABROAD = person(address="9 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")
ELSEWHERE = person(address="7 Elm St")


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def branch(parts: Parts, owner: Caller) -> int:
    return make_branch(parts, owner)


def tally(parts: Parts, who: Caller, asked: Reach) -> Tally:
    with parts.db.transaction(tenant(who)) as tx:
        return audience.tally(tx, asked)


def refusals(parts: Parts, who: Caller, whom: Sequence[dict[str, Any]], **changes: Any) -> list[str | None]:
    with parts.db.transaction(tenant(who)) as tx:
        judged = audience.refused_inline(tx, examine(whom), reach(parts, who, **changes), lock=True)
    return [someone.refusal for someone in judged]


def mail(parts: Parts, who: Caller, whom: dict[str, Any], *, hours: float = 0, **columns_of_item: Any) -> int:
    """Another order, due so many hours after ours, with one piece on its way."""
    due_at = reach(parts, who).mails_at + timedelta(hours=hours)
    order_id = make_order(parts, who, inline=[whom], audience_pending=False, due_at=due_at)
    if columns_of_item:
        with parts.db.work() as tx:
            tx.execute(sa.update(items).where(items.c.order_id == order_id).values(**columns_of_item))
    return order_id


def test_everyone_with_an_address_and_a_price_is_mailed(parts: Parts, owner: Caller) -> None:
    asked = reach(parts, owner, make_list(parts, owner, people(3)))
    assert tally(parts, owner, asked) == Tally(
        pieces=3, cents=3 * 109, undeliverable=0, duplicates=0, suppressed=0
    )


def test_who_has_no_address_or_no_price_is_undeliverable(parts: Parts, owner: Caller) -> None:
    half = person(address="9 Elm St", postal_code=None)
    asked = reach(parts, owner, make_list(parts, owner, [person(), NO_ADDRESS, ABROAD, half]))
    assert tally(parts, owner, asked) == Tally(
        pieces=1, cents=109, undeliverable=3, duplicates=0, suppressed=0
    )


def test_abroad_costs_what_its_country_costs_or_all_others_do(parts: Parts, owner: Caller) -> None:
    canada = person(country="CA", province="ON", postal_code="K1A 0B1")
    list_id = make_list(parts, owner, [person(), ABROAD, canada])
    asked = reach(parts, owner, list_id, tariff=Tariff({"US": 100, "CA": 130, "*": 170}))
    assert tally(parts, owner, asked).cents == 400


def test_an_address_on_two_lists_is_mailed_once(parts: Parts, owner: Caller) -> None:
    first = make_list(parts, owner, people(2))
    second = make_list(parts, owner, [person(address="2 main st."), ELSEWHERE])
    found = tally(parts, owner, reach(parts, owner, second, first))
    assert (found.pieces, found.duplicates) == (3, 1)


def test_an_inline_recipient_comes_before_the_lists(parts: Parts, owner: Caller) -> None:
    key = columns(person())["address_key"]
    asked = reach(parts, owner, make_list(parts, owner, [person(), ELSEWHERE]), inline_keys=[key])
    found = tally(parts, owner, asked)
    assert (found.pieces, found.duplicates) == (1, 1)


def test_a_suppressed_address_or_e_mail_is_not_mailed(parts: Parts, owner: Caller) -> None:
    make_list(parts, owner, [person(address="12 MAIN ST"), {"email": "Jane@Example.com"}], suppresses=True)
    whom = [person(), person(address="3 Oak St", email="jane@example.COM"), ELSEWHERE]
    found = tally(parts, owner, reach(parts, owner, make_list(parts, owner, whom)))
    assert (found.pieces, found.suppressed) == (1, 2)
    assert refusals(parts, owner, whom) == [SUPPRESSED, SUPPRESSED, None]


def test_an_entry_with_an_address_suppresses_that_address_alone(parts: Parts, owner: Caller) -> None:
    make_list(parts, owner, [person(email="jane@example.com")], suppresses=True)
    moved = person(address="3 Oak St", email="jane@example.com")
    assert tally(parts, owner, reach(parts, owner, make_list(parts, owner, [moved]))).pieces == 1
    assert refusals(parts, owner, [moved]) == [None]


def test_a_strangers_suppressions_hold_for_the_stranger_alone(parts: Parts, owner: Caller) -> None:
    make_list(parts, open_account(parts, "stranger@example.com"), [person()], suppresses=True)
    assert tally(parts, owner, reach(parts, owner, make_list(parts, owner, [person()]))).pieces == 1
    assert refusals(parts, owner, [person()]) == [None]


def test_a_strangers_list_reaches_nobody(parts: Parts, owner: Caller) -> None:
    theirs = make_list(parts, open_account(parts, "stranger@example.com"), people(3))
    nobody = Tally(pieces=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)
    asked = reach(parts, owner, theirs)
    assert tally(parts, owner, asked) == nobody
    with parts.db.work() as tx:  # nor where the database itself would show it
        assert audience.first_person(tx, asked) is None


def test_the_accounts_own_suppressions_hold_for_a_limited_caller(
    parts: Parts, owner: Caller, branch: int
) -> None:
    make_list(parts, owner, [person()], suppresses=True)
    limited = replace(owner, sub_account_id=branch)
    its = make_list(parts, owner, [person(), ELSEWHERE], sub_account_id=branch)
    found = tally(parts, limited, reach(parts, limited, its))
    assert (found.pieces, found.suppressed) == (1, 1)
    assert refusals(parts, limited, [person()]) == [SUPPRESSED]


def test_another_branchs_suppressions_do_not_hold(parts: Parts, owner: Caller, branch: int) -> None:
    make_list(parts, owner, [person()], sub_account_id=branch, suppresses=True)
    limited = replace(owner, sub_account_id=branch)
    assert refusals(parts, limited, [person()]) == [SUPPRESSED]
    other = make_branch(parts, owner)
    assert refusals(parts, owner, [person()], sub_account_id=other) == [None]


def test_a_limited_caller_learns_nothing_of_another_branchs_suppressions(
    parts: Parts, owner: Caller, branch: int
) -> None:
    other = make_branch(parts, owner)
    make_list(parts, owner, [person()], sub_account_id=other, suppresses=True)
    its = make_list(parts, owner, [person()], sub_account_id=other)
    places = sa.text(
        "select suppressed_places(:sub, 'test', array[:key], array[null::text], array[null::text])"
    )
    listed_there = sa.text("select suppressed_recipients(:sub, 'test', array[:its])")
    [whom] = examine([person()])
    asked = {"sub": other, "key": whom.address_key, "its": its}
    for who, found in ((owner, 1), (replace(owner, sub_account_id=branch), 0)):
        with parts.db.transaction(tenant(who)) as tx:
            told = [len(tx.execute(query, asked).all()) for query in (places, listed_there)]
        assert told == [found, found]


@pytest.mark.parametrize("hours", [-35.9, 0, 35.9])
def test_the_same_piece_within_36_hours_is_refused(parts: Parts, owner: Caller, hours: float) -> None:
    mail(parts, owner, person(), hours=hours)
    found = tally(parts, owner, reach(parts, owner, make_list(parts, owner, [person(), ELSEWHERE])))
    assert (found.pieces, found.duplicates) == (1, 1)
    assert refusals(parts, owner, [person(), ELSEWHERE]) == [REPEATED, None]


@pytest.mark.parametrize(
    "differs",
    [{"creative_key": uuid4()}, {"mode": "live"}, {"status": "Failed"}, {"hours": -36}, {"hours": 36}],
    ids=["another creative", "another mode", "it failed", "36 hours before", "36 hours later"],
)
def test_another_piece_is_no_repeat(parts: Parts, owner: Caller, differs: dict[str, Any]) -> None:
    mail(parts, owner, person(), **differs)
    assert refusals(parts, owner, [person()]) == [None]
    assert tally(parts, owner, reach(parts, owner, make_list(parts, owner, [person()]))).pieces == 1


def test_another_branchs_piece_is_no_repeat(parts: Parts, owner: Caller, branch: int) -> None:
    mail(parts, owner, person())
    assert refusals(parts, owner, [person()], sub_account_id=branch) == [None]
    assert refusals(parts, owner, [person()]) == [REPEATED]


def test_an_orders_own_pieces_are_no_repeats(parts: Parts, owner: Caller) -> None:
    order_id = mail(parts, owner, person())
    assert refusals(parts, owner, [person()], order_id=order_id) == [None]


def test_repeats_are_taken_where_duplicates_are_allowed(parts: Parts, owner: Caller) -> None:
    mail(parts, owner, person())
    first, second = (make_list(parts, owner, [person()]) for _ in range(2))
    found = tally(parts, owner, reach(parts, owner, first, second, allow_duplicates=True))
    assert (found.pieces, found.duplicates) == (1, 1)  # the same order never reaches an address twice
    assert refusals(parts, owner, [person()], allow_duplicates=True) == [None]


def test_a_gift_card_may_follow_another(parts: Parts) -> None:
    assert audience.may_repeat("giftcard", allow_duplicates=False)
    assert not audience.may_repeat("postcard", allow_duplicates=False)


def test_of_several_reasons_the_first_is_told(parts: Parts, owner: Caller) -> None:
    everything = person(email="jane@example.com")
    make_list(parts, owner, [everything, {"email": "nobody@example.com"}], suppresses=True)
    mail(parts, owner, everything)
    first, second = make_list(parts, owner, [everything, NO_ADDRESS]), make_list(parts, owner, [everything])
    found = tally(parts, owner, reach(parts, owner, first, second))
    assert found == Tally(pieces=0, cents=0, undeliverable=1, duplicates=0, suppressed=2)
    assert refusals(parts, owner, [everything, everything]) == [SUPPRESSED, SUPPRESSED]


def test_of_doubles_that_are_repeats_the_first_says_so(parts: Parts, owner: Caller) -> None:
    mail(parts, owner, person())
    twice = [person(email="a@example.com"), person(email="b@example.com")]
    assert refusals(parts, owner, twice) == [REPEATED, SAME_ADDRESS]


def test_whose_e_mail_is_barred_leaves_the_address_to_the_next(parts: Parts, owner: Caller) -> None:
    make_list(parts, owner, [{"email": "Barred@example.com"}], suppresses=True)
    barred = person(name="Barred", email="barred@example.com")
    ada, bob = person(name="Ada", email="ada@example.com"), person(name="Bob")
    lists = [make_list(parts, owner, [someone]) for someone in (barred, ada, bob)]
    asked = reach(parts, owner, *lists)
    assert tally(parts, owner, asked) == Tally(
        pieces=1, cents=109, undeliverable=0, duplicates=1, suppressed=1
    )
    with parts.db.transaction(tenant(owner)) as tx:
        shown = audience.first_person(tx, asked)
    assert shown == examine([ada])[0]
    assert tally(parts, owner, reach(parts, owner, *lists[:2])).pieces == 1
    judged = refusals(parts, owner, [barred, barred, ada, bob, ada])
    assert judged == [SUPPRESSED, SUPPRESSED, None, SAME_ADDRESS, SAME_ADDRESS]
    assert refusals(parts, owner, [bob, barred, ada]) == [None, SUPPRESSED, SAME_ADDRESS]


def test_two_sends_at_one_moment_do_not_both_reach_an_address(parts: Parts, owner: Caller) -> None:
    order_id = make_order(parts, owner, audience_pending=False)
    waiting = sa.text("select count(*) from pg_locks where locktype = 'advisory' and not granted")

    def someone_waits() -> bool:
        with parts.db.work() as tx:
            return bool(tx.execute(waiting).scalar_one())

    with ThreadPoolExecutor(1) as meanwhile:
        with parts.db.transaction(tenant(owner)) as tx:
            [mine] = audience.refused_inline(tx, examine([person()]), reach(parts, owner), lock=True)
            theirs = meanwhile.submit(refusals, parts, owner, [person()])
            wait_until(someone_waits)
            insert_piece(tx, order_id, person(), now=parts.clock())
        assert mine.refusal is None
        assert theirs.result() == [REPEATED]


def test_the_first_who_would_be_mailed_is_shown(parts: Parts, owner: Caller) -> None:
    make_list(parts, owner, [person()], suppresses=True)
    chosen = person(
        name="Ada Byron", address="3 Oak St", email="ada@example.com", dob="1990-02-03", custom4="blue"
    )
    asked = reach(parts, owner, make_list(parts, owner, [NO_ADDRESS, ABROAD, person(), chosen, ELSEWHERE]))
    with parts.db.transaction(tenant(owner)) as tx:
        assert audience.first_person(tx, asked) == examine([chosen])[0]


def test_of_lists_that_reach_nobody_nobody_is_shown(parts: Parts, owner: Caller) -> None:
    asked = reach(parts, owner, make_list(parts, owner, [NO_ADDRESS]))
    with parts.db.transaction(tenant(owner)) as tx:
        assert audience.first_person(tx, asked) is None


def longest(parts: Parts, who: Caller, lists: list[int], *variables: str) -> list[Person]:
    with parts.db.transaction(tenant(who)) as tx:
        return longest_people(tx, lists, variables)


def test_who_cannot_be_mailed_needs_no_room(parts: Parts, owner: Caller) -> None:
    half = {"address": "9 Elm St", "custom1": "endless " * 30}
    none = {"email": "jane@example.com", "custom1": "by e-mail alone"}
    whose = make_list(parts, owner, [person(custom1="short"), half, none])
    [someone] = longest(parts, owner, [whose], "CUSTOM1")
    assert someone.custom[0] == "short"


def test_the_longest_values_of_all_lists_come_together(parts: Parts, owner: Caller) -> None:
    first = make_list(parts, owner, [person(city="Austin", custom1="z", dob="1990-02-03"), ELSEWHERE])
    second = make_list(parts, owner, [person(city="Springfield", custom1="long enough")])
    add_people(parts, second, [{"email": "no@example.com", "custom1": "of one who is never mailed"}])
    found = longest(parts, owner, [first, second], "CITY", "CUSTOM1", "DOB", "PHONE", "YOUR_NAME")
    custom = ("long enough",) + (None,) * 9
    assert found == [Person(city="Springfield", custom=custom, dob=date(1990, 2, 3))]


def test_names_are_long_in_their_own_ways(parts: Parts, owner: Caller) -> None:
    names = ["Bartholomew Li", "Al Featherstonehaugh", "Mary Ann de la Cruz Lee", "Bo Ek"]
    whom = [person(name=name, address=f"{n} Elm St") for n, name in enumerate(names)]
    whose = [make_list(parts, owner, whom)]

    def found(*variables: str) -> list[str | None]:
        return [someone.name for someone in longest(parts, owner, whose, *variables)]

    assert found("FIRST_NAME") == [names[0]]
    assert found("LAST_NAME") == [names[1]]
    assert found("NAME", "FULL_NAME") == [names[2]]
    assert found("FIRST_NAME", "LAST_NAME", "NAME") == names[:3]


def test_every_variable_can_be_asked_for(parts: Parts, owner: Caller) -> None:
    whose = [make_list(parts, owner, [person(company="Acme", address2="Apt 4")])]
    [someone] = longest(parts, owner, whose, *KNOWN)
    assert (someone.name, someone.company, someone.address2) == ("Jane Doe", "Acme", "Apt 4")
    assert (someone.province, someone.postal_code) == ("TX", "78701")


def test_without_variables_or_people_there_is_still_someone_to_write_to(parts: Parts, owner: Caller) -> None:
    whose = [make_list(parts, owner)]
    assert longest(parts, owner, whose) == longest(parts, owner, whose, "FIRST_NAME", "CUSTOM1") == [Person()]
