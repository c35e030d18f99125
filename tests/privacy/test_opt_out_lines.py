"""The line on each piece that says where its reader can ask for no more mail."""

from dataclasses import replace
from typing import Any

import pypdfium2 as pdfium
import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.environments import check_live_readiness
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import PRINT_FILE
from quillpost.fulfillment.service import draw_proof
from quillpost.orders import designs
from quillpost.orders.items.models import Item
from quillpost.orders.queries import read_order
from quillpost.orders.tasks import materialize_order
from quillpost.rendering.models import Copy
from support.factories import Account, Build, Clock, people, person
from support.production import LIVE_SETTINGS, batch_rows, files_of, sweep_due_orders
from support.qr_scans import codes_of

pytestmark = pytest.mark.usefixtures("clean_database")

WORDS = "Prefer no mail? 127.0.0.1:8025/stop/"
PAGE = "https://shop.example.com/hi"


def backs(pdf: bytes) -> list[str]:
    pages = [" ".join(page.get_textpage().get_text_range().split()) for page in pdfium.PdfDocument(pdf)]
    return pages[1::2]


def composed(container: Container, clock: Clock) -> int:
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        batch = batch_rows(tx)[-1]
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    return int(batch.id)


def printed(container: Container, batch_id: int) -> bytes:
    [pdf] = [data for name, data in files_of(container, batch_id).items() if name.endswith(PRINT_FILE)]
    return pdf


def test_each_piece_has_its_own_code_and_says_where_it_goes(owner: Account, container: Container, clock: Clock) -> None:
    inline = owner.send(recipients=people(2)).json()["id"]
    visitors = owner.post("/mailing-lists", {"description": "Visitors"}).json()["id"]
    rows = [person(mailing_list_id=visitors, address=f"{n} Oak Ave") for n in range(2)]
    owner.post("/recipients_multi", rows)
    listed = owner.send(recipients=None, mailing_list_ids=[visitors]).json()["id"]
    materialize_order(container.db, listed, now=container.clock())
    codes = codes_of(container, inline) + codes_of(container, listed)
    assert (len(set(codes)), None in codes) == (4, False)
    refused = owner.send(recipients=[person(), person()], schedule_for="2026-06-01").json()["id"]
    assert codes_of(container, refused)[1] is None, "who gets no paper needs no code"
    pages = backs(printed(container, composed(container, clock)))
    assert sorted(page.partition(WORDS)[2][:8] for page in pages) == sorted(codes)


def test_a_code_is_drawn_as_a_qr_code_only_where_it_leads_somewhere(owner: Account, container: Container) -> None:
    for url, drawn in ((None, False), (PAGE, True)):
        order_id = owner.send(qrcode_url=url, allow_duplicates=True).json()["id"]
        with container.db.system_transaction() as tx:
            order = read_order(tx, order_id)
            item = tx.execute(sa.select(items).where(items.c.order_id == order_id)).one()
        copy = designs.build_copy(Item.of(item), order, qr_base="https://mail.example.com", opt_out="Stop: ")
        assert copy.opt_out == f"Stop: {item.code}"
        assert copy.qr_url == (f"https://mail.example.com/q/{item.code}" if drawn else None)


def test_files_are_made_again_as_they_were_by_any_setting(owner: Account, container: Container, clock: Clock) -> None:
    owner.send()
    batch_id = composed(container, clock)
    before = files_of(container, batch_id)
    assert WORDS in backs(printed(container, batch_id))[0]
    for changed in (None, "Other words: example.com/"):
        batch_tasks.remake_files(replace(container.production, opt_out=changed), batch_id)
        assert files_of(container, batch_id) == before

    # A batch of the release before: only pieces with a QR code had codes, and it wrote down no line.
    owner.send(qrcode_url=PAGE)
    batch_id = composed(replace(container, production=replace(container.production, opt_out=None)), clock)
    before = files_of(container, batch_id)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(batches.c.opt_out).where(batches.c.id == batch_id)).scalar_one() is None
    batch_tasks.remake_files(container.production, batch_id)
    assert files_of(container, batch_id) == before
    assert "Prefer" not in backs(printed(container, batch_id))[0]

    owner.send()
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).values(code=None))
    assert "Prefer" not in backs(printed(container, composed(container, clock)))[0], "a piece without a code"


def test_proofs_and_previews_have_it(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    order_id = owner.send().json()["id"]
    assert f"{WORDS}{codes_of(container, order_id)[0]}" in backs(draw_proof(container.production, order_id))[0]
    shown: list[Copy] = []
    true_specimen = designs.build_specimen

    def seen(*whom: Any, **how: Any) -> Copy:
        shown.append(true_specimen(*whom, **how))
        return shown[-1]

    monkeypatch.setattr(designs, "build_specimen", seen)
    assert owner.send(preview=True).status_code == 200
    assert [copy.opt_out for copy in shown] == [f"{WORDS}PREVIEW0"]


def test_an_address_too_long_for_the_line_is_a_gap_unless_there_is_none(build: Build) -> None:
    assert build(opt_out_line=False).production.opt_out is None
    base = f"https://{'mail.' * 16}example.com"
    for chosen, gaps in (({}, 1), ({"opt_out_line": False}, 0), ({"base_url": LIVE_SETTINGS["base_url"]}, 0)):
        settings = Settings.model_validate(LIVE_SETTINGS | {"base_url": base} | chosen)
        found = check_live_readiness(settings, bootstrap.build_renderer(settings)).gaps
        assert len(found) == gaps
    settings = Settings.model_validate(LIVE_SETTINGS | {"base_url": base})
    [gap] = check_live_readiness(settings, bootstrap.build_renderer(settings)).gaps
    assert gap.startswith("QUILLPOST_BASE_URL is too long for the opt-out line on 4x6 postcard,")
    assert gap.endswith("use a shorter one, or set QUILLPOST_OPT_OUT_LINE to false.")
