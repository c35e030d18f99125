"""A demonstration: one of each piece to a small list, followed to the door by an outsider."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from quillpost.cli.demo_service import demo_service
from quillpost.cli.progress import outsider
from quillpost.client import Quillpost, QuillpostError
from quillpost.client.orders import OrderItem
from quillpost.client.send import PieceName, PieceSend
from quillpost.core.errors import NotReady
from quillpost.fulfillment.rules import NOTE_FILE
from quillpost.orders.rules import ENDS, ItemStatus

BETWEEN_LOOKS = 2.0
OUR_OWN_FILES = ("print.pdf", "envelopes.pdf", "manifest.csv", "manifest.json", NOTE_FILE)

RETURN_ADDRESS: PieceSend = {
    "return_name": "Dana Whitfield",
    "return_address": "PO Box 1180",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A kind of mail to show, and what it says beside the audience."""

    name: str
    kind: PieceName
    body: PieceSend


PIECES = (
    Piece(
        "postcard-4x6",
        "postcard",
        {"message": "Hi %FIRST_NAME%, thank you for stopping by on Saturday. Warmly, Dana"},
    ),
    Piece(
        "postcard-6x11",
        "postcard",
        {
            "size": "6x11",
            "qrcode_url": "https://example.com/spring",
            "message": "Hi %FIRST_NAME%,\n\nspring is here, and so is our new catalogue. Scan the code and "
            "have a look: the first ten orders from %CITY% are on us.\n\nWarmly, Dana",
        },
    ),
    Piece(
        "letter",
        "windowed-letter",
        {
            "handwriting_color": "black",
            "message": "Dear %FIRST_NAME%,\n\nthe house on your street has sold. If you ever wonder what "
            "yours would bring, I am glad to tell you. It takes me an hour and you a cup of coffee.\n\n"
            "Warmly,\nDana",
        },
    ),
    Piece(
        "windowlessletter",
        "windowless-letter",
        {"message": "Dear %FIRST_NAME%,\n\na year in the new house! I hope it feels like home.\n\nDana"},
    ),
    Piece(
        "notecard",
        "notecard",
        {
            "handwriting_style": 2,
            "message": "%FIRST_NAME%,\n\nit was a pleasure to meet you. Call me whenever there is a door "
            "to open.\n\nDana",
        },
    ),
    Piece(
        "giftcard",
        "giftcard",
        {
            "message": "%FIRST_NAME%,\n\nthank you for sending the Millers our way. This one is on us!"
            "\n\nDana",
        },
    ),
    Piece("magnacard", "magnacard", {"message": "Hi %FIRST_NAME%, one for the fridge. Warmly, Dana"}),
)


@dataclass(frozen=True, slots=True)
class Guest:
    """Someone on the sample list, and where the mail to them must end in testing mode."""

    name: str
    address: str
    end: ItemStatus


GUESTS = (
    Guest("Jane Doe", "12 Main St", ItemStatus.DELIVERED),
    Guest("Test Returned", "14 Main St", ItemStatus.RETURNED_TO_SENDER),
    Guest("Test Rerouted", "16 Main St", ItemStatus.DELIVERED),
    Guest("Test Lost", "18 Main St", ItemStatus.FAILED),
    Guest("Test Undeliverable", "20 Main St", ItemStatus.FAILED),
    Guest("Test Printer Failure", "22 Main St", ItemStatus.FAILED),
)


@dataclass(slots=True)
class Sent:
    """An order under way: what was sent, and its items as they were last seen."""

    piece: Piece
    order_id: int
    folder: Path
    items: list[OrderItem] = field(default_factory=list)

    @property
    def ended(self) -> int:
        return sum(item["status"] in ENDS for item in self.items)


def add_to(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    url: Annotated[
        str | None, typer.Option(help="A service that runs already; without it, one is started for this.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="A test token of that service.", envvar="QUILLPOST_DEMO_TOKEN")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for pictures, print files and the service's home.")
    ] = Path("out/demo"),
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
        with _service(url, token, out, console) as (caller, print_jobs):
            with _sample_list(caller) as guests:
                sent = [_send(caller, piece, guests, out / piece.name) for piece in PIECES]
                _follow(caller, sent, console, seconds=patience)
            for order in sent:
                _collect(caller, order, print_jobs)
    except QuillpostError as failure:
        answered = "" if failure.status is None else f"The service answered {failure.status}: "
        raise NotReady(answered + failure.message) from failure
    console.print(_counts(sent), _outcome(sent))
    console.print(f"Pictures and print files are in {out}.", markup=False, soft_wrap=True, highlight=False)
    wrong = surprises(sent)
    if wrong:
        raise NotReady(f"{len(wrong)} pieces did not end as they should: {'; '.join(wrong)}.")


@contextmanager
def _service(
    url: str | None, token: str | None, out: Path, console: Console
) -> Iterator[tuple[Quillpost, Path | None]]:
    """Someone's service, whose print jobs we cannot see, or one of our own."""
    if url is not None:
        if token is None:
            raise NotReady("Give --token with --url: `quillpost token create --mode test` makes one.")
        with outsider(url, token) as caller:
            _require_testing(caller)
            yield caller, None
        return
    console.print(f"Starting a service in {out / 'home'} ...", markup=False, soft_wrap=True, highlight=False)
    with demo_service(out / "home") as own, outsider(own.base_url, own.token) as caller:
        yield caller, own.print_jobs


def _require_testing(caller: Quillpost) -> None:
    if not caller.ping()["test_mode"]:
        raise NotReady("This is a live token, and a demonstration must not be mailed: use a test token.")


@contextmanager
def _sample_list(caller: Quillpost) -> Iterator[int]:
    """A list of the guests, which is gone when the demonstration is over."""
    number = caller.mailing_lists.create(description="Quillpost demonstration")["id"]
    home = {"city": "Austin", "province": "TX", "postal_code": "78701"}
    caller.recipients.create_multiple(
        [
            {"mailing_list_id": number, "name": guest.name, "address": guest.address, **home}  # type: ignore[typeddict-item]
            for guest in GUESTS
        ]
    )
    yield number
    with suppress(QuillpostError):  # it stays while a piece that ran out of time waits with it
        caller.mailing_lists.delete(number)


def _send(caller: Quillpost, piece: Piece, guests: int, folder: Path) -> Sent:
    """Look at the piece first, then send it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    body: PieceSend = {
        **piece.body,
        **(_gift(caller) if piece.kind == "giftcard" else {}),
        **RETURN_ADDRESS,
        "mailing_list_ids": [guests],
        "allow_duplicates": True,  # a second demonstration within a day and a half
        "metadata": {"demo": piece.name},
    }
    preview = caller.preview(piece.kind, **body)["data"]
    for side, link in zip(preview["sides"], preview["previews"], strict=True):
        (folder / f"{side}.png").write_bytes(caller.download(link))
    if envelope := preview.get("envelope"):
        (folder / "envelope.png").write_bytes(caller.download(envelope))
    return Sent(piece, caller.send.piece(piece.kind, **body)["id"], folder)


def _gift(caller: Quillpost) -> PieceSend:
    """The first brand that the service offers, at its smallest value."""
    brands = caller.giftcards.brand_list()["brands"]
    if not brands:
        raise NotReady("This service offers no gift cards: `quillpost giftcards brand` adds one.")
    return {
        "giftcard_brand": brands[0]["brand_code"],
        "giftcard_amount": min(brands[0]["available_amounts"]),
    }


def _follow(caller: Quillpost, sent: Sequence[Sent], console: Console, *, seconds: int) -> None:
    """Watch until every piece has ended, or patience has."""
    progress = Progress(
        TextColumn("Pieces at their end"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )
    bar = progress.add_task("", total=len(sent) * len(GUESTS))
    deadline = time.monotonic() + seconds
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while True:
            for order in sent:
                order.items = list(caller.orders.items(order.order_id))
            progress.update(bar, completed=sum(order.ended for order in sent))
            live.update(Group(_counts(sent), progress))
            if progress.finished or time.monotonic() > deadline:
                return
            time.sleep(BETWEEN_LOOKS)


def _counts(sent: Sequence[Sent]) -> Table:
    table = Table("Status", *(order.piece.name for order in sent))
    counts = [Counter[str](item["status"] for item in order.items) for order in sent]
    for status in ItemStatus:
        table.add_row(status.value, *(str(count[status] or "") for count in counts))
    return table


def _collect(caller: Quillpost, order: Sent, print_jobs: Path | None) -> None:
    """The proof, which everyone may see, and the print job itself where the print room is ours."""
    proof = caller.orders.read(order.order_id)["high_quality_preview"]
    (order.folder / "proof.pdf").write_bytes(caller.download(proof))
    for job in sorted(print_jobs.iterdir()) if print_jobs else ():
        pieces = json.loads((job / "manifest.json").read_bytes())["pieces"]
        if any(piece["order_id"] == order.order_id for piece in pieces):
            for name in OUR_OWN_FILES:
                if (job / name).exists():
                    shutil.copyfile(job / name, order.folder / name)


def _outcome(sent: Sequence[Sent]) -> Table:
    columns = [Column(name, no_wrap=True) for name in ("Piece", "Recipient", "Ended as")]
    table = Table(*columns, "Why", "✓", title="What happened")
    for order in sent:
        ends = {guest.name: guest.end for guest in GUESTS}
        for item in order.items:
            name = item["recipient"]["name"] or ""
            verdict = "[green]✓[/]" if item["status"] == ends[name] else "[bold red]✗[/]"
            table.add_row(order.piece.name, name, item["status"], item["failure"] or "", verdict)
        table.add_section()
    return table


def surprises(sent: Sequence[Sent]) -> list[str]:
    """The pieces that are not where they should be in the end."""
    found = []
    for order in sent:
        statuses = {item["recipient"]["name"]: item["status"] for item in order.items}
        for guest in GUESTS:
            status = statuses.get(guest.name, "missing")
            if status != guest.end:
                found.append(f"{order.piece.name} to {guest.name} is {status}")
    return found
