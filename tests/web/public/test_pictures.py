"""The public pictures: a sample of each hand, and each brand of gift cards. Each is drawn once."""

import io
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import GiftcardBrand
from quillpost.rendering import previews
from quillpost.web.public.files import endpoints as file_endpoints
from quillpost.web.public.files.endpoints import MAX_WAITING
from support.factories import Account, snapshot_rows
from support.rows import run
from support.test_client import TestClient
from support.waiting import wait_until

COFFEE, OUR_CAFE, HAND = "/giftcards/brindlewick.png", "/giftcards/our-cafe.png", "/hands/1.png"
OURS = GiftcardBrand("our-cafe", "Our Café", "food", (2500,), "#1f6f54")


def pixels(http: TestClient, path: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    answer = http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    with Image.open(io.BytesIO(answer.content)) as picture:
        return np.asarray(picture.convert("RGB"))


def put(container: Container, **changes: str) -> None:
    brand = GiftcardBrand(**{name: getattr(OURS, name) for name in GiftcardBrand.__slots__} | changes)
    run(container, giftcard_queries.save_brand, brand, now=container.clock())


def test_a_brand_shows_its_name_in_its_color_and_a_hand_a_line_of_blue_ink(http: TestClient) -> None:
    drawn = pixels(http, COFFEE)
    assert drawn.shape == (403, 640, 3)
    assert tuple(drawn[-1, 0]) == tuple(drawn[0, 0]) == (0x5B, 0x3A, 0x29)
    white = (drawn == 255).all(axis=2)
    down, across = np.flatnonzero(white.any(axis=1)), np.flatnonzero(white.any(axis=0))
    assert down[0] > 200, "the name stands under the ribbon"
    assert across[0] > 30, "it is not cut"
    assert across[-1] < 610, "nor at its end"
    drawn = pixels(http, HAND)
    assert drawn.shape == (120, 700, 3)
    ink = np.any(drawn < 128, axis=2)
    down, across = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    assert across[0] < 40, "it begins at the left"
    assert across[-1] > 560, "it fills the picture"
    assert 2 < down[0] < down[-1] < 117, "it is not cut"
    assert down[-1] - down[0] < 80, "it is one line"
    red, green, blue = drawn[drawn.sum(axis=2).argmin() // 700, drawn.sum(axis=2).argmin() % 700]
    assert blue > max(red, green)
    brands = ("no-such-brand", "BRINDLEWICK", "%00", "%ff", "..%2fart", "a" * 500)
    hands = ("0", "32", "999999999999999999999", "one", "-1", "1.5", "%00")
    for path in (*(f"/giftcards/{code}.png" for code in brands), *(f"/hands/{name}.png" for name in hands)):
        answer = http.get(path)
        assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"}), path


def test_each_brand_and_each_hand_has_its_own_picture(owner: Account, http: TestClient, container: Container) -> None:
    brands = [brand["image"] for brand in owner.get("/giftcard-brands-list").json()["brands"][:4]]
    numbers = [style.number for style in container.renderer.hands.styles.values() if style.kind != "AI"]
    drawn = [http.get(path).content for path in (*brands, HAND, *(f"/hands/{number}.png" for number in numbers))]
    assert len(set(drawn)) == len(drawn)
    assert previews.render_sample(container.renderer, 1) == previews.render_sample(container.renderer, 1)


def test_a_picture_is_drawn_once_and_spared_to_whoever_has_it(
    http: TestClient, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {path: http.get(path) for path in (COFFEE, HAND)}
    before = snapshot_rows(container)

    def draw_again(*_: object) -> bytes:
        raise AssertionError("drawn again")

    for name in ("render_brand_picture", "render_sample"):
        monkeypatch.setattr(file_endpoints, name, draw_again)
    for path, seen in first.items():
        assert seen.headers["cache-control"] == "public, max-age=3600"
        assert http.get(path).content == seen.content
        again = http.get(path, headers={"If-None-Match": seen.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", seen.headers["etag"])
        assert http.get(path, headers={"If-None-Match": '"something else"'}).status_code == 200
    assert snapshot_rows(container) == before


def test_a_changed_brands_picture_changes_a_retired_ones_stays(http: TestClient, container: Container) -> None:
    """What was sent still shows a brand that is offered no more."""
    seen = []
    for changes in ({}, {"title": "Our Bistro"}, {"accent": "#7a1f3d"}, {}):
        put(container, **changes)
        seen.append(http.get(OUR_CAFE))
    assert (seen[0].content, len({picture.content for picture in seen})) == (seen[3].content, 3)
    assert http.get(OUR_CAFE, headers={"If-None-Match": seen[1].headers["etag"]}).status_code == 200
    run(container, giftcard_queries.retire_brand, "our-cafe", now=container.clock())
    assert http.get(OUR_CAFE).content == seen[0].content


def test_only_the_address_that_names_its_look_is_kept_for_ever(http: TestClient, owner: Account) -> None:
    listed = owner.get("/handwriting-styles").json()["data"][0]["sample"]
    assert "immutable" in http.get(listed).headers["cache-control"]
    assert http.get("/hands/1.png?v=another").headers["cache-control"] == "public, max-age=3600"


def test_many_requests_for_an_unprepared_hand_do_not_take_every_thread() -> None:
    may_draw, is_drawing = Event(), Event()

    def draw(_number: int) -> bytes:
        is_drawing.set()
        may_draw.wait()
        return b"a sample"

    samples = file_endpoints.ImageCache(draw)
    with ThreadPoolExecutor(MAX_WAITING) as crowd:
        waiting = [crowd.submit(samples.get, 1) for _ in range(MAX_WAITING)]
        is_drawing.wait()
        wait_until(lambda: not samples._waiting_slots._value)
        with pytest.raises(Unavailable):
            samples.get(1)
        may_draw.set()
        assert {each.result() for each in waiting} == {b"a sample"}
