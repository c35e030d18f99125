"""Pictures of orders on their way to paper: many at once, and damaged ones."""

import io
import re
from collections.abc import Sequence
from threading import BoundedSemaphore, Lock

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.orders.models import Order
from quillpost.orders.templates import images
from quillpost.orders.templates.images import MAX_FETCHES_PER_CALL, FileToFetch, fetch_images
from quillpost.rendering.decoder.tasks import rasterize_pages
from support.factories import Clock, people
from support.orders import create_order, item_rows, order_row
from support.production import compose, only_batch, sweep_due_orders
from support.rows import execute, run_as, scalar

FIELD = "front_image_url"


def picture(colour: str, mode: str = "RGB", file_format: str = "PNG", **how: object) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (1875, 1275), colour).convert(mode).save(file, file_format, **how)
    return file.getvalue()


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


def put(container: Container, caller: Caller, data: bytes) -> sa.ColumnElement[object]:
    """A picture on the shelf as it is; its file's id."""
    storage, now, account_id = container.storage, container.clock(), caller.account_id
    kept = storage.put(data, purpose="creative", content_type="image/png", now=now)
    run_as(container, caller, storage.record_file, kept, account_id=account_id, sub_account_id=None, now=now)
    return sa.literal(kept.id)


def compose_all(container: Container, clock: Clock) -> list[Image.Image]:
    """Everything that is due as one batch; its pages."""
    sweep_due_orders(container, clock)
    batch_id = compose(container, only_batch(container).id)
    drawn = container.storage.store.get(f"batches/{batch_id}/print.pdf")
    return [Image.open(io.BytesIO(page)).convert("RGB") for page in rasterize_pages(drawn, dpi=20)]


def is_reddish(page: Image.Image) -> bool:
    pixel = page.getpixel((page.width // 2, page.height // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red > 180 and max(green, blue) < 80


@pytest.mark.usefixtures("clean_database")
def test_one_damaged_picture_sets_its_own_order_aside_alone(container: Container, clock: Clock, caller: Caller) -> None:
    damaged, sound = create_order(container, caller, people(3)), create_order(container, caller, people(2))
    red, junk = put(container, caller, picture("red")), put(container, caller, b"junk")
    give_pictures(container, damaged, [red, junk, red])
    give_pictures(container, sound, [red, red])
    pages = compose_all(container, clock)
    assert [is_reddish(page) for page in pages] == [True, False] * 2
    assert {(row.status, row.failure) for row in item_rows(container, damaged)} == {("Failed", NOT_COMPOSABLE)}
    assert {row.status for row in item_rows(container, sound)} == {"Processing"}
    assert order_row(container, sound).status == "processing"


def give_pictures(container: Container, order: Order, files: Sequence[sa.ColumnElement[object]]) -> None:
    for row, file in zip(item_rows(container, order), files, strict=True):
        execute(container, sa.update(items).where(items.c.id == row.id).values(front_file_id=file))


@pytest.mark.usefixtures("clean_database")
def test_files_that_pieces_need_cannot_be_removed_and_are_not_made_again_without_a_lost_picture(
    container: Container, clock: Clock, caller: Caller
) -> None:
    give_pictures(container, create_order(container, caller), [put(container, caller, picture("red"))])
    with pytest.raises(sa.exc.IntegrityError):
        execute(container, "delete from files")
    compose_all(container, clock)
    container.storage.store.delete(scalar(container, "select key from files"))
    with pytest.raises(Unavailable, match="Bring it back from a backup"):
        batch_tasks.remake_files(container.production, only_batch(container).id)
