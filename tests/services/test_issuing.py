"""Cards are issued when a batch is composed: one for each piece, ever, and its claim is what is printed."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from gift_press import (
    VALUE,
    Answers,
    Issuer,
    assert_all_is_well,
    assert_books_agree,
    assert_printed_as_issued,
    batches_of,
    claims_on_paper,
    compose_all,
    end_reviews,
    free_in_stock,
    load,
    press_with,
    print_file,
    statuses,
    stock_of,
)
from gifted import card_row, move, pieces_of, send_gifts

from makers import Account, Clock, people
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import ledger_moves
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Conflict, Unavailable
from quillpost.fulfillment import production
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.drawing import remade
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, IssuerDown
from quillpost.orders.giftcards.returns import Returns
from quillpost.orders.rules import ItemStatus

# On paper


def test_every_piece_is_printed_with_the_claim_of_its_own_card(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    order = send_gifts(owner, recipients=people(3))
    end_reviews(parts.press, parts, clock)
    assert owner.get(f"/orders/{order}/items").json()["data"][0]["giftcard"] is None
    compose_all(parts.press, parts)
    assert batches_of(parts) == [("composed", 3, None)]
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)
    shown = [item["giftcard"] for item in owner.get(f"/orders/{order}/items").json()["data"]]
    assert shown == [{"brand": "brindlewick", "amount": VALUE}] * 3
    with parts.db.work() as tx:
        moves = tx.execute(sa.select(ledger_moves).where(ledger_moves.c.kind == "issue")).all()
    assert [(row.source, row.target, row.cents) for row in moves] == [("held", "gifts", 3 * VALUE)]


def test_a_batch_is_made_again_to_the_byte_when_a_card_is_void_or_the_keys_have_changed(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    order = send_gifts(owner, recipients=people(2))
    [batch] = end_reviews(parts.press, parts, clock)
    compose_all(parts.press, parts)
    printed = print_file(parts, batch)
    move(parts, pieces_of(parts, order)[:1], ItemStatus.FAILED)
    assert statuses(parts) == ["void", "issued"]
    old = parts.sealer
    assert isinstance(old, Sealer)
    with parts.db.work() as tx:
        known = fulfillment_queries.read_batch(tx, batch)
    assert remade(parts.press, known)["print.pdf"] == printed
    _seal_anew(parts, newer := Sealer({"2": b"2" * 32}, "2"))
    assert remade(replace(parts.press, sealer=newer), known)["print.pdf"] == printed


def _seal_anew(parts: Parts, newer: Sealer) -> None:
    with parts.db.work() as tx:
        for row in tx.execute(sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)).all():
            context = f"giftcards:{row.item_id}:claim"
            sealed = newer.seal(parts.sealer.open(bytes(row.claim_sealed), context=context), context=context)
            tx.execute(
                sa.update(giftcards).where(giftcards.c.item_id == row.item_id).values(claim_sealed=sealed)
            )


def test_a_claim_that_is_no_longer_kept_is_printed_never_again(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    send_gifts(owner, recipients=people(2))
    [batch] = end_reviews(parts.press, parts, clock)
    compose_all(parts.press, parts)
    production.hand_over(parts.press, batch, now=parts.clock())
    with parts.db.work() as tx:
        tx.execute(sa.update(giftcards).values(claim_sealed=None))
        known = fulfillment_queries.read_batch(tx, batch)
    with pytest.raises(Unavailable, match="claims of its gift cards are forgotten"):
        remade(parts.press, known)
    with pytest.raises(Conflict, match="None of these pieces"):
        print_room_service.reprint(
            parts.db, parts.worlds["test"], batch, positions=[1], reason="torn", now=parts.clock()
        )


def test_a_reprint_has_the_same_claim_and_no_second_card(parts: Parts, clock: Clock, owner: Account) -> None:
    send_gifts(owner, recipients=people(2))
    [batch] = end_reviews(parts.press, parts, clock)
    compose_all(parts.press, parts)
    first = claims_on_paper(parts, batch)
    production.hand_over(parts.press, batch, now=parts.clock())
    world = parts.worlds["test"]
    again = print_room_service.reprint(
        parts.db, world, batch, positions=[2], reason="torn", now=parts.clock()
    )
    compose_all(parts.press, parts)
    [(item, claim)] = claims_on_paper(parts, again.batch_id).items()
    assert first[item] == claim
    assert_all_is_well(parts)


@pytest.mark.parametrize("table", ["orders", "giftcards"])
def test_cards_are_sealed_once_it_is_their_turn(
    table: str, parts: Parts, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they could wait for it under a key that is forgotten meanwhile."""
    seal = issuance.seal
    sealed: list[int] = []

    def looks(sealer: Sealer, cards: Mapping[int, GiftCard]) -> list[issuance.Sealed]:
        with pytest.raises(Unavailable) as waits, parts.db.work() as tx:
            tx.execute(sa.text(f"select from {table} for no key update nowait"))
        assert "could not obtain lock" in str(waits.value.__cause__)
        sealed.extend(cards)
        return seal(sealer, cards)

    monkeypatch.setattr(issuance, "seal", looks)
    order = send_gifts(owner)
    end_reviews(parts.press, parts, clock)
    compose_all(parts.press, parts)
    assert sealed == pieces_of(parts, order)


def test_words_that_do_not_fit_give_the_card_back(
    parts: Parts, clock: Clock, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = send_gifts(owner, recipients=people(1), message="Fine")
    bad = send_gifts(owner, recipients=people(1), message="Unlucky")
    draw = parts.press.studio.compose

    def draws(designs: Any, copies: Any, **how: Any) -> Any:
        if any(design.message == "Unlucky" for design in designs.values()):
            raise ValueError("no such thing can be drawn")
        return draw(designs, copies, **how)

    monkeypatch.setattr(type(parts.press.studio), "compose", lambda _self, *what, **how: draws(*what, **how))
    end_reviews(parts.press, parts, clock)
    compose_all(parts.press, parts)
    assert [card_row(parts, pieces_of(parts, order)[0]).status for order in (good, bad)] == ["issued", "void"]
    Returns(parts.db, parts.press.issuers).give_back(now=parts.clock())
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)


# Everything at once


def test_two_who_compose_a_batch_at_once_issue_each_card_once(
    parts: Parts, clock: Clock, owner: Account
) -> None:
    send_gifts(owner, recipients=people(4))
    load(parts, 8)
    both = threading.Barrier(2, timeout=20)

    def together(_asked: Sequence[CardAsked], answers: Answers) -> Answers:
        both.wait()
        return answers

    press = press_with(parts, Issuer(stock_of(parts), together))
    [batch] = end_reviews(press, parts, clock)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: production.compose(press, batch, now=parts.clock()), range(2)))
    assert free_in_stock(parts) == 4
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)


class Trouble:
    """While cards are asked for: answers are lost, wholly or in part, and pieces fail."""

    def __init__(self, parts: Parts, chance: Random, pieces: Sequence[int]) -> None:
        self._parts, self._chance, self._pieces = parts, chance, list(pieces)
        self.is_over = False

    def __call__(self, asked: Sequence[CardAsked], answers: Answers) -> Answers:
        what = "nothing" if self.is_over else self._chance.choice(
            ("nothing", "down", "death", "part", "failing", "failing")
        )  # fmt: skip
        if what == "down":
            raise IssuerDown("Not now.")
        if what == "death":
            raise ConnectionResetError
        if what == "failing":
            move(self._parts, self._chance.sample(self._pieces, 1), ItemStatus.FAILED)
        if what == "part":
            kept = self._chance.sample(list(answers), len(answers) // 2)
            return {reference: answers[reference] for reference in kept}
        return answers


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))]
)
def test_whatever_happens_meanwhile_each_piece_has_one_card_or_none(
    seed: int, parts: Parts, clock: Clock, owner: Account
) -> None:
    chance = Random(seed)
    sent = [send_gifts(owner, recipients=people(4)) for _ in range(2)]
    trouble = Trouble(parts, chance, [piece for order in sent for piece in pieces_of(parts, order)])
    press = press_with(parts, Issuer(stock_of(parts), trouble))
    end_reviews(parts.press, parts, clock)
    returns = Returns(parts.db, press.issuers)

    def compose() -> None:
        with suppress(ConnectionResetError):  # the job is tried again
            compose_all(press, parts)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            load(parts, chance.randrange(3))
            for done in [pool.submit(compose) for _ in range(2)]:
                done.result()
            returns.give_back(now=parts.clock())
            with parts.db.work() as tx:
                assert_books_agree(tx)
    trouble.is_over = True
    load(parts, 8)
    for _ in range(3):
        compose_all(press, parts)
        returns.give_back(now=parts.clock())
    with parts.db.work() as tx:
        assert tx.execute(sa.select(giftcards).where(giftcards.c.status == "asked")).all() == []
    assert {status for status, *_ in batches_of(parts)} <= {"composed", "mailed"}
    assert_all_is_well(parts)
    assert_printed_as_issued(parts)
