"""Pictures that a send names by address: fetched, checked, kept, printed, warned of, or refused by their field."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.files import delete_expired_files, delete_orphaned_files
from quillpost.orders import service as order_service
from quillpost.orders.queries import read_order
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.web.api.responses import MAX_HEADER_LENGTH, build_warning_header
from support.factories import Account, Clock, people, person, postcard, read_warnings, run_jobs_for
from support.fake_server import Answer, ScriptedServer, reply_with, reset_connection
from support.images import ImageServer, make_picture
from support.rows import run
from support.traces import traces, unchanged
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("clean_database", "loopback_urls")

FIELDS = "front_image_url", "custom_background_image"
COLOURS = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255)}


@pytest.fixture
def gallery() -> Iterator[ImageServer]:
    with ImageServer() as server:
        yield server


def creatives(container: Container) -> list[str]:
    return list(container.storage.store.keys("creative/"))


def fond_of(*colours: str | None) -> list[dict[str, Any]]:
    """People with a colour in their first field."""
    return [person(name=f"Person {n}", address=f"{n} Main St", custom1=c) for n, c in enumerate(colours, 1)]


def files_of_items(container: Container, order_id: int) -> list[Any]:
    with container.db.system_transaction() as tx:
        query = sa.select(items.c.front_file_id, items.c.background_file_id)
        found: list[Any] = [*tx.execute(query.where(items.c.order_id == order_id).order_by(items.c.id))]
    return found


def colour_at(png: bytes, *, is_corner: bool = False) -> str | None:
    """What the middle of a picture is nearest to, or its corner, if to any."""
    image = Image.open(BytesIO(png)).convert("RGB")
    pixel = image.getpixel((3, 3) if is_corner else (image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    near = {name: max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) for name, colour in COLOURS.items()}
    name = min(near, key=near.__getitem__)
    return name if near[name] < 20 else None


def test_a_picture_sent_again_and_again_is_one_file(owner: Account, container: Container, gallery: ImageServer) -> None:
    url = gallery.picture()
    assert owner.send(front_image_url=url).json()["front_image"] == url
    [kept] = creatives(container)
    assert container.storage.store.get(kept) == make_picture()
    assert owner.send(custom_background_image=url).json()["custom_background_url"] == url
    both = [owner.send(front_image_url=url, custom_background_image=url).json()["id"] for _ in range(2)]
    assert (len(set(both)), creatives(container)) == (2, [kept])


def test_an_unused_background_is_not_fetched(owner: Account, gallery: ImageServer) -> None:
    saved = {"type": "postcard", "name": "Saved", "content": "Hi!", "custom_background_url": gallery.picture("gold")}
    template = owner.post("/message-templates", saved).json()["id"]
    common = {"message_template": template, "use_custom_background": False}
    assert owner.send(**common).json()["custom_background_url"] is None
    own = gallery.picture("pink")
    assert owner.send(**common, custom_background_image=own).json()["custom_background_url"] == own
    assert gallery.paths == ["/pink.png"]


def test_an_unusable_picture_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    gif, found = BytesIO(), "HTTP/1.1 200 OK\nContent-Type: image/png"
    Image.new("RGB", (1875, 1275), "teal").save(gif, "GIF")
    answers: dict[str, tuple[Answer, str]] = {
        "missing": (reply_with("HTTP/1.1 404 Not Found"), "status 404"),
        "text": (reply_with(found, b"no picture at all"), "cannot be printed"),
        "empty": (reply_with(found), "cannot be printed"),
        "gif": (reply_with("HTTP/1.1 200 OK\nContent-Type: image/gif", gif.getvalue()), "cannot be printed"),
        "torn": (reply_with(found, make_picture()[:200]), "cannot be printed"),
        "redirect": (reply_with("HTTP/1.1 302 Found\nLocation: /elsewhere"), "redirects"),
        "reset": (reset_connection, "could not be fetched"),
    }
    with unchanged(container):
        for name, (answer, reason) in answers.items():
            with ScriptedServer(answer) as server:
                url = server.url("/x.png")
                for field in FIELDS:
                    with subtests.test(f"{name} {field}"):
                        refused = owner.send(**{field: url})
                        assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
                        assert reason in refused.json()["errors"][field][0]
        nobody = owner.send(front_image_url=url)  # the last server is gone
        assert nobody.status_code == 422
        assert "127.0.0.1 could not be reached" in nobody.json()["errors"]["front_image_url"][0]


# Variables in addresses: each recipient's piece carries a picture of its own


def test_each_has_its_own_pictures(owner: Account, container: Container, clock: Clock, gallery: ImageServer) -> None:
    url = gallery.url("/~CUSTOM1|green~.png")
    colours = ("red", "green", "blue")
    crowd = [whom | {"custom1": colours[place % 3]} for place, whom in enumerate(people(60))]
    many = owner.send(recipients=crowd, front_image_url=gallery.url("/~CUSTOM1~.png"), schedule_for="2026-06-01")
    kept = [row.front_file_id for row in files_of_items(container, many.json()["id"])]
    assert (len(gallery.requests), len(set(kept[:3]) - {None}), kept) == (3, 3, kept[:3] * 20)
    gallery.requests.clear()
    fronts = owner.send(recipients=fond_of("red", "blue", None, "red"), front_image_url=url).json()
    assert fronts["front_image"] == url
    assert gallery.paths == ["/blue.png", "/green.png", "/red.png"]
    assert len(creatives(container)) == 3
    kept = [row.front_file_id for row in files_of_items(container, fronts["id"])]
    assert (kept[0], len(set(kept))) == (kept[3], 3)
    proof = urlsplit(owner.get(f"/orders/{fronts['id']}").json()["high_quality_preview"]).path
    assert [colour_at(page) for page in rasterize_pages(owner.http.get(proof).content, dpi=20)[::2]] == [
        "red", "blue", "green",
    ]  # fmt: skip
    backs = owner.send(
        recipients=fond_of("red", "blue"),
        front_image_url=gallery.picture("green"),
        custom_background_image=gallery.url("/%CUSTOM1%.png"),
        handwriting_color="#ffffff",  # blue on blue would be held
    ).json()["id"]
    own_files = files_of_items(container, backs)
    assert [row.front_file_id for row in own_files] == [None, None]
    assert len({row.background_file_id for row in own_files} - {None}) == 2
    order = run(container, read_order, backs)
    assert (order.front_file_id is None, order.background_file_id) == (False, None)
    run_jobs_for(container, clock, seconds=15)
    [key] = [key for key in container.storage.store.keys("batches/") if key.endswith("print.pdf")]
    pages = rasterize_pages(container.storage.store.get(key), dpi=20)
    assert [colour_at(page) for page in pages[::2]] == ["red", "blue", "green", "red", "green", "green"]
    assert [colour_at(page, is_corner=True) for page in pages[9::2]] == ["red", "blue"]


def test_a_preview_shows_its_recipients_pictures(owner: Account, container: Container, gallery: ImageServer) -> None:
    url = gallery.url("/~CUSTOM1~.png")
    audience = [{"email": "only@example.com", "custom1": "red"}, *fond_of("blue", "green")]

    def shown(**how: int) -> tuple[str | None, str | None]:
        urls = {"front_image_url": url, "custom_background_image": url}
        front, back = owner.send(recipients=audience, preview=True, **urls, **how).json()["data"]["previews"]
        front, back = (owner.http.get(urlsplit(link).path).content for link in (front, back))
        return colour_at(front), colour_at(back, is_corner=True)

    assert shown() == ("blue", "blue"), "the first who can be mailed"
    assert shown(preview_recipient=2) == ("green", "green")
    assert shown(preview_recipient=0) == ("red", "red")
    assert creatives(container) == []


def test_pictures_are_fetched_for_those_mailed(owner: Account, container: Container, gallery: ImageServer) -> None:
    audience = [*fond_of("red"), {"email": "only@example.com", "custom1": "missing"}]
    sent = owner.send(recipients=audience, front_image_url=gallery.url("/~CUSTOM1~.png"))
    assert sent.status_code == 200, sent.text
    assert gallery.paths == ["/red.png"]
    mailed, refused = files_of_items(container, sent.json()["id"])
    assert (mailed.front_file_id is None, refused.front_file_id) == (False, None)


def test_a_value_stays_one_part_of_an_address_that_names_few_pictures_and_all_there(
    owner: Account, gallery: ImageServer, container: Container
) -> None:
    value = "../secret?a=1&b=%41#é"
    url = gallery.url("/a/~CUSTOM1~.png?who=~CUSTOM1~&size=2")
    assert owner.send(recipients=fond_of(value), front_image_url=url).status_code == 422
    [requested] = gallery.paths
    path, _, query = requested.partition("?")
    folder, name = path.removeprefix("/").split("/")
    assert (folder, unquote(name)) == ("a", value + ".png")
    assert parse_qs(query) == {"who": [value], "size": ["2"]}
    missing = "The image could not be fetched: 127.0.0.1 answered with status 404. (for recipient 1)"
    url = gallery.url("/~CUSTOM1~.png")
    with unchanged(container):
        for field in FIELDS:
            refused = owner.send(recipients=fond_of("red", "nothing", "red"), **{field: url})
            assert (refused.status_code, refused.json()["errors"]) == (422, {field: [missing]})
        gallery.requests.clear()
        refused = owner.send(recipients=people(51), front_image_url=gallery.url("/~ADDRESS~.png"))
        error = "The URL names 51 different pictures: at most 50 in one call."
        assert (refused.status_code, refused.json()["errors"]) == (422, {"front_image_url": [error]})
    assert gallery.paths == []


def test_pictures_are_warned_of_once_and_light_ink_only_on_white_paper(owner: Account, gallery: ImageServer) -> None:
    audience = fond_of("red", "soft-blue", "soft-green", "soft-blue")
    sent = owner.send(recipients=audience, front_image_url=gallery.url("/~CUSTOM1~.png"))
    [warning] = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    assert warning.startswith("front_image_url is 600 x 400 pixels")
    assert warning.endswith("(for recipient 1)")
    assert read_warnings(sent) == [warning]
    hard_to_read = "The handwriting_color is hard to read"
    assert hard_to_read in owner.send(handwriting_color="#fdfdfd").headers["X-Warnings"]
    on_red = owner.send(handwriting_color="#fdfdfd", custom_background_image=gallery.picture("red"))
    assert (on_red.status_code, hard_to_read in on_red.headers.get("X-Warnings", "")) == (200, False)


def test_known_pictures_are_not_fetched_or_kept(owner: Account, container: Container, gallery: ImageServer) -> None:
    how = {"recipients": fond_of("red", "blue"), "front_image_url": gallery.url("/~CUSTOM1~.png")}
    key = {"Idempotency-Key": "k"}
    first = owner.post("/send/postcard", postcard(**how), headers=key)
    with unchanged(container):
        again = owner.post("/send/postcard", postcard(**how), headers=key)
    assert (again.status_code, again.content) == (200, first.content)
    assert gallery.paths == ["/blue.png", "/red.png"]
    kept = creatives(container)
    second = owner.send(**how, custom_background_image=gallery.url("/~CUSTOM1|red~.png")).json()["id"]
    assert creatives(container) == kept
    assert [row.front_file_id for row in files_of_items(container, first.json()["id"])] == [
        row.background_file_id for row in files_of_items(container, second)
    ]


def test_pictures_of_a_send_that_failed_are_swept_up_and_those_of_its_retry_stay(
    owner: Account, container: Container, clock: Clock, gallery: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = postcard(recipients=fond_of("red", "blue"), front_image_url=gallery.url("/~CUSTOM1~.png"))
    before, _ = traces(container)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("The database is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(order_service, "insert_items", fail)
        assert owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"}).status_code >= 500
    orphans = creatives(container)
    assert (len(orphans), traces(container)[0]) == (2, before)
    assert owner.post("/send/postcard", body, headers={"Idempotency-Key": "k"}).status_code == 200
    clock.advance(days=1)
    assert delete_orphaned_files(container.db, container.storage, now=container.clock()) == 2
    clock.advance(days=400)
    assert delete_expired_files(container.db, container.storage, now=container.clock()) == 0
    left = creatives(container)
    assert (len(left), set(left) & set(orphans)) == (2, set())


HARD_TO_READ = "The handwriting_color is hard to read"
SHRUNK = "The message was shrunk to fit"
LONG = "Thank you for stopping by, it was good to see you all again. " * 9


def every_answer(owner: Account, piece: str = "postcard", **body: Any) -> list[list[str]]:
    """What the preview, the estimate, the send and the stored send of one body warn of, each by its header;
    and by its body, where the shape is ours."""
    shown = owner.send(piece, **body, preview=True)
    call = {"recipients": [person()], "message": "Hi!", "allow_duplicates": True} | body
    estimate = owner.post(f"/estimate/{piece}", call)
    sent = owner.send(piece, **body)
    stored = owner.post(f"/stored_send/{piece}", call)
    answers = (shown, estimate, sent, stored)
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    read = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    in_bodies = [shown.json()["data"]["warnings"], estimate.json()["data"]["warnings"], read]
    return [*map(read_warnings, answers), *in_bodies]


def test_what_looks_bad_is_reported_everywhere(owner: Account, art: ImageServer, subtests: pytest.Subtests) -> None:
    template = upload(owner, image=make_picture("white", (300, 204))).json()["id"]
    black = {"custom_background_image": art.picture("black")}
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "low resolution": ({"image_template": template}, "prints at 48 dpi"),
        "missing characters": ({"message": "Hi Әлия!"}, "has no Ә (cyrillic capital letter schwa)"),
        "shrunk": ({"message": LONG}, SHRUNK),
        "white ink": ({"handwriting_color": "#fdfdfd"}, f"{HARD_TO_READ} on white paper"),
        "thin ink": ({"handwriting_color": "rgba(0,0,0,0.1)"}, f"{HARD_TO_READ} on white paper"),
        "yellow ink": ({"handwriting_color": "#ffee88"}, f"{HARD_TO_READ} on white paper"),
        "ink lost on the art": (black, f"{HARD_TO_READ} on custom_background_image"),
    }
    for name, (body, words) in cases.items():
        with subtests.test(name):
            found = every_answer(owner, **body)
            assert all(words in warnings[0] for warnings in found), found
            assert len({str(warnings) for warnings in found}) == 1
    assert every_answer(owner, **black, handwriting_color="#ffffff") == [[]] * 7


def test_what_looks_well_is_not_warned_of(owner: Account) -> None:
    styles = owner.get("/handwriting-styles").json()["data"]
    style = next(each["handwriting_style_id"] for each in styles if each["type"] == "AI")
    requested_size = {"message": "Hi! " * 20, "font_size": "small", "handwriting_style": style}
    for usual in ({"message": "Hi!"}, {"message": LONG, "size": "6x11"}, requested_size):
        sent = owner.send(**usual)
        assert (sent.status_code, read_warnings(sent)) == (200, [])


def test_other_words_take_the_warning_back(owner: Account) -> None:
    order = owner.send(message=LONG).json()["id"]
    assert owner.put(f"/orders/{order}", {"message": "Hi!"}).json()["warnings"] == []
    assert owner.put(f"/orders/{order}", {"message": LONG}).json()["warnings"][0].startswith(SHRUNK)


def test_the_header_is_a_short_json_array_in_ascii_without_secrets() -> None:
    header = build_warning_header(["Grüße an Жук", 'a "quote"\nand a line', "Grüße an Жук"])["X-Warnings"]
    assert header.isascii()
    assert header.isprintable()
    assert json.loads(header) == ["Grüße an Жук", 'a "quote"\nand a line']
    assert build_warning_header([]) == {}
    token = "qp_live_" + "a" * 43
    assert token not in build_warning_header([f"The field {token} is odd."])["X-Warnings"]
    for warnings in (["x" * 5_000], ["Ж" * 900], [f"{n} " + "Ж" * 60 for n in range(99)]):
        header = build_warning_header(warnings)["X-Warnings"]
        assert len(header) <= MAX_HEADER_LENGTH
        messages = json.loads(header)
        assert messages[0][:20] == warnings[0][:20]
        left_out = len(warnings) - len(messages)
        assert not left_out or messages[-1] == f"{left_out + 1} more warnings have no room here."
