"""A process that dies at any step of a gift card's way: to paper, back to its issuer, to whoever claims it. What was
issued is printed, and once; what is void is given back, and its money returned, once."""

from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from quillpost.app import environments
from quillpost.fulfillment.batches import queries as batch_queries
from quillpost.fulfillment.batches.files import PRINT_FILE, redraw_batch_files
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.integrations.giftcards.stock import StockCards
from support.factories import people
from support.giftcard_orders import card_row, issue_cards, issue_order_cards, mail_giftcard, read_claim, send_giftcards
from support.giftcard_production import (
    VALUE,
    assert_all_is_well,
    assert_books_agree,
    free_in_stock,
    load_stock,
    print_file,
)
from support.giftcard_servers import FUNDING_SOURCE, TREMENDOUS_KEY, TremendousServer
from support.print_room import HOME
from support.process_deaths import Death, MortalService
from support.production import LIVE_SETTINGS

PIECES = 2
LEDGER = "select kind, cents from ledger_moves where order_id = %s order by id"
CARDS = "select status, issuer, count(*) from giftcards where order_id = %s group by 1, 2"


@pytest.mark.parametrize("issuer", ["stock", "tremendous"])
def test_a_card_is_issued_and_printed_once(
    issuer: str, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that an operator loads, and of those that another service issues; for a printer who watches a folder."""
    partner, taken = tmp_path / "partner", tmp_path / "taken"
    for folder in (partner, taken):
        folder.mkdir()
    settings = LIVE_SETTINGS | {"print_partner": f"file://{partner}", "review_seconds": 0}
    with ExitStack() as stack:
        house = stack.enter_context(TremendousServer())
        if issuer == "tremendous":
            settings |= {"giftcards": f"tremendous:{house.url()}", "giftcards_key": TREMENDOUS_KEY}
            settings |= {"giftcards_account": FUNDING_SOURCE}
        service = stack.enter_context(closing(MortalService(conninfo, tmp_path, monkeypatch, "live", **settings)))
        load_stock(service.container, PIECES, mode="live")  # to spare

        def flow(death: Death) -> None:
            load_stock(service.container, PIECES, mode="live")
            order = send_giftcards(service.sender, recipients=people(PIECES), **HOME)
            with death:
                service.work(times=2)
            take_jobs(partner, taken)
            service.work(times=2)
            take_jobs(partner, taken)

            assert service.rows(CARDS, order) == [("issued", issuer, PIECES)]
            [(pieces, gifts)] = service.rows("select order_total, gift_total from orders where id = %s", order)
            assert gifts == PIECES * VALUE
            assert service.rows(LEDGER, order) == [("authorise", pieces + gifts), ("issue", gifts)]
            batches = """select distinct b.id, b.status, b.item_count from batches b join prints p on p.batch_id = b.id
                          join items i on i.id = p.item_id where i.order_id = %s"""
            [(batch, status, item_count)] = service.rows(batches, order)
            assert (status, item_count) == ("handed", PIECES)
            assert_printed_as_stored(service, batch)
            printed = taken / batch_reference(batch) / PRINT_FILE
            assert printed.read_bytes() == print_file(service.container, batch)
            assert len(list(taken.iterdir())) == death.number

        effects = service.die_everywhere(flow)
        runs = len(effects) + 1
        if issuer == "stock":
            assert_all_is_well(service.container)
            assert free_in_stock(service.container) == PIECES
        else:
            with service.container.db.system_transaction() as tx:
                assert_books_agree(tx)
            assert len(house.orders) == PIECES * runs
            references = service.rows("select reference::text from giftcards")
            assert {reference for (reference,) in references} == house.orders.keys()
        assert set(effects) >= {
            "fulfillment.batches.giftcards.issue_cards",
            "integrations.giftcards.stock.StockCards.issue" if issuer == "stock" else "IssuerClient.issue",
            "fulfillment.batches.giftcards._store_issued_cards",
            "_FolderStore.put_file batches/N",
            "fulfillment.batches.tasks.compose_batch",
            "LocalFolder.put .quillpost/batch-N.N/job",
            "LocalFolder.rename .quillpost/batch-N.N .quillpost",
            "fulfillment.batches.tasks.hand_over_batch",
        }


def take_jobs(partner: Path, taken: Path) -> None:
    """As a printer does, who would print twice what he finds twice."""
    for job in partner.glob("batch-*"):
        assert not (taken / job.name).exists(), f"{job.name} again"
        job.rename(taken / job.name)


def assert_printed_as_stored(service: MortalService, batch_id: int) -> None:
    """The file in the store is the one that its rows give, to the byte: with the claims of its cards."""
    with service.container.db.system_transaction() as tx:
        batch = batch_queries.read_batch(tx, batch_id)
    redrawn = redraw_batch_files(service.container.production, batch)
    assert redrawn[PRINT_FILE] == print_file(service.container, batch_id)


def test_a_void_card_is_free_once_though_it_is_another_s_before_it_was_noted_down(
    service: MortalService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "SandboxCards", partial(StockCards, mode="test"))
    service.restart()

    def flow(death: Death) -> None:
        load_stock(service.container, PIECES - free_in_stock(service.container))
        order = send_giftcards(service.sender, recipients=people(PIECES))
        for item in issue_order_cards(service.container, order):
            assert service.sender.put(f"/order-items/{item}/invalidate-giftcard").status_code == 200
        assert free_in_stock(service.container) == 0
        with death:
            service.work()
        # What nobody knows to be free is the next piece's before it is given back once more.
        [another] = issue_order_cards(service.container, send_giftcards(service.sender))
        service.work()
        issue_cards(service.container, [another])

        given_back = "select status, given_back_at is null, card_sealed is null from giftcards where order_id = %s"
        assert service.rows(given_back, order) == [("void", False, True)] * PIECES
        assert [entry for entry in service.rows(LEDGER, order) if entry[0] == "return"] == [("return", VALUE)] * PIECES
        assert card_row(service.container, another).status == "issued"
        assert free_in_stock(service.container) == 1
        assert_all_is_well(service.container)

    effects = service.die_everywhere(flow)
    assert effects == [
        *["integrations.giftcards.stock.StockCards.return_card"] * PIECES,
        "orders.giftcards.tasks.CardReturns._record_returned",
    ]


def test_a_card_that_is_taken_back_again_and_again_is_void_once_and_reissued_once(service: MortalService) -> None:
    def flow(death: Death) -> None:
        item = mail_giftcard(service.container, service.sender)
        [(order,)] = service.rows("select order_id from items where id = %s", item)
        path, body = f"/order-items/{item}/invalidate-giftcard", {"reissue": True, "reason": "Lost"}
        with death:
            service.sender.put(path, body)
        again = [service.sender.put(path, body) for _ in range(2)]

        another = card_row(service.container, item).reissued_as
        assert [(each.status_code, each.json()["reissued_as"]) for each in again] == [(200, another)] * 2
        assert service.rows(CARDS, order) == [("void", "sandbox", 1)]
        assert service.rows(LEDGER, order)[-1:] == [("return", VALUE)]
        assert service.rows("select recipient_count, gift_total from orders where id = %s", another) == [(1, VALUE)]
        assert [kind for kind, _ in service.rows(LEDGER, another)] == ["authorise"]
        assert service.rows("select count(*) from orders") == [(2 * death.number,)]
        invalidated = "select count(*) from audit_log where act = 'giftcard.invalidated'"
        assert service.rows(invalidated) == [(death.number,)]
        service.run("giftcards.return_void_cards_periodic")
        assert_all_is_well(service.container)

    effects = service.die_everywhere(flow)
    assert effects == ["web.dependencies.UnitOfWork.__exit__"]


def test_a_card_whose_page_died_with_its_server_is_shown_again(service: MortalService) -> None:
    def flow(death: Death) -> None:
        item = mail_giftcard(service.container, service.sender)
        path = f"/gift/{read_claim(service.container, item)}/claim"
        with death:
            service.http.post(path)
        claimed_at = card_row(service.container, item).claimed_at
        shown = [service.http.post(path) for _ in range(2)]
        assert [page.status_code for page in shown] == [200, 200]
        assert "<code>" in shown[0].text
        assert shown[0].text == shown[1].text
        assert claimed_at == card_row(service.container, item).claimed_at is not None
        too_late = service.sender.put(f"/order-items/{item}/invalidate-giftcard", {"reissue": True})
        assert too_late.status_code == 400
        assert card_row(service.container, item).status == "issued"

    effects = service.die_everywhere(flow)
    assert effects == ["web.public.giftcards.pages._act_on_card"]
