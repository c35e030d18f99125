"""How pictures are fetched: a few at a time, and not for ever."""

import re
from collections.abc import Sequence
from threading import BoundedSemaphore, Lock

import pytest
from PIL import Image

from quillpost.core.errors import Invalid
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.orders.templates import images
from quillpost.orders.templates.images import MAX_FETCHES_PER_CALL, FileToFetch, fetch_images
from support.images import saved

FIELD = "front_image_url"


def picture(colour: str) -> bytes:
    return saved(Image.new("RGB", (1875, 1275), colour), "PNG")


class Shop:
    """Sells what it has; counts how many are served at once."""

    def __init__(self, goods: dict[str, bytes]) -> None:
        self._goods = goods
        self._lock = Lock()
        self._inside = 0
        self.most_at_once = 0
        self.requests: list[str] = []

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        with self._lock:
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self.requests.append(url)
        try:
            if url not in self._goods:
                raise FetchFailed(f"{url} is sold out.")
            return FetchedDocument("image/png", self._goods[url])
        finally:
            with self._lock:
                self._inside -= 1


def files_to_fetch(urls: Sequence[str]) -> list[FileToFetch]:
    return [FileToFetch(url, FIELD, f"for recipient {index}") for index, url in enumerate(urls)]


def test_pictures_are_fetched_in_order_a_few_at_a_time() -> None:
    goods = {f"{n}": picture(f"#{n:02x}0000") for n in range(10)}
    shop = Shop(goods)
    found = fetch_images(shop, files_to_fetch(list(goods)))
    assert ([one.body for one in found], sorted(shop.requests)) == (list(goods.values()), sorted(goods))
    assert shop.most_at_once <= MAX_FETCHES_PER_CALL


def test_the_first_error_in_order_is_reported_and_the_rest_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(MAX_FETCHES_PER_CALL)
    monkeypatch.setattr(images, "_fetch_slots", places)
    shop = Shop({"0": picture("red")})
    with pytest.raises(Invalid) as refusal:
        fetch_images(shop, files_to_fetch([f"{n}" for n in range(50)]))
    assert refusal.value.fields == {FIELD: ["The image could not be fetched: 1 is sold out. (for recipient 1)"]}
    assert len(shop.requests) <= 2 + MAX_FETCHES_PER_CALL
    assert all(places.acquire(blocking=False) for _ in range(MAX_FETCHES_PER_CALL)), "every slot is free again"


def test_what_is_no_picture_or_too_large_or_slow_is_refused() -> None:
    reason = r"^The image cannot be printed: .*\(for recipient 1\)$"
    with pytest.raises(Invalid) as refusal:
        fetch_images(Shop({"0": picture("red"), "1": b"words"}), files_to_fetch(["0", "1"]))
    [error] = refusal.value.fields[FIELD]
    assert re.match(reason, error)
    goods = {"red": picture("red"), "blue": picture("blue")}
    shop, files, size = Shop(goods), files_to_fetch(list(goods)), sum(map(len, goods.values()))
    assert len(fetch_images(shop, files, max_bytes=size)) == 2
    with pytest.raises(Invalid, match="The images take more than"):
        fetch_images(shop, files, max_bytes=size - 1)
    with pytest.raises(Invalid, match="takes longer than 0 seconds"):
        fetch_images(shop, files, max_seconds=0)
    assert len(fetch_images(shop, files[:1], max_seconds=0)) == 1, "it is there already"
