"""Pictures of orders on their way to paper: many at once, and damaged ones."""

import io
from collections.abc import Sequence
from threading import BoundedSemaphore, Lock

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.models import Order
from quillpost.orders.templates import images
from quillpost.orders.templates.images import MAX_FETCHES_PER_CALL, FileToFetch, fetch_images
from quillpost.rendering.decoder.tasks import rasterize_pages
from support.factories import Clock, people
from support.orders import REVIEW, create_order, item_rows, open_account, order_row

pytestmark = pytest.mark.usefixtures("clean_database")

FIELD = "front_image_url"


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


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
    assert [one.body for one in found] == list(goods.values())
    assert sorted(shop.requests) == sorted(goods)
    assert shop.most_at_once <= MAX_FETCHES_PER_CALL


def test_the_first_error_in_order_is_reported_and_the_rest_is_not_fetched() -> None:
    shop = Shop({"0": picture("red")})
    with pytest.raises(Invalid) as refusal:
        fetch_images(shop, files_to_fetch([f"{n}" for n in range(50)]))
    assert refusal.value.fields == {FIELD: ["The image could not be fetched: 1 is sold out. (for recipient 1)"]}
    assert len(shop.requests) <= 2 + MAX_FETCHES_PER_CALL


def test_a_file_that_is_no_picture_is_reported_with_its_recipient() -> None:
    with pytest.raises(Invalid) as refusal:
        fetch_images(Shop({"0": picture("red"), "1": b"words"}), files_to_fetch(["0", "1"]))
    (error,) = refusal.value.fields[FIELD]
    assert error.startswith("The image cannot be printed: ")
    assert error.endswith("(for recipient 1)")


def test_pictures_that_are_too_large_together_are_refused() -> None:
    goods = {"red": picture("red"), "blue": picture("blue")}
    size = sum(map(len, goods.values()))
    assert len(fetch_images(Shop(goods), files_to_fetch(list(goods)), max_bytes=size)) == 2
    with pytest.raises(Invalid, match="The images take more than"):
        fetch_images(Shop(goods), files_to_fetch(list(goods)), max_bytes=size - 1)


def test_pictures_that_take_too_long_together_are_refused() -> None:
    goods = {"red": picture("red"), "blue": picture("blue")}
    with pytest.raises(Invalid, match="takes longer than 0 seconds"):
        fetch_images(Shop(goods), files_to_fetch(list(goods)), max_seconds=0)
    assert len(fetch_images(Shop(goods), files_to_fetch(["red"]), max_seconds=0)) == 1, "it is there already"


def test_every_fetch_slot_is_free_again_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(MAX_FETCHES_PER_CALL)
    monkeypatch.setattr(images, "_fetch_slots", places)
    with pytest.raises(Invalid):
        fetch_images(Shop({}), files_to_fetch([f"{n}" for n in range(9)]))
    assert all(places.acquire(blocking=False) for _ in range(MAX_FETCHES_PER_CALL))


def put(container: Container, caller: Caller, data: bytes) -> sa.ColumnElement[object]:
    """A picture on the shelf as it is; its file's id."""
    kept = container.storage.put(data, purpose="creative", content_type="image/png", now=container.clock())
    with container.db.transaction(build_tenant(caller)) as tx:
        container.storage.record_file(
            tx, kept, account_id=caller.account_id, sub_account_id=None, now=container.clock()
        )
    return sa.literal(kept.id)


def compose_all(container: Container, clock: Clock) -> list[Image.Image]:
    """Everything that is due as one batch; its pages."""
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=container.clock())
    with container.db.system_transaction() as tx:
        batch = tx.execute(sa.select(batches)).one()
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    drawn = container.storage.store.get(f"batches/{batch.id}/print.pdf")
    return [Image.open(io.BytesIO(page)).convert("RGB") for page in rasterize_pages(drawn, dpi=20)]


def is_reddish(page: Image.Image) -> bool:
    pixel = page.getpixel((page.width // 2, page.height // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red > 180 and max(green, blue) < 80


def test_one_damaged_picture_sets_its_own_order_aside_and_no_other(
    container: Container, clock: Clock, owner: Caller
) -> None:
    damaged, sound = create_order(container, owner, people(3)), create_order(container, owner, people(2))
    red, junk = put(container, owner, picture("red")), put(container, owner, b"junk")
    give_pictures(container, damaged, [red, junk, red])
    give_pictures(container, sound, [red, red])
    pages = compose_all(container, clock)
    assert [is_reddish(page) for page in pages] == [True, False] * 2
    with container.db.system_transaction() as tx:
        assert {(row.status, row.failure) for row in item_rows(tx, damaged)} == {("Failed", NOT_COMPOSABLE)}
        assert {row.status for row in item_rows(tx, sound)} == {"Processing"}
        assert order_row(tx, sound).status == "processing"


def give_pictures(container: Container, order: Order, files: Sequence[sa.ColumnElement[object]]) -> None:
    with container.db.system_transaction() as tx:
        for row, file in zip(item_rows(tx, order), files, strict=True):
            tx.execute(sa.update(items).where(items.c.id == row.id).values(front_file_id=file))


def test_a_file_that_a_piece_needs_cannot_be_removed(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    give_pictures(container, order, [put(container, owner, picture("red"))])
    with pytest.raises(sa.exc.IntegrityError), container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from files"))


def test_files_are_not_made_again_without_a_picture_that_was_lost(
    container: Container, clock: Clock, owner: Caller
) -> None:
    give_pictures(container, create_order(container, owner), [put(container, owner, picture("red"))])
    compose_all(container, clock)
    with container.db.system_transaction() as tx:
        [picture_key] = tx.execute(sa.text("select key from files")).scalars()
        [batch_id] = tx.execute(sa.select(batches.c.id)).scalars()
    container.storage.store.delete(picture_key)
    with pytest.raises(Unavailable, match="Bring it back from a backup"):
        batch_tasks.remake_files(container.production, batch_id)
