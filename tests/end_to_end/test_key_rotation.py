"""The key is changed over a hundred thousand gift cards, while others are sent, issued and claimed."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
import sqlalchemy as sa

from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor, KeyFile, key_fingerprint, read_key_id
from quillpost.orders.giftcards import issuance
from support.bulk_giftcards import code_of, make_many
from support.crash_points import CrashPoint
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients
from support.giftcard_orders import item_ids_of, mail_giftcard, read_claim, send_giftcards
from support.processes import Command, CommandRunner, until
from support.sender_office import SenderService, open_sender_service

CARDS = 100_000
LONG = 300.0
PIECES = 2
IN_THE_MIDDLE = CrashPoint("quillpost.core.database.encrypted_columns:_reencrypt_rows", "after", call=150)
"""Of batches of a thousand there are three hundred."""

ISSUED = "select count(*) from giftcards where order_id = :order_id and status = 'issued'"


@dataclass
class Business:
    """Orders that are sent one after the other, and cards that people have shown."""

    sender_service: SenderService
    claims: dict[int, str]
    orders: list[int] = field(default_factory=list)
    shown: Counter[int] = field(default_factory=Counter)

    def go_on(self, stop: Event) -> None:
        while not stop.is_set():
            self.send()

    def send(self) -> None:
        """An order whose cards are issued by the worker, and claimed; others are claimed meanwhile."""
        order_id = send_giftcards(self.sender_service.sender, recipients=make_inline_recipients(PIECES))
        until(lambda: self._is_issued(order_id), what="the order's cards issued", seconds=LONG)
        for item_id in item_ids_of(self.sender_service.container, order_id):
            self._claim(item_id, read_claim(self.sender_service.container, item_id))
        self.orders.append(order_id)

    def _is_issued(self, order_id: int) -> bool:
        item_id = next(each for each in self.claims if each not in self.shown)
        assert code_of(item_id) in self._claim(item_id, self.claims[item_id])
        return bool(self.sender_service.value(ISSUED, order_id=order_id) == PIECES)

    def _claim(self, item_id: int, claim: str) -> str:
        answer = self.sender_service.sender.http.post(f"/gift/{claim}/claim")
        assert answer.status_code == 200, answer.text
        self.shown[item_id] += 1
        return answer.text


@pytest.fixture
def sender_service(conninfo: str, home: Path, receiver: EventReceiver) -> Iterator[SenderService]:
    with open_sender_service(conninfo, home, receiver) as sender_service:
        yield sender_service


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_every_card_is_reencrypted_and_none_is_lost(
    sender_service: SenderService, command_runner: CommandRunner, conninfo: str, home: Path
) -> None:
    def keys(*words: str, crash: CrashPoint | None = None) -> Command:
        return command_runner.start("keys", *words, settings=sender_service.settings, crash=crash)

    parts, file = sender_service.container, KeyFile(home / "secret.key")
    [old] = file.read_keys()
    first = mail_giftcard(parts, sender_service.sender)
    claims = make_many(conninfo, parts.encryptor, first, CARDS)
    worker = command_runner.start("work", settings=sender_service.settings)
    business, stop = Business(sender_service, claims), Event()
    with ThreadPoolExecutor() as pool:
        going = pool.submit(business.go_on, stop)
        try:
            until(lambda: business.orders or going.done(), what="business going on", seconds=LONG)
            assert keys("new").wait() == 0
            killed = keys("reseal", crash=IN_THE_MIDDLE)
            assert killed.wait(LONG) == -signal.SIGKILL, killed.output
            assert {read_key_id(each) for each in all_sealed(sender_service)} == {
                key_fingerprint(key) for key in file.read_keys()
            }
            at_once = [keys("reseal"), keys("reseal")]
            assert [each.wait(LONG) for each in at_once] == [0, 0], at_once[0].output + at_once[1].output
            before = len(business.orders)
            until(lambda: len(business.orders) > before or going.done(), what="it goes on", seconds=LONG)
        finally:
            stop.set()
        going.result(LONG)
    last = keys("reseal")  # what was sealed before the change, and written after its turn
    assert last.wait(LONG) == 0, last.output

    assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()[:1]), claims, business)
    assert set(business.shown.values()) == {1}
    then = file.changed_at - timedelta(hours=1)
    os.utime(file.path, (then.timestamp(), then.timestamp()))
    forgotten = keys("forget", key_fingerprint(old), "--yes")
    assert forgotten.wait() == 0, forgotten.output
    business.send()  # with a worker that was there before the key was changed
    assert worker.stop() == 0, worker.output
    assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()), claims, business)


def all_sealed(sender_service: SenderService) -> Iterator[bytes]:
    """Claims and cards: in whichever of them it was killed."""
    with sender_service.container.db.system_transaction() as tx:
        for column in (giftcards.c.claim_sealed, giftcards.c.card_sealed, giftcard_stock.c.card_sealed):
            yield from map(bytes, tx.execute(sa.select(column)).scalars())


def assert_all_open(
    sender_service: SenderService, alone: Encryptor, claims: dict[int, str], business: Business
) -> None:
    """Under this key alone, each with what was sealed in it; as many as were made."""
    how_many = CARDS + 1 + PIECES * len(business.orders)
    with sender_service.container.db.system_transaction() as tx:
        cards = tx.execute(sa.text("select item_id, claim_sealed, card_sealed from giftcards")).all()
        stock = tx.execute(sa.text("select id, mode, card_sealed from giftcard_stock")).all()
        claimed = tx.execute(sa.text("select count(*) from giftcards where claimed_at is not null")).scalar()
    assert (len(cards), len(stock), claimed) == (how_many, how_many, len(business.shown))
    codes = set()
    for row in cards:
        card = issuance.decrypt_card(alone, issuance.card_context(row.item_id), bytes(row.card_sealed))
        claim = issuance.decrypt_claim(alone, row.item_id, bytes(row.claim_sealed))
        codes.add(card.code)
        assert row.item_id not in claims or (card.code, claim) == (code_of(row.item_id), claims[row.item_id])
    assert len(codes) == how_many
    for row in stock:
        code = issuance.decrypt_card(alone, issuance.stock_context(row.id), bytes(row.card_sealed)).code
        assert code == code_of(row.id) if row.mode == "live" else code in codes
