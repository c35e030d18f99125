"""An operator's day in the print room: from what is due to the mail, and what did not go by itself."""

import csv
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Locator, Page, expect

from quillpost.app.container import Container
from quillpost.core import jobs
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.web.application import create_app
from support.chromium import go_to, open_dashboard, picture
from support.factories import Account, Build, Clock, make_live, make_operator, people, run_jobs_for
from support.orders import HOME, UNFILLED
from support.production import LIVE_SETTINGS
from support.raw_http import real_server
from support.test_client import TestClient

FIRST, SECOND = batch_reference(1), batch_reference(2)
FAIL = sa.text("update procrastinate_jobs set status = 'failed', attempts = 20 where task_name = :task")
WAITING = sa.text("select count(*) from procrastinate_jobs where task_name = :task and status = 'todo'")
TASK = "fulfillment.pool_due_orders_periodic"


@pytest.fixture
def container(build: Build) -> Container:
    """A service of its own: live mail waits for the evening, and its printer says nothing by itself."""
    return build(**LIVE_SETTINGS, review_seconds=1, print_cutoff="20:00")


def test_an_operators_walk_through_the_print_room(
    container: Container, owner: Account, clock: Clock, http: TestClient, tmp_path: Path
) -> None:
    sender, operator = make_live(container, owner), make_operator(container, http)
    due, held = send(sender), send(sender, 1, message=UNFILLED)
    run_jobs_for(container, clock, seconds=4)
    with container.db.system_transaction() as tx:
        jobs.enqueue(tx, TASK, timestamp=100)
        tx.execute(FAIL, {"task": TASK})
    with (
        real_server(create_app(container)) as port,
        open_dashboard(f"http://127.0.0.1:{port}", container, operator) as page,
    ):
        mode = page.get_by_role("group", name="Mode")
        mode.get_by_role("button", name="Live").click()
        expect(mode.get_by_role("button", pressed=True)).to_have_text("Live")
        go_to(page, "Print room")
        see_what_is_due(page)
        page.get_by_role("button", name="Make batches now").click()
        expect(status_message(page)).to_contain_text("batches are made of it now")
        run_jobs_for(container, clock, seconds=2)
        open_the_batch(page)
        download_the_print_files(page, tmp_path)
        mark_it_printed(page)
        give_a_spoiled_piece_up(page)
        print_another_again(page)
        run_jobs_for(container, clock, seconds=2)
        mark_both_mailed(page)
        release(page, held)
        run_the_failed_job_again(page)
    items = sender.get(f"/orders/{due}/items").json()["data"]
    assert {item["recipient"]["name"]: item["status"] for item in items} == {
        "Person 1": "Printed", "Person 2": "Failed", "Person 3": "Printed", "Person 4": "Printed",
    }  # fmt: skip
    assert sender.get(f"/orders/{held}").json()["status"] != "Paused"
    with container.db.system_transaction() as tx:
        assert tx.execute(WAITING, {"task": TASK}).scalar_one() == 1


def send(sender: Account, how_many: int = 4, **changes: str) -> int:
    answer = sender.send(recipients=people(how_many), **HOME | changes)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def see_what_is_due(page: Page) -> None:
    waiting = page.get_by_role("region", name="Waiting to be pooled")
    expect(waiting).to_contain_text("4 pieces of 1 order.")
    expect(waiting.get_by_role("row", name="Postcard 4 × 6, first class 1 4")).to_be_visible()
    needs = page.get_by_role("region", name="Needs a person")
    expect(needs).to_contain_text("1 order on hold: each needs your word.")
    expect(needs).to_contain_text("1 job failed for good.")
    picture(page, "print-room-walk-1-due")


def open_the_batch(page: Page) -> None:
    go_to_section(page, "Batches")
    row = page.get_by_role("row", name=FIRST)
    expect(row).to_contain_text("With the printer")
    row.get_by_role("link", name=FIRST).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(FIRST)
    expect(page.get_by_role("region", name="How far it is")).to_contain_text("With the printer")


def download_the_print_files(page: Page, folder: Path) -> None:
    pdf = download(page, "print.pdf", folder)
    assert pdf.name == f"{FIRST}-print.pdf"
    assert pdf.read_bytes().startswith(b"%PDF")
    with download(page, "manifest.csv", folder).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert {name for row in rows for name in row.values() if name.startswith("Person")} == {
        f"Person {n}" for n in range(1, 5)
    }
    picture(page, "print-room-walk-2-batch")


def download(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as downloading:
        page.get_by_role("region", name="Files").get_by_role("link", name=name).click()
    kept = folder / downloading.value.suggested_filename
    downloading.value.save_as(kept)
    return kept


def mark_it_printed(page: Page) -> None:
    page.get_by_role("button", name="Mark printed").click()
    expect(status_message(page)).to_have_text("The batch is marked as printed.")
    expect(page.get_by_role("region", name="How far it is")).to_contain_text("Printed")
    expect(page.get_by_role("button", name="Mark printed")).to_have_count(0)


def give_a_spoiled_piece_up(page: Page) -> None:
    page.get_by_role("link", name="Mark spoiled").click()
    page.get_by_label("Which pieces").fill("2")
    page.get_by_label("What happened to them").fill("Torn in the folder")
    page.get_by_role("button", name="Give these pieces up").click()
    expect(status_message(page)).to_contain_text("The spoiled pieces are marked.")
    expect(piece(page, "Person 2")).to_contain_text("Failed")
    expect(piece(page, "Person 2")).to_contain_text("Torn in the folder")


def print_another_again(page: Page) -> None:
    """What was given up stays so, and the form says it: another one, then."""
    page.get_by_role("link", name="Print again").click()
    which = page.get_by_label("Which pieces")
    which.fill("2")
    page.get_by_label("Why", exact=True).fill("Cut askew")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alert").first).to_contain_text("None of these can be printed again.")
    which.fill("3")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Print 1 piece again?")
    page.get_by_role("button", name="Print 1 piece again").click()
    expect(status_message(page)).to_contain_text("printed again in this batch")
    expect(page.get_by_role("heading", level=1)).to_have_text(SECOND)
    expect(piece(page, "Person 3")).to_be_visible()


def mark_both_mailed(page: Page) -> None:
    page.reload()
    mark_mailed(page)
    picture(page, "print-room-walk-3-reprint")
    page.get_by_role("region", name="What it is").get_by_role("link", name=FIRST).click()
    expect(page.get_by_role("region", name="What it is")).to_contain_text(f"1 piece, printed again in {SECOND}")
    expect(piece(page, "Person 3")).to_contain_text("void")
    mark_mailed(page)
    go_to_section(page, "Today")
    expect(page.get_by_role("region", name="On the floor")).to_contain_text("No batch is between")
    picture(page, "print-room-walk-4-mailed")


def mark_mailed(page: Page) -> None:
    page.get_by_role("button", name="Mark mailed").click()
    expect(status_message(page)).to_contain_text("The batch is marked as mailed.")
    expect(page.get_by_role("region", name="What is next")).to_contain_text("It is in the mail.")


def release(page: Page, order_id: int) -> None:
    page.get_by_role("link", name="Release or refuse").click()
    expect(page.get_by_role("listitem").filter(has_text=f"Order {order_id}").first).to_contain_text(
        "has nothing for %COMPANY%"
    )
    page.get_by_role("link", name=f"Release order {order_id}").click()
    page.get_by_label("Why it may be printed all the same").fill("They like it so.")
    page.get_by_role("button", name="Release it").click()
    expect(status_message(page)).to_have_text("The order is released.")
    expect(page.get_by_role("heading", name="No order is held")).to_be_visible()


def run_the_failed_job_again(page: Page) -> None:
    go_to_section(page, "Today")
    expect(page.get_by_role("region", name="Needs a person")).not_to_contain_text("on hold")
    page.get_by_role("link", name="Run again").click()
    failed = page.get_by_role("region", name="Each of them").get_by_role("row").filter(has_text=TASK)
    expect(failed).to_have_count(1)
    failed.get_by_role("button", name="Run job").click()
    expect(status_message(page)).to_contain_text("They run again.")
    expect(page.get_by_role("heading", name="No job has failed")).to_be_visible()


def go_to_section(page: Page, section: str) -> None:
    page.get_by_role("navigation", name="Print room").get_by_role("link", name=section).click()


def piece(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name="Pieces").get_by_role("row").filter(has_text=name)


def status_message(page: Page) -> Locator:
    """What the service says of what was done last."""
    return page.get_by_role("status").first
