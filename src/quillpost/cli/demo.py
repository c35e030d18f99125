"""`quillpost demo`."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, cast

import httpx2
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from quillpost.cli.console import DIRECT_OPENER, SAMPLE_OPTIONS, SAMPLE_RETURN_ADDRESS
from quillpost.client import Quillpost, QuillpostError
from quillpost.client.orders import OrderItem
from quillpost.client.send import PieceName, PieceSend
from quillpost.core.errors import NotReady
from quillpost.fulfillment.batches.rules import SECRET_FILES_NOTE
from quillpost.orders.rules import FINAL_STATUSES, ItemStatus

START_SECONDS = 120
STOP_SECONDS = 60
READY_POLL_SECONDS = 0.2

# The operator's own database, bucket or keys are not for a demonstration. Handwriting that is prepared already is.
INHERITED_PREFIXES = ("QUILLPOST_TEST_", "QUILLPOST_POSTGRES_BIN", "QUILLPOST_FACES_FOLDER")


@dataclass(frozen=True, slots=True)
class DemoService:
    base_url: str
    token: str
    print_jobs: Path


@contextmanager
def run_demo_service(home: Path) -> Iterator[DemoService]:
    """A ready service, stopped at the end; its home stays."""
    home.mkdir(parents=True, exist_ok=True)
    port = _find_free_port()
    log_file = home / "service.log"
    log_file.touch(mode=0o600)  # the welcome, with its token, is in it
    with log_file.open("w") as log:
        service = subprocess.Popen(
            [sys.executable, "-m", "quillpost", "serve", "--welcome", "--port", str(port)],
            env=_build_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches us, and we stop it
        )
    try:
        base_url = f"http://127.0.0.1:{port}"
        _wait_until_ready(service, f"{base_url}/ready", log_file)
        token = (home / "first-token").read_text().strip()
        yield DemoService(base_url, token, home / "files" / "print-jobs" / "test")
    finally:
        _stop_service(service)


def _build_environment(home: Path) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("QUILLPOST_") or name.startswith(INHERITED_PREFIXES)
    }
    return inherited | {"QUILLPOST_HOME": str(home), "QUILLPOST_CALLS_A_MINUTE": "6000", "QUILLPOST_LOG_FORMAT": "json"}


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(service: subprocess.Popen[bytes], url: str, log_file: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.poll() is not None:
            log_lines = log_file.read_text().strip().splitlines()
            raise NotReady(f"The demonstration's service ended: {log_lines[-1] if log_lines else 'without a word'}")
        try:
            with DIRECT_OPENER.open(url, timeout=5):
                return
        except OSError:  # not listening yet, or not ready
            time.sleep(READY_POLL_SECONDS)
    raise NotReady(f"The demonstration's service takes too long to start (see {log_file}).")


def _stop_service(service: subprocess.Popen[bytes]) -> None:
    service.send_signal(signal.SIGTERM)
    try:
        service.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        service.kill()
        service.wait()


def create_client(base_url: str, token: str) -> Quillpost:
    return Quillpost(token, base_url, transport=httpx2.HTTPTransport())


POLL_SECONDS = 2.0
PRINT_JOB_FILES = ("print.pdf", "envelopes.pdf", "manifest.csv", "manifest.json", SECRET_FILES_NOTE)


@dataclass(frozen=True, slots=True)
class DemoProduct:
    name: str
    kind: PieceName
    body: PieceSend


DEMO_PRODUCTS = (
    DemoProduct(
        "postcard-4x6", "postcard", {"message": "Hi %FIRST_NAME%, thank you for stopping by on Saturday. Warmly, Dana"}
    ),
    DemoProduct(
        "postcard-6x11",
        "postcard",
        {
            "size": "6x11",
            "qrcode_url": "https://example.com/spring",
            "message": "Hi %FIRST_NAME%,\n\nspring is here, and so is our new catalog. Scan the code and "
            "have a look: the first ten orders from %CITY% are on us.\n\nWarmly, Dana",
        },
    ),
    DemoProduct(
        "letter",
        "windowed-letter",
        {
            "handwriting_color": "black",
            "message": "Dear %FIRST_NAME%,\n\nthe house on your street has sold. If you ever wonder what "
            "yours would bring, I am glad to tell you. It takes me an hour and you a cup of coffee.\n\n"
            "Warmly,\nDana",
        },
    ),
    DemoProduct(
        "windowlessletter",
        "windowless-letter",
        {"message": "Dear %FIRST_NAME%,\n\na year in the new house! I hope it feels like home.\n\nDana"},
    ),
    DemoProduct(
        "notecard",
        "notecard",
        {
            "handwriting_style": 2,
            "message": "%FIRST_NAME%,\n\nit was a pleasure to meet you. Call me whenever there is a door "
            "to open.\n\nDana",
        },
    ),
    DemoProduct(
        "giftcard",
        "giftcard",
        {"message": "%FIRST_NAME%,\n\nthank you for sending the Millers our way. This one is on us!\n\nDana"},
    ),
    DemoProduct("magnacard", "magnacard", {"message": "Hi %FIRST_NAME%, one for the fridge. Warmly, Dana"}),
)


@dataclass(frozen=True, slots=True)
class DemoRecipient:
    """Someone on the sample list, and the status in which their mail must end in testing mode."""

    name: str
    address: str
    expected_status: ItemStatus


DEMO_RECIPIENTS = (
    DemoRecipient("Jane Doe", "12 Main St", ItemStatus.DELIVERED),
    DemoRecipient("Test Returned", "14 Main St", ItemStatus.RETURNED_TO_SENDER),
    DemoRecipient("Test Rerouted", "16 Main St", ItemStatus.DELIVERED),
    DemoRecipient("Test Lost", "18 Main St", ItemStatus.FAILED),
    DemoRecipient("Test Undeliverable", "20 Main St", ItemStatus.FAILED),
    DemoRecipient("Test Printer Failure", "22 Main St", ItemStatus.FAILED),
)


@dataclass(slots=True)
class DemoOrder:
    product: DemoProduct
    order_id: int
    folder: Path
    items: list[OrderItem] = field(default_factory=list)

    @property
    def ended_count(self) -> int:
        return sum(item["status"] in FINAL_STATUSES for item in self.items)


def demo(
    url: Annotated[
        str | None, typer.Option(help="A service that runs already; without it, one is started for this.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="A test token of that service.", envvar="QUILLPOST_DEMO_TOKEN")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pictures, print files and the service's home.")] = Path(
        "out/demo"
    ),
    patience: Annotated[int, typer.Option(help="Seconds until every piece must have arrived.", min=1)] = 300,
) -> None:
    """Send one of each piece in testing mode and follow it to the door.

    Nothing is mailed and nothing is billed. The sample list has one ordinary recipient and one of each
    reserved name, so that every ending is seen. Previews (PNG), proofs and print files (PDF) stay in the
    folder; of gift cards the proof alone, as their print file has what they are claimed with. Exit code 0
    when every piece ended as it should, and 1 otherwise.
    """
    out = out.absolute()
    console = Console()
    try:
        with _open_service(url, token, out, console) as (client, print_jobs):
            with _create_sample_list(client) as list_id:
                orders = [_send_product(client, product, list_id, out / product.name) for product in DEMO_PRODUCTS]
                _follow_orders(client, orders, console, seconds=patience)
            for order in orders:
                _download_files(client, order, print_jobs)
    except QuillpostError as error:
        prefix = "" if error.status is None else f"The service answered {error.status}: "
        raise NotReady(prefix + error.message) from error
    console.print(_status_table(orders), _outcome_table(orders))
    console.print(f"Pictures and print files are in {out}.", markup=False, soft_wrap=True, highlight=False)
    unexpected = find_unexpected_endings(orders)
    if unexpected:
        raise NotReady(f"{len(unexpected)} pieces did not end as they should: {'; '.join(unexpected)}.")


@contextmanager
def _open_service(
    url: str | None, token: str | None, out: Path, console: Console
) -> Iterator[tuple[Quillpost, Path | None]]:
    """An existing service, whose print jobs we cannot see, or a new one."""
    if url is not None:
        if token is None:
            raise NotReady("Give --token with --url: `quillpost token create --mode test` makes one.")
        with create_client(url, token) as client:
            if not client.ping()["test_mode"]:
                raise NotReady("This is a live token, and a demonstration must not be mailed: use a test token.")
            yield client, None
        return
    console.print(f"Starting a service in {out / 'home'} ...", markup=False, soft_wrap=True, highlight=False)
    with run_demo_service(out / "home") as service, create_client(service.base_url, service.token) as client:
        yield client, service.print_jobs


@contextmanager
def _create_sample_list(client: Quillpost) -> Iterator[int]:
    """Deleted when the demonstration is over."""
    list_id = client.mailing_lists.create(description="Quillpost demonstration")["id"]
    city_fields = {"city": "Austin", "province": "TX", "postal_code": "78701"}
    client.recipients.create_multiple(
        [
            {"mailing_list_id": list_id, "name": recipient.name, "address": recipient.address, **city_fields}  # type: ignore[typeddict-item]
            for recipient in DEMO_RECIPIENTS
        ]
    )
    yield list_id
    with suppress(QuillpostError):  # it stays while a piece that ran out of time waits with it
        client.mailing_lists.delete(list_id)


def _send_product(client: Quillpost, product: DemoProduct, list_id: int, folder: Path) -> DemoOrder:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    body: PieceSend = {
        **product.body,
        **(_choose_gift(client) if product.kind == "giftcard" else {}),
        **cast(PieceSend, SAMPLE_RETURN_ADDRESS | SAMPLE_OPTIONS),
        "mailing_list_ids": [list_id],
        "metadata": {"demo": product.name},
    }
    preview = client.preview(product.kind, **body)["data"]
    for side, link in zip(preview["sides"], preview["previews"], strict=True):
        (folder / f"{side}.png").write_bytes(client.download(link))
    if envelope := preview.get("envelope"):
        (folder / "envelope.png").write_bytes(client.download(envelope))
    return DemoOrder(product, client.send.piece(product.kind, **body)["id"], folder)


def _choose_gift(client: Quillpost) -> PieceSend:
    """The first brand, at its smallest value."""
    brands = client.giftcards.brand_list()["brands"]
    if not brands:
        raise NotReady("This service offers no gift cards: `quillpost giftcards brand` adds one.")
    return {"giftcard_brand": brands[0]["brand_code"], "giftcard_amount": min(brands[0]["available_amounts"])}


def _follow_orders(client: Quillpost, orders: Sequence[DemoOrder], console: Console, *, seconds: int) -> None:
    """Until every item has ended, or time is up."""
    progress = Progress(TextColumn("Pieces at their end"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = progress.add_task("", total=len(orders) * len(DEMO_RECIPIENTS))
    deadline = time.monotonic() + seconds
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while True:
            for order in orders:
                order.items = list(client.orders.items(order.order_id))
            progress.update(bar, completed=sum(order.ended_count for order in orders))
            live.update(Group(_status_table(orders), progress))
            if progress.finished or time.monotonic() > deadline:
                return
            time.sleep(POLL_SECONDS)


def _status_table(orders: Sequence[DemoOrder]) -> Table:
    table = Table("Status", *(order.product.name for order in orders))
    counts = [Counter[str](item["status"] for item in order.items) for order in orders]
    for status in ItemStatus:
        table.add_row(status.value, *(str(count[status] or "") for count in counts))
    return table


def _download_files(client: Quillpost, order: DemoOrder, print_jobs: Path | None) -> None:
    """The proof, and the print job where the print room is ours."""
    proof = client.orders.read(order.order_id)["high_quality_preview"]
    (order.folder / "proof.pdf").write_bytes(client.download(proof))
    for job in sorted(print_jobs.iterdir()) if print_jobs else ():
        pieces = json.loads((job / "manifest.json").read_bytes())["pieces"]
        if any(piece["order_id"] == order.order_id for piece in pieces):
            for name in PRINT_JOB_FILES:
                if (job / name).exists():
                    shutil.copyfile(job / name, order.folder / name)


def _outcome_table(orders: Sequence[DemoOrder]) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("Piece", "Recipient", "Ended as")]
    table = Table(*columns, "Why", "✓", title="What happened")
    for order in orders:
        expected_statuses = {recipient.name: recipient.expected_status for recipient in DEMO_RECIPIENTS}
        for item in order.items:
            name = item["recipient"]["name"] or ""
            result_mark = "[green]✓[/]" if item["status"] == expected_statuses[name] else "[bold red]✗[/]"
            table.add_row(order.product.name, name, item["status"], item["failure"] or "", result_mark)
        table.add_section()
    return table


def find_unexpected_endings(orders: Sequence[DemoOrder]) -> list[str]:
    unexpected = []
    for order in orders:
        statuses = {item["recipient"]["name"]: item["status"] for item in order.items}
        for recipient in DEMO_RECIPIENTS:
            status = statuses.get(recipient.name, "missing")
            if status != recipient.expected_status:
                unexpected.append(f"{order.product.name} to {recipient.name} is {status}")
    return unexpected
