"""Gift cards are requested from issuers, or taken from a stock."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Conflict, Unavailable
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import redraw_batch_files
from quillpost.integrations.giftcards.stock import StockCards
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret, IssuerDown
from quillpost.orders.giftcards.tasks import CardReturns
from quillpost.orders.rules import ItemStatus
from support.factories import Account, Clock, people
from support.giftcard_orders import (
    BRAND,
    VALUE,
    Answers,
    Issuer,
    add_stock,
    assert_all_is_printed,
    assert_all_is_well,
    assert_books_agree,
    batches_of,
    card,
    card_row,
    claims_on_paper,
    compose_all,
    end_reviews,
    free_in_stock,
    give_back,
    is_issued,
    load_stock,
    move_items,
    print_file,
    production_with,
    send_giftcards,
    statuses,
    stock_of,
    stocked,
)
from support.orders import item_ids
from support.production import compose, hand_over, read_batch, reprint, stumble_over
from support.rows import execute
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")


def test_a_stock_gives_what_expires_first_and_not_too_soon(container: Container, tmp_path: Path, clock: Clock) -> None:
    today = clock.now().date()
    add_stock(container, tmp_path, clock, ["NEVER"])
    add_stock(container, tmp_path, clock, ["LATE"], expires_on=today + timedelta(days=90))
    add_stock(container, tmp_path, clock, ["SOON"], expires_on=today + timedelta(days=40))
    stock = StockCards(container.db, container.encryptor, clock=clock.now)
    assert [each.code for each in is_issued(stock.issue([card()], now=clock.now()))] == ["SOON"]
    add_stock(container, tmp_path, clock, ["SOONER"], expires_on=today + timedelta(days=35))
    clock.advance(days=6)
    assert stock.in_stock(BRAND, "", VALUE) == 2
    found = stock.issue([card() for _ in range(3)], now=clock.now())
    codes = [each.code if isinstance(each, CardSecret) else each.reason for each in found.values()]
    assert codes == ["LATE", "NEVER", "There are no cards of brindlewick over 2500 cents left."]
    assert {each.issuer_status for each in found.values() if isinstance(each, CardNotIssued)} == {"none"}
    assert stock.in_stock(BRAND, "", VALUE + 1) == stock.in_stock("another", "", VALUE) == 0


def test_a_card_that_is_held_for_a_moment_is_waited_for(container: Container, tmp_path: Path, clock: Clock) -> None:
    add_stock(container, tmp_path, clock, ["ONLY"])
    stock = StockCards(container.db, container.encryptor, clock=clock.now)
    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            tx.execute(sa.update(giftcard_stock).values(source="sealed anew"))
            issuing = pool.submit(stock.issue, [card()], now=clock.now())
            wait_until(lambda: is_lock_awaited(container) or issuing.done())
            assert not issuing.done()
        assert [each.code for each in is_issued(issuing.result())] == ["ONLY"]


def printed_batch(container: Container, clock: Clock) -> int:
    [batch] = end_reviews(container.production, container, clock)
    return compose(container, batch)


def test_every_piece_is_printed_with_its_own_claim(container: Container, clock: Clock, owner: Account) -> None:
    path = f"/orders/{send_giftcards(owner, recipients=people(3))}/items"
    assert owner.get(path).json()["data"][0]["giftcard"] is None
    printed_batch(container, clock)
    assert batches_of(container) == [("composed", 3, None)]
    assert_all_is_printed(container)
    shown = [item["giftcard"] for item in owner.get(path).json()["data"]]
    assert shown == [{"brand": "brindlewick", "amount": VALUE}] * 3
    move = sa.select(ledger_moves.c.source, ledger_moves.c.target, ledger_moves.c.cents)
    assert execute(container, move.where(ledger_moves.c.kind == "issue")) == [("held", "gifts", 3 * VALUE)]


def test_a_batch_is_made_again_to_the_byte_when_a_card_is_void_or_the_keys_have_changed(
    container: Container, clock: Clock, owner: Account
) -> None:
    order = send_giftcards(owner, recipients=people(2))
    batch = printed_batch(container, clock)
    printed = print_file(container, batch)
    move_items(container, item_ids(container, order)[:1], ItemStatus.FAILED)
    assert statuses(container) == ["void", "issued"]
    known, newer = read_batch(container, batch), Encryptor({"2": b"2" * 32}, "2")
    assert redraw_batch_files(container.production, known)["print.pdf"] == printed
    _reencrypt_claims(container, newer)
    assert redraw_batch_files(replace(container.production, encryptor=newer), known)["print.pdf"] == printed


def _reencrypt_claims(container: Container, newer: Encryptor) -> None:
    for row in execute(container, sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)):
        context = f"giftcards:{row.item_id}:claim"
        sealed = newer.encrypt(container.encryptor.decrypt(bytes(row.claim_sealed), context=context), context=context)
        execute(container, sa.update(giftcards).where(giftcards.c.item_id == row.item_id).values(claim_sealed=sealed))


def test_a_reprint_has_the_same_claim_while_it_is_kept(container: Container, clock: Clock, owner: Account) -> None:
    send_giftcards(owner, recipients=people(2))
    batch = hand_over(container, printed_batch(container, clock))
    first = claims_on_paper(container, batch)
    again = compose(container, reprint(container, batch, 2).batch_id)
    [(item, claim)] = claims_on_paper(container, again).items()
    assert first[item] == claim
    assert_all_is_well(container)
    execute(container, sa.update(giftcards).values(claim_sealed=None))
    with pytest.raises(Unavailable, match="claims of its gift cards are forgotten"):
        redraw_batch_files(container.production, read_batch(container, batch))
    with pytest.raises(Conflict, match="None of these pieces"):
        reprint(container, batch, 1)


@pytest.mark.parametrize("table", ["orders", "giftcards"])
def test_cards_are_sealed_once_it_is_their_turn(
    table: str, container: Container, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they could wait for it under a key that is forgotten meanwhile."""
    seal = issuance.encrypt_cards
    sealed: list[int] = []

    def looks(encryptor: Encryptor, cards: Mapping[int, CardSecret]) -> list[issuance.EncryptedCard]:
        with pytest.raises(Unavailable) as waits, container.db.system_transaction() as tx:
            tx.execute(sa.text(f"select from {table} for no key update nowait"))
        assert "could not obtain lock" in str(waits.value.__cause__)
        sealed.extend(cards)
        return seal(encryptor, cards)

    monkeypatch.setattr(issuance, "encrypt_cards", looks)
    order = send_giftcards(owner)
    printed_batch(container, clock)
    assert sealed == item_ids(container, order)


def test_words_that_do_not_fit_give_the_card_back(
    container: Container, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [send_giftcards(owner, recipients=people(1), message=message) for message in ("Fine", "Unlucky")]
    stumble_over(container, monkeypatch, ValueError("no such thing can be drawn"), "Unlucky")
    printed_batch(container, clock)
    assert [card_row(container, item_ids(container, order)[0]).status for order in sent] == ["issued", "void"]
    give_back(container, container.production)
    assert_all_is_printed(container)


def test_composing_twice_at_once_issues_each_card_once(container: Container, clock: Clock, owner: Account) -> None:
    send_giftcards(owner, recipients=people(4))
    both = threading.Barrier(2, timeout=20)

    def together(_requests: Sequence[CardRequest], answers: Answers) -> Answers:
        both.wait()
        return answers

    production = stocked(container, 8, together)
    [batch] = end_reviews(production, container, clock)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: batch_tasks.compose_batch(production, batch, now=container.clock()), range(2)))
    assert free_in_stock(container) == 4
    assert_all_is_printed(container)


class RandomFailures:
    """While cards are asked for: answers are lost, wholly or in part, and pieces fail."""

    def __init__(self, container: Container, chance: Random, pieces: Sequence[int]) -> None:
        self._parts, self._chance, self._pieces = container, chance, list(pieces)
        self.is_over = False

    def __call__(self, requests: Sequence[CardRequest], answers: Answers) -> Answers:
        what = "nothing" if self.is_over else self._chance.choice(
            ("nothing", "down", "death", "part", "failing", "failing")
        )  # fmt: skip
        if what == "down":
            raise IssuerDown("Not now.")
        if what == "death":
            raise ConnectionResetError
        if what == "failing":
            move_items(self._parts, self._chance.sample(self._pieces, 1), ItemStatus.FAILED)
        if what == "part":
            kept = self._chance.sample(list(answers), len(answers) // 2)
            return {reference: answers[reference] for reference in kept}
        return answers


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))])
def test_whatever_happens_meanwhile_each_piece_has_one_card_or_none(
    seed: int, container: Container, clock: Clock, owner: Account
) -> None:
    chance = Random(seed)
    sent = [send_giftcards(owner, recipients=people(4)) for _ in range(2)]
    failures = RandomFailures(container, chance, [piece for order in sent for piece in item_ids(container, order)])
    production = production_with(container, Issuer(stock_of(container), failures))
    end_reviews(container.production, container, clock)
    returns = CardReturns(container.db, production.giftcard_issuers)

    def compose() -> None:
        with suppress(ConnectionResetError):  # the job is tried again
            compose_all(production, container)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            load_stock(container, chance.randrange(3))
            for done in [pool.submit(compose) for _ in range(2)]:
                done.result()
            returns.return_cards(now=container.clock())
            with container.db.system_transaction() as tx:
                assert_books_agree(tx)
    failures.is_over = True
    load_stock(container, 8)
    for _ in range(3):
        compose_all(production, container)
        returns.return_cards(now=container.clock())
    assert execute(container, sa.select(giftcards).where(giftcards.c.status == "asked")) == []
    assert {status for status, *_ in batches_of(container)} <= {"composed", "mailed"}
    assert_all_is_printed(container)
