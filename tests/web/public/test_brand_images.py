"""The picture of each brand of gift cards: public, drawn once, and another one when its brand changes."""

import io

import numpy as np
import pytest
from PIL import Image

from quillpost.app.container import Container
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards.rules import GiftcardBrand
from quillpost.web.public.files import endpoints as file_endpoints
from support.factories import Account, snapshot_rows
from support.test_client import TestClient

COFFEE = "/giftcards/brindlewick.png"
OURS = GiftcardBrand("our-cafe", "Our Café", "food", (2500,), "#1f6f54")


def pixels(png: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB"))


def put(container: Container, **changes: str) -> None:
    brand = GiftcardBrand(**{name: getattr(OURS, name) for name in GiftcardBrand.__slots__} | changes)
    with container.db.system_transaction() as tx:
        giftcard_queries.save_brand(tx, brand, now=container.clock())


def test_it_shows_the_brands_name_in_its_colour(http: TestClient) -> None:
    answer = http.get(COFFEE)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    drawn = pixels(answer.content)
    assert drawn.shape == (403, 640, 3)
    assert tuple(drawn[-1, 0]) == tuple(drawn[0, 0]) == (0x5B, 0x3A, 0x29)
    white = (drawn == 255).all(axis=2)
    down, across = np.flatnonzero(white.any(axis=1)), np.flatnonzero(white.any(axis=0))
    assert down[0] > 200, "the name stands under the ribbon"
    assert across[0] > 30, "it is not cut"
    assert across[-1] < 610, "nor at its end"


def test_every_brand_of_the_catalogue_has_a_picture_of_its_own(owner: Account, http: TestClient) -> None:
    brands = owner.get("/giftcard-brands-list").json()["brands"]
    drawn = [http.get(brand["image"]) for brand in brands[:4]]
    assert [answer.status_code for answer in drawn] == [200] * 4
    assert len({answer.content for answer in drawn}) == 4


@pytest.mark.parametrize("code", ["no-such-brand", "BRINDLEWICK", "%00", "%ff", "..%2fart", "a" * 500])
def test_a_brand_that_is_not_there_is_not_found(http: TestClient, code: str) -> None:
    answer = http.get(f"/giftcards/{code}.png")
    assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


def test_it_is_drawn_once(http: TestClient, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    first = http.get(COFFEE)
    before = snapshot_rows(container)

    def draw_again(*_: object) -> bytes:
        raise AssertionError("drawn again")

    monkeypatch.setattr(file_endpoints, "render_brand_picture", draw_again)
    assert http.get(COFFEE).content == first.content
    assert snapshot_rows(container) == before


def test_a_changed_brand_has_a_changed_picture(http: TestClient, container: Container) -> None:
    seen = []
    for changes in ({}, {"title": "Our Bistro"}, {"accent": "#7a1f3d"}, {}):
        put(container, **changes)
        seen.append(http.get("/giftcards/our-cafe.png").content)
    assert seen[0] == seen[3]
    assert len(set(seen)) == 3


def test_what_was_sent_still_shows_a_brand_that_is_offered_no_more(http: TestClient, container: Container) -> None:
    put(container)
    offered = http.get("/giftcards/our-cafe.png")
    with container.db.system_transaction() as tx:
        giftcard_queries.retire_brand(tx, "our-cafe", now=container.clock())
    assert http.get("/giftcards/our-cafe.png").content == offered.content


def test_whoever_has_it_already_is_spared_the_bytes(http: TestClient, container: Container) -> None:
    put(container)
    first = http.get("/giftcards/our-cafe.png")
    assert first.headers["cache-control"] == "public, max-age=3600"
    known = {"If-None-Match": first.headers["etag"]}
    again = http.get("/giftcards/our-cafe.png", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    put(container, title="Our Bistro")
    assert http.get("/giftcards/our-cafe.png", headers=known).status_code == 200
