"""Printed codes outlive the address that is printed in them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pypdfium2 as pdfium
import pytest
import zxingcpp

from quillpost.accounts import service
from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.review import service as review_service
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock
from support.orders import REVIEW
from support.production import batch_rows, files_of
from support.test_client import TestClient

OLD, NEW = "https://old.example.com", "https://new.example.org"
DESTINATION = "https://shop.example.com/hi"


@contextmanager
def served(container: Container) -> Iterator[TestClient]:
    """The service as it runs after a start with these parts."""
    with TestClient(create_app(container), base_url=container.base_url, raise_server_exceptions=False) as http:
        yield http


def print_one(container: Container, clock: Clock, sender: Account) -> int:
    """A card with a code goes into a batch of its own, and is composed."""
    assert sender.send(qrcode_url=DESTINATION).status_code == 200
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        batch = batch_rows(tx)[-1]
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    return int(batch.id)


def code_on(files: dict[str, bytes]) -> str:
    """What a phone reads on the only piece."""
    [print_file] = [content for name, content in files.items() if name.endswith("print.pdf")]
    document = pdfium.PdfDocument(print_file)
    pages = [page.render(scale=300 / 72).to_pil() for page in document]
    document.close()
    formats = zxingcpp.BarcodeFormats(zxingcpp.QRCode)
    [found] = [code.text for page in pages for code in zxingcpp.read_barcodes(page, formats)]
    return str(found)


@pytest.fixture
def token(container: Container) -> str:
    with container.db.system_transaction() as tx:
        now = container.clock()
        account_id = service.create_account(tx, email="owner@example.com", name="Dana Whitfield", now=now)
        return insert_token(tx, account_id, mode="test", name="test", now=now)[1]


def test_a_new_host_keeps_old_codes_and_files_as_they_are(build: Build, clock: Clock, token: str) -> None:
    old = build(base_url=OLD)
    with served(old) as http:
        first = print_one(old, clock, Account(0, token, http))
    old.db.close()
    printed_before = files_of(old, first)

    new = build(base_url=NEW)
    with served(new) as http:
        second = print_one(new, clock, Account(0, token, http))
        codes = [code_on(printed_before), code_on(files_of(new, second))]
        assert [code.rpartition("/q/")[0] for code in codes] == [OLD, NEW]
        for code in codes:
            path = "/q/" + code.rpartition("/q/")[2]
            # Whichever name the world has for us: DNS may send the old one here for years.
            for host in (OLD, NEW, "http://10.0.0.7:8025"):
                answer = http.get(host + path, follow_redirects=False)
                assert (answer.status_code, answer.headers["location"]) == (302, DESTINATION)

    # Lost before they were handed over, the old batch's files are made again: to the byte, old host and all.
    for key in printed_before:
        new.storage.store.delete(key)
    batch_tasks.hand_over_batch(new.production, first, now=new.clock())
    assert files_of(new, first) == printed_before
