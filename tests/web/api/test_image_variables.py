"""Variables in the addresses of pictures: each recipient's piece carries a picture of its own."""

import io
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items, orders
from quillpost.core.files import delete_expired_files, delete_orphaned_files
from quillpost.rendering.decoder.tasks import rasterize_pages
from support.factories import Account, Build, Clock, people, person, postcard, read_warnings, run_jobs_for
from support.scripted_server import ScriptedServer
from support.test_client import TestClient
from support.traces import traces

HARD_TO_READ = "The handwriting_color is hard to read"

RED, GREEN, BLUE = (200, 30, 30), (30, 160, 60), (30, 60, 200)
COLOURS = {"red": RED, "green": GREEN, "blue": BLUE}
SHARP, SOFT = (1875, 1275), (600, 400)


class Gallery(ScriptedServer):
    """Answers `/red.png` with a red picture, `/soft-red.png` with one of few pixels, and so on."""

    def __init__(self) -> None:
        super().__init__(self._show)

    @property
    def paths(self) -> list[str]:
        """The paths asked for, in any order, as they were written."""
        return sorted(request.split(b" ")[1].decode() for request in self.requests)

    def _show(self, connection: socket.socket) -> None:
        name = unquote(self.requests[-1].split(b" ")[1].decode()).removeprefix("/").removesuffix(".png")
        colour = COLOURS.get(name.removeprefix("soft-"))
        if colour is None:
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n")
            return
        body = picture(colour, SOFT if name.startswith("soft-") else SHARP)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)


def picture(colour: tuple[int, int, int], size: tuple[int, int] = SHARP) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def gallery() -> Iterator[Gallery]:
    with Gallery() as server:
        yield server


@pytest.fixture
def container(build: Build) -> Container:
    """Pictures may be on loopback here."""
    return build(allow_private_urls=True)


def fond_of(*colours: str | None) -> list[dict[str, Any]]:
    """People with a colour in their first field."""
    return [person(name=f"Person {n}", address=f"{n} Main St", custom1=c) for n, c in enumerate(colours, 1)]


def shown_colours(drawn: bytes, *, every: int = 2) -> list[str | None]:
    """What colour the middle of every so manieth page is nearest to, if to any."""
    found = []
    for page in rasterize_pages(drawn, dpi=20)[::every]:
        image = Image.open(io.BytesIO(page)).convert("RGB")
        found.append(colour_at(image, image.width // 2, image.height // 2))
    return found


def colour_at(image: Image.Image, x: int, y: int) -> str | None:
    pixel = image.getpixel((x, y))
    assert isinstance(pixel, tuple)
    near = {name: max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) for name, colour in COLOURS.items()}
    name = min(near, key=near.__getitem__)
    return name if near[name] < 20 else None


def files_of_items(container: Container, order_id: int) -> list[Any]:
    with container.db.system_transaction() as tx:
        query = sa.select(items.c.front_file_id, items.c.background_file_id)
        found: list[Any] = [*tx.execute(query.where(items.c.order_id == order_id).order_by(items.c.id))]
    return found


def printed(container: Container) -> bytes:
    (key,) = [key for key in container.storage.store.keys("batches/") if key.endswith("print.pdf")]
    return container.storage.store.get(key)


def test_each_piece_is_printed_with_its_own_front(
    owner: Account, container: Container, clock: Clock, http: TestClient, gallery: Gallery
) -> None:
    url = gallery.url("/~CUSTOM1|green~.png")
    sent = owner.send(recipients=fond_of("red", "blue", None, "red"), front_image_url=url)
    assert sent.status_code == 200, sent.text
    assert sent.json()["front_image"] == url
    assert gallery.paths == ["/blue.png", "/green.png", "/red.png"]
    assert len(list(container.storage.store.keys("creative/"))) == 3
    order_id = sent.json()["id"]
    fronts = [row.front_file_id for row in files_of_items(container, order_id)]
    assert fronts[0] == fronts[3]
    assert len(set(fronts)) == 3
    proof = urlsplit(owner.get(f"/orders/{order_id}").json()["high_quality_preview"]).path
    assert shown_colours(http.get(proof).content) == ["red", "blue", "green"]
    run_jobs_for(container, clock, seconds=15)
    assert shown_colours(printed(container)) == ["red", "blue", "green", "red"]


def test_backgrounds_may_be_their_own_while_the_front_is_everyone_s(
    owner: Account, container: Container, clock: Clock, gallery: Gallery
) -> None:
    sent = owner.send(
        recipients=fond_of("red", "blue"),
        front_image_url=gallery.url("/green.png"),
        custom_background_image=gallery.url("/%CUSTOM1%.png"),
        handwriting_color="#ffffff",  # blue on blue would be held
    )
    assert sent.status_code == 200, sent.text
    rows = files_of_items(container, sent.json()["id"])
    assert [row.front_file_id for row in rows] == [None, None]
    assert len({row.background_file_id for row in rows} - {None}) == 2
    with container.db.system_transaction() as tx:
        order = tx.execute(sa.select(orders)).one()
    assert order.front_file_id is not None
    assert order.background_file_id is None
    run_jobs_for(container, clock, seconds=15)
    pages = [Image.open(io.BytesIO(page)).convert("RGB") for page in rasterize_pages(printed(container), dpi=20)]
    corners = [colour_at(page, 3, 3) for page in pages]
    assert corners == ["green", "red", "green", "blue"]


def test_a_large_audience_keeps_its_pictures(owner: Account, container: Container, gallery: Gallery) -> None:
    crowd = [whom | {"custom1": ("red", "green", "blue")[place % 3]} for place, whom in enumerate(people(60))]
    sent = owner.send(recipients=crowd, front_image_url=gallery.url("/~CUSTOM1~.png"))
    assert len(gallery.requests) == 3
    fronts = [row.front_file_id for row in files_of_items(container, sent.json()["id"])]
    assert len(set(fronts[:3]) - {None}) == 3
    assert fronts == fronts[:3] * 20


def test_a_preview_shows_the_chosen_recipient_s_pictures(
    owner: Account, container: Container, http: TestClient, gallery: Gallery
) -> None:
    def shown(**how: int) -> tuple[str | None, str | None]:
        answer = owner.send(
            recipients=[{"email": "only@example.com", "custom1": "red"}, *fond_of("blue", "green")],
            front_image_url=gallery.url("/~CUSTOM1~.png"),
            custom_background_image=gallery.url("/~CUSTOM1~.png"),
            preview=True,
            **how,
        ).json()
        pictures = [
            Image.open(io.BytesIO(http.get(urlsplit(link).path).content)).convert("RGB")
            for link in answer["data"]["previews"]
        ]
        front, back = pictures
        return colour_at(front, 300, 200), colour_at(back, 5, 5)

    assert shown() == ("blue", "blue"), "the first who can be mailed"
    assert shown(preview_recipient=2) == ("green", "green")
    assert shown(preview_recipient=0) == ("red", "red")
    assert list(container.storage.store.keys("creative/")) == []


def test_no_picture_is_fetched_for_people_that_cannot_be_mailed(
    owner: Account, container: Container, gallery: Gallery
) -> None:
    audience = [*fond_of("red"), {"email": "only@example.com", "custom1": "missing"}]
    sent = owner.send(recipients=audience, front_image_url=gallery.url("/~CUSTOM1~.png"))
    assert sent.status_code == 200, sent.text
    assert gallery.paths == ["/red.png"]
    mailed, refused = files_of_items(container, sent.json()["id"])
    assert mailed.front_file_id is not None
    assert refused.front_file_id is None


def test_a_value_stays_one_part_of_the_address(owner: Account, gallery: Gallery) -> None:
    value = "../secret?a=1&b=%41#é"
    url = gallery.url("/a/~CUSTOM1~.png?who=~CUSTOM1~&size=2")
    assert owner.send(recipients=fond_of(value), front_image_url=url).status_code == 422
    (requested,) = gallery.paths
    path, _, query = requested.partition("?")
    folder, name = path.removeprefix("/").split("/")
    assert (folder, unquote(name)) == ("a", value + ".png")
    assert parse_qs(query) == {"who": [value], "size": ["2"]}


@pytest.mark.parametrize("field", ["front_image_url", "custom_background_image"])
def test_a_missing_picture_is_refused_by_its_field_and_its_recipient(
    owner: Account, container: Container, gallery: Gallery, field: str
) -> None:
    before = traces(container)
    refused = owner.send(recipients=fond_of("red", "mauve", "red"), **{field: gallery.url("/~CUSTOM1~.png")})
    assert refused.status_code == 422
    assert refused.json()["errors"] == {
        field: ["The image could not be fetched: 127.0.0.1 answered with status 404. (for recipient 1)"]
    }
    assert traces(container) == before


def test_more_than_fifty_pictures_are_refused_before_any_is_fetched(
    owner: Account, container: Container, gallery: Gallery
) -> None:
    before = traces(container)
    refused = owner.send(recipients=people(51), front_image_url=gallery.url("/~ADDRESS~.png"))
    assert refused.status_code == 422
    assert refused.json()["errors"] == {
        "front_image_url": ["The URL names 51 different pictures: at most 50 in one call."]
    }
    assert gallery.paths == []
    assert traces(container) == before


def test_light_ink_is_warned_of_on_white_paper_alone(owner: Account, gallery: Gallery) -> None:
    assert HARD_TO_READ in owner.send(handwriting_color="#fdfdfd").headers["X-Warnings"]
    on_red = owner.send(handwriting_color="#fdfdfd", custom_background_image=gallery.url("/red.png"))
    assert on_red.status_code == 200
    assert HARD_TO_READ not in on_red.headers.get("X-Warnings", "")


def test_a_warning_about_pictures_appears_once(owner: Account, gallery: Gallery) -> None:
    sent = owner.send(
        recipients=fond_of("red", "soft-blue", "soft-green", "soft-blue"), front_image_url=gallery.url("/~CUSTOM1~.png")
    )
    (warning,) = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    assert warning.startswith("front_image_url is 600 x 400 pixels")
    assert warning.endswith("(for recipient 1)")
    assert read_warnings(sent) == [warning]


def test_a_retry_with_the_same_key_fetches_and_keeps_nothing(
    owner: Account, container: Container, gallery: Gallery
) -> None:
    body = postcard(recipients=fond_of("red", "blue"), front_image_url=gallery.url("/~CUSTOM1~.png"))
    first = owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"})
    before = traces(container)
    second = owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"})
    assert (second.status_code, second.content) == (200, first.content)
    assert gallery.paths == ["/blue.png", "/red.png"]
    assert traces(container) == before


def test_pictures_that_are_there_already_are_not_kept_again(
    owner: Account, container: Container, gallery: Gallery
) -> None:
    how = {"recipients": fond_of("red", "blue"), "front_image_url": gallery.url("/~CUSTOM1~.png")}
    first = owner.send(**how).json()["id"]
    kept = list(container.storage.store.keys("creative/"))
    second = owner.send(**how, custom_background_image=gallery.url("/~CUSTOM1|red~.png")).json()["id"]
    assert list(container.storage.store.keys("creative/")) == kept
    assert [row.front_file_id for row in files_of_items(container, first)] == [
        row.background_file_id for row in files_of_items(container, second)
    ]


def test_pictures_of_a_send_that_failed_are_swept_up_and_those_of_its_retry_stay(
    owner: Account, container: Container, clock: Clock, gallery: Gallery, conninfo: str
) -> None:
    body = postcard(recipients=fond_of("red", "blue"), front_image_url=gallery.url("/~CUSTOM1~.png"))
    before, _ = traces(container)
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute("alter table items add constraint trouble check (name <> 'Person 2')")
        failed = owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"})
        assert failed.status_code >= 500
        orphans = list(container.storage.store.keys("creative/"))
        assert len(orphans) == 2
        assert traces(container)[0] == before
        admin.execute("alter table items drop constraint trouble")
    assert owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"}).status_code == 200
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 2
    clock.advance(days=400)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 0
    left = list(container.storage.store.keys("creative/"))
    assert len(left) == 2
    assert not set(left) & set(orphans)
