"""The key is changed over a hundred thousand gift cards, while others are sent, issued and claimed."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event

import pytest
import sqlalchemy as sa

from quillpost.core.database.tables.orders import giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor, KeyFile, key_fingerprint, read_key_id
from quillpost.orders.giftcards import issuance
from support.encrypted_data import code_of, make_many
from support.event_receiver import EventReceiver
from support.factories import make_inline_recipients
from support.giftcard_orders import mail_giftcard, read_claim, send_giftcards
from support.orders import item_ids
from support.processes import Command, CommandRunner, CrashPoint, until
from support.sender_service import SenderService, open_sender_service

CARDS = 100_000
LONG = 300.0
PIECES = 2
IN_THE_MIDDLE = CrashPoint("quillpost.core.database.encrypted_columns:_reencrypt_rows", "after", call=150)
"""Of batches of a thousand there are three hundred."""

ISSUED = "select count(*) from giftcards where order_id = :order_id and status = 'issued'"
CLAIMED = "select count(*) from giftcards where claimed_at is not null"


def send_and_claim(sender_service: SenderService) -> None:
    """An order whose cards are issued by the worker, and claimed."""
    order_id = send_giftcards(sender_service.sender, recipients=make_inline_recipients(PIECES))
    until(lambda: sender_service.value(ISSUED, order_id=order_id) == PIECES, what="cards issued", seconds=LONG)
    for item_id in item_ids(sender_service.container, order_id):
        claim_card(sender_service, read_claim(sender_service.container, item_id))


def claim_card(sender_service: SenderService, claim: str) -> str:
    answer = sender_service.sender.http.post(f"/gift/{claim}/claim")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_every_card_is_reencrypted_and_none_is_lost(
    conninfo: str, home: Path, receiver: EventReceiver, command_runner: CommandRunner
) -> None:
    orders, stop, file = count(), Event(), KeyFile(home / "secret.key")
    with open_sender_service(conninfo, home, receiver) as sender_service, ThreadPoolExecutor() as pool:

        def keys(*words: str, crash: CrashPoint | None = None) -> Command:
            return command_runner.start("keys", *words, settings=sender_service.settings, crash=crash)

        def go_on() -> None:
            while not stop.is_set():
                send_and_claim(sender_service)
                next(orders)

        parts = sender_service.container
        first = mail_giftcard(parts, sender_service.sender)
        [old] = file.read_keys()
        claims = make_many(conninfo, parts.encryptor, first, CARDS)
        worker = command_runner.start("work", settings=sender_service.settings)
        going = pool.submit(go_on)
        try:
            until(lambda: sender_service.value(CLAIMED) > 0 or going.done(), what="business going on", seconds=LONG)
            assert keys("new").wait() == 0
            killed = keys("reseal", crash=IN_THE_MIDDLE)
            assert killed.wait(LONG) == -signal.SIGKILL, killed.output
            assert set(key_ids(sender_service)) == {key_fingerprint(key) for key in file.read_keys()}
            for item_id, claim in list(claims.items())[::1_000]:
                assert code_of(item_id) in claim_card(sender_service, claim)
            at_once = [keys("reseal"), keys("reseal")]
            assert [each.wait(LONG) for each in at_once] == [0, 0], at_once[0].output + at_once[1].output
        finally:
            stop.set()
        going.result(LONG)
        last = keys("reseal")  # what was sealed before the change, and written after its turn
        assert last.wait(LONG) == 0, last.output
        assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()[:1]), claims)

        then = file.changed_at - timedelta(hours=1)
        os.utime(file.path, (then.timestamp(), then.timestamp()))
        forgotten = keys("forget", key_fingerprint(old), "--yes")
        assert forgotten.wait() == 0, forgotten.output
        send_and_claim(sender_service)  # with a worker that was there before the key was changed
        assert worker.stop() == 0, worker.output
        how_many = CARDS + 1 + PIECES * (next(orders) + 1)
        assert assert_all_open(sender_service, Encryptor.from_keys(file.read_keys()), claims) == how_many


def key_ids(sender_service: SenderService) -> list[str]:
    """Of claims and cards: in whichever of them it was killed."""
    with sender_service.container.db.system_transaction() as tx:
        columns = (giftcards.c.claim_sealed, giftcards.c.card_sealed, giftcard_stock.c.card_sealed)
        return [read_key_id(bytes(value)) for column in columns for value in tx.execute(sa.select(column)).scalars()]


def assert_all_open(sender_service: SenderService, alone: Encryptor, claims: dict[int, str]) -> int:
    """Under this key alone, each with what was sealed in it; how many there are."""
    with sender_service.container.db.system_transaction() as tx:
        cards = tx.execute(sa.text("select item_id, claim_sealed, card_sealed from giftcards")).all()
        stock = tx.execute(sa.text("select id, mode, card_sealed from giftcard_stock")).all()
    codes = set()
    for row in cards:
        card = issuance.decrypt_card(alone, issuance.card_context(row.item_id), bytes(row.card_sealed))
        claim = issuance.decrypt_claim(alone, row.item_id, bytes(row.claim_sealed))
        codes.add(card.code)
        assert row.item_id not in claims or (card.code, claim) == (code_of(row.item_id), claims[row.item_id])
    assert len(codes) == len(stock) == len(cards)
    for row in stock:
        code = issuance.decrypt_card(alone, issuance.stock_context(row.id), bytes(row.card_sealed)).code
        assert code == code_of(row.id) if row.mode == "live" else code in codes
    return len(cards)
