"""Every piece by every name: what is answered, previewed, printed and delivered."""

from io import BytesIO
from typing import Any

import pikepdf
import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batches
from support.factories import Account, Build, Clock, person, read_warnings, run_jobs_for
from support.image_server import ImageServer

PATHS = [
    ("postcard", "postcard", "4x6", "Postcard-4x6", 109),
    ("windowed-letter", "letter", None, "Windowed Letter", 179),
    ("windowedletter", "letter", None, "Windowed Letter", 179),
    ("letter", "letter", None, "Windowed Letter", 179),
    ("windowless-letter", "windowlessletter", None, "Windowless Letter", 199),
    ("windowlessletter", "windowlessletter", None, "Windowless Letter", 199),
    ("notecard", "notecard", None, "Notecard", 299),
    ("magnacard", "magnacard", None, "Magnacard", 219),
]


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


@pytest.mark.parametrize(("path", "type_", "size", "display", "cents"), PATHS)
def test_each_name_sends_its_piece(
    owner: Account, path: str, type_: str, size: str | None, display: str, cents: int
) -> None:
    answer = owner.send(path).json()
    assert (answer["type"], answer["size"], answer["display_type"]) == (type_, size, display)
    assert answer["authorization_total"] == cents
    read = owner.get(f"/orders/{answer['id']}").json()
    assert (read["type"], read["size"], read["display_type"]) == (type_, size, display)


def pixels(owner: Account, url: str) -> tuple[int, int]:
    answer = owner.http.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    return Image.open(BytesIO(answer.content)).size


@pytest.mark.parametrize(
    ("path", "changes", "sides", "size", "has_envelope"),
    [
        ("postcard", {}, ["front", "back"], (900, 600), False),
        ("postcard", {"size": "6x11"}, ["front", "back"], (1650, 900), False),
        ("magnacard", {}, ["front", "back"], (900, 600), False),
        ("notecard", {}, ["front", "back"], (638, 825), True),
        ("letter", {}, ["cover"], (1275, 1650), True),
        ("windowless-letter", {}, ["cover"], (1275, 1650), True),
    ],
)
def test_a_preview_shows_every_side_and_the_envelope(
    owner: Account, path: str, changes: dict[str, Any], sides: list[str], size: tuple[int, int], has_envelope: bool
) -> None:
    answer = owner.send(path, preview=True, **changes).json()
    data = answer["data"]
    assert (answer["success"], answer["code"], answer["message"]) == (True, 200, "OK")
    assert data["sides"] == sides
    assert [pixels(owner, url) for url in data["previews"]] == [size] * len(sides)
    assert ("envelope" in data) == has_envelope
    if has_envelope:
        assert pixels(owner, data["envelope"])[0] > 800
    assert owner.get("/orders").json()["meta"]["total"] == 0


@pytest.mark.parametrize("path", ["letter", "windowless-letter"])
def test_the_pages_of_a_letter_follow_its_cover(owner: Account, art: ImageServer, path: str) -> None:
    previews = owner.send(path, preview=True, additional_pages_url=art.letter(2)).json()["data"]
    assert previews["sides"] == ["cover", "page 2", "page 3"]
    same = owner.send(path, preview=True, additional_pages=art.letter(2)).json()["data"]
    assert same["sides"] == previews["sides"]


def test_a_pdf_alone_gets_an_address_sheet_where_the_envelope_has_a_window(owner: Account, art: ImageServer) -> None:
    body = {"recipients": [person()], "pdf_only_url": art.letter(2), "preview": True}
    windowed = owner.post("/send/letter", body).json()["data"]["sides"]
    closed = owner.post("/send/windowless-letter", body).json()["data"]["sides"]
    assert (len(windowed), len(closed)) == (3, 2)


def test_a_pdf_that_cannot_be_fetched_names_its_field(owner: Account, art: ImageServer) -> None:
    for field in ("additional_pages_url", "pdf_only_url"):
        refused = owner.send("letter", **{field: art.url("/gone")})
        assert refused.status_code == 422
        assert list(refused.json()["errors"]) == [field]
        refused = owner.send("letter", **{field: art.picture()})
        assert "cannot be printed" in refused.json()["errors"][field][0]
        refused = owner.send("letter", **{field: art.url("/~FIRST_NAME~.pdf")})
        assert "takes no variables" in refused.json()["errors"][field][0]


def test_a_message_beside_a_pdf_that_is_the_whole_letter_is_warned_of(owner: Account, art: ImageServer) -> None:
    sent = owner.send("letter", pdf_only_url=art.letter())
    assert read_warnings(sent) == ["The PDF is the whole letter: the message is not printed."]
    assert sent.json()["message"] == ""


@pytest.mark.parametrize(
    ("path", "changes", "pages", "envelopes"),
    [
        ("letter", {"additional_pages_url": "pdf"}, 3, 1),
        ("windowless-letter", {"pdf_only_url": "pdf"}, 2, 1),
        ("notecard", {}, 2, 1),
        ("magnacard", {}, 2, 0),
    ],
)
def test_each_piece_is_printed_and_delivered(
    owner: Account,
    container: Container,
    clock: Clock,
    art: ImageServer,
    path: str,
    changes: dict[str, str],
    pages: int,
    envelopes: int,
) -> None:
    order = owner.send(path, **{name: art.letter(2) for name in changes}).json()["id"]
    proof = owner.get(f"/orders/{order}/proof")
    with pikepdf.open(BytesIO(proof.content)) as pdf:
        assert len(pdf.pages) == pages + envelopes
    run_jobs_for(container, clock, seconds=45)
    with container.db.system_transaction() as tx:
        batch = tx.execute(sa.select(batches)).one()
    files = {
        key.rsplit("/")[-1]: container.storage.store.get(key)
        for key in container.storage.store.keys(f"batches/{batch.id}/")
    }
    with pikepdf.open(BytesIO(files["print.pdf"])) as pdf:
        assert len(pdf.pages) == pages
    assert ("envelopes.pdf" in files) == bool(envelopes)
    (item,) = owner.get(f"/orders/{order}/items").json()["data"]
    assert item["status"] == "Delivered"


def test_the_picture_of_a_front_without_art_is_the_pieces_own(owner: Account) -> None:
    for path, drawn_as in (("notecard", "notecard"), ("letter", "letter"), ("magnacard", "magnacard")):
        url = owner.send(path).json()["front_image"]
        assert url.endswith(f"/art/{drawn_as}.png")
        pixels(owner, url)
