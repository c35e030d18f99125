"""The sample of each hand: a public picture, drawn once, kept by whoever asked for it."""

import io
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.rendering import previews
from quillpost.web.public.files import endpoints as file_endpoints
from quillpost.web.public.files.endpoints import MAX_WAITING
from support.factories import Account
from support.test_client import TestClient
from support.waiting import wait_until


def pixels(png: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB"))


def test_a_sample_is_one_line_of_blue_ink_on_white(http: TestClient) -> None:
    answer = http.get("/hands/1.png")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    drawn = pixels(answer.content)
    assert drawn.shape == (120, 700, 3)
    ink = np.any(drawn < 128, axis=2)
    down, across = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    assert across[0] < 40, "it begins at the left"
    assert across[-1] > 560, "it fills the picture"
    assert 2 < down[0] < down[-1] < 117, "it is not cut"
    assert down[-1] - down[0] < 80, "it is one line"
    red, green, blue = drawn[drawn.sum(axis=2).argmin() // 700, drawn.sum(axis=2).argmin() % 700]
    assert blue > max(red, green)


def test_every_hand_has_a_sample_of_its_own(http: TestClient, container: Container) -> None:
    numbers = [style.number for style in container.renderer.hands.styles.values() if style.kind != "AI"]
    drawn = [http.get(f"/hands/{number}.png").content for number in [1, *numbers]]
    assert len(set(drawn)) == len(drawn)


def test_it_is_the_same_however_often_it_is_drawn(container: Container) -> None:
    assert previews.render_sample(container.renderer, 1) == previews.render_sample(container.renderer, 1)


@pytest.mark.parametrize("name", ["0", "20", "999999999999999999999", "one", "-1", "1.5", "%00"])
def test_a_hand_that_is_not_there_is_not_found(http: TestClient, name: str) -> None:
    answer = http.get(f"/hands/{name}.png")
    assert answer.status_code == 404
    assert answer.json() == {"message": "Not Found"}


def test_it_is_drawn_once(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = http.get("/hands/1.png")

    def draw_again(*_: object) -> bytes:
        raise AssertionError("drawn again")

    monkeypatch.setattr(file_endpoints, "render_sample", draw_again)
    assert http.get("/hands/1.png").content == first.content


def test_whoever_has_it_already_is_spared_the_bytes(http: TestClient) -> None:
    first = http.get("/hands/1.png")
    again = http.get("/hands/1.png", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = http.get("/hands/1.png", headers={"If-None-Match": '"something else"'})
    assert other.status_code == 200


def test_only_the_address_that_names_its_look_is_kept_for_ever(http: TestClient, owner: Account) -> None:
    listed = owner.get("/handwriting-styles").json()["data"][0]["sample"]
    assert "immutable" in http.get(listed).headers["cache-control"]
    for other in ("/hands/1.png", "/hands/1.png?v=another"):
        assert http.get(other).headers["cache-control"] == "public, max-age=3600"


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
