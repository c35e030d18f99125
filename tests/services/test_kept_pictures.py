"""Pictures of orders on their way to paper: many at once, raw ones of earlier releases, damaged ones."""

import io
from collections.abc import Sequence
from threading import BoundedSemaphore, Lock

import pytest
import sqlalchemy as sa
from PIL import Image
from placing import REVIEW, item_rows, open_account, order_row, place

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items, orders
from quillpost.core.database.tables.print_room import batches
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.ports import Fetched, FetchFailed
from quillpost.fulfillment import production, review
from quillpost.fulfillment.drawing import NOT_DRAWABLE
from quillpost.orders.models import Order
from quillpost.orders.templates import images
from quillpost.orders.templates.images import FETCHES_FOR_ONE, Wanted, fetch_images
from quillpost.rendering.images.limits import BadImage
from quillpost.rendering.images.models import read_picture
from quillpost.rendering.pdf.raster import rasterise
from quillpost.web.public.files import open_file

FIELD = "front_image_url"


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


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
        self.asked: list[str] = []

    def fetch(self, url: str, *, most_bytes: int) -> Fetched:
        with self._lock:
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self.asked.append(url)
        try:
            if url not in self._goods:
                raise FetchFailed(f"{url} is sold out.")
            return Fetched("image/png", self._goods[url])
        finally:
            with self._lock:
                self._inside -= 1


def wanted(urls: Sequence[str]) -> list[Wanted]:
    return [Wanted(url, FIELD, f"for recipient {place}") for place, url in enumerate(urls)]


def test_pictures_come_in_the_order_asked_for_a_few_at_a_time() -> None:
    goods = {f"{n}": picture(f"#{n:02x}0000") for n in range(10)}
    shop = Shop(goods)
    found = fetch_images(shop, wanted(list(goods)))
    assert [one.body for one in found] == list(goods.values())
    assert sorted(shop.asked) == sorted(goods)
    assert shop.most_at_once <= FETCHES_FOR_ONE


def test_the_first_fault_in_order_is_told_and_the_rest_is_not_asked_for() -> None:
    shop = Shop({"0": picture("red")})
    with pytest.raises(Invalid) as refusal:
        fetch_images(shop, wanted([f"{n}" for n in range(50)]))
    assert refusal.value.fields == {
        FIELD: ["The image could not be fetched: 1 is sold out. (for recipient 1)"]
    }
    assert len(shop.asked) <= 2 + FETCHES_FOR_ONE


def test_a_picture_that_is_none_is_told_with_its_recipient() -> None:
    with pytest.raises(Invalid) as refusal:
        fetch_images(Shop({"0": picture("red"), "1": b"words"}), wanted(["0", "1"]))
    (told,) = refusal.value.fields[FIELD]
    assert told.startswith("The image cannot be printed: ")
    assert told.endswith("(for recipient 1)")


def test_pictures_that_are_too_large_together_are_refused() -> None:
    goods = {"red": picture("red"), "blue": picture("blue")}
    size = sum(map(len, goods.values()))
    assert len(fetch_images(Shop(goods), wanted(list(goods)), most_bytes=size)) == 2
    with pytest.raises(Invalid, match="The images take more than"):
        fetch_images(Shop(goods), wanted(list(goods)), most_bytes=size - 1)


def test_pictures_that_take_too_long_together_are_refused() -> None:
    goods = {"red": picture("red"), "blue": picture("blue")}
    with pytest.raises(Invalid, match="takes longer than 0 seconds"):
        fetch_images(Shop(goods), wanted(list(goods)), seconds=0)
    assert len(fetch_images(Shop(goods), wanted(["red"]), seconds=0)) == 1, "it is there already"


def test_every_place_is_free_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(FETCHES_FOR_ONE)
    monkeypatch.setattr(images, "_fetches", places)
    with pytest.raises(Invalid):
        fetch_images(Shop({}), wanted([f"{n}" for n in range(9)]))
    assert all(places.acquire(blocking=False) for _ in range(FETCHES_FOR_ONE))


def put(parts: Parts, who: Caller, data: bytes) -> sa.ColumnElement[object]:
    """A picture on the shelf as it is; its file's id."""
    kept = parts.shelf.put(data, purpose="creative", content_type="image/png", now=parts.clock())
    with parts.db.transaction(tenant(who)) as tx:
        parts.shelf.record(tx, kept, account_id=who.account_id, sub_account_id=None, now=parts.clock())
    return sa.literal(kept.id)


def compose_all(parts: Parts, clock: Clock) -> list[Image.Image]:
    """Everything that is due as one batch; its pages."""
    clock.advance(seconds=REVIEW.seconds)
    review.sweep(parts.press, now=parts.clock())
    with parts.db.work() as tx:
        batch = tx.execute(sa.select(batches)).one()
    production.compose(parts.press, batch.id, now=parts.clock())
    drawn = parts.shelf.store.get(f"batches/{batch.id}/print.pdf")
    return [Image.open(io.BytesIO(page)).convert("RGB") for page in rasterise(drawn, dpi=20)]


def is_reddish(page: Image.Image) -> bool:
    pixel = page.getpixel((page.width // 2, page.height // 2))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red > 180 and max(green, blue) < 80


RAW = {
    "inks": picture("red", "CMYK", "JPEG"),
    "palette": picture("red", "P"),
    "see-through": picture("red", "RGBA"),
}


@pytest.mark.parametrize("kind", RAW)
def test_a_raw_picture_of_an_earlier_release_is_printed_and_proofed(
    parts: Parts, clock: Clock, owner: Caller, kind: str
) -> None:
    with pytest.raises(BadImage):
        read_picture(RAW[kind])
    order = place(parts, owner)
    with parts.db.work() as tx:
        tx.execute(sa.update(orders).values(front_file_id=put(parts, owner, RAW[kind])))
    token = parts.shelf.path(f"proof-{order.id}", expires=parts.clock() + REVIEW).removeprefix("/files/")
    proof = rasterise(bytes(open_file(token, parts).body), dpi=20)[0]
    assert is_reddish(Image.open(io.BytesIO(proof)).convert("RGB"))
    assert is_reddish(compose_all(parts, clock)[0])


def test_one_damaged_picture_sets_its_own_order_aside_and_no_other(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    damaged, sound = place(parts, owner, people(3)), place(parts, owner, people(2))
    red, junk = put(parts, owner, picture("red")), put(parts, owner, b"junk")
    give_pictures(parts, damaged, [red, junk, red])
    give_pictures(parts, sound, [red, red])
    pages = compose_all(parts, clock)
    assert [is_reddish(page) for page in pages] == [True, False] * 2
    with parts.db.work() as tx:
        assert {(row.status, row.failure) for row in item_rows(tx, damaged)} == {("Failed", NOT_DRAWABLE)}
        assert {row.status for row in item_rows(tx, sound)} == {"Processing"}
        assert order_row(tx, sound).status == "processing"


def give_pictures(parts: Parts, order: Order, files: Sequence[sa.ColumnElement[object]]) -> None:
    with parts.db.work() as tx:
        for row, file in zip(item_rows(tx, order), files, strict=True):
            tx.execute(sa.update(items).where(items.c.id == row.id).values(front_file_id=file))


def test_a_file_that_a_piece_needs_cannot_be_removed(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner)
    give_pictures(parts, order, [put(parts, owner, picture("red"))])
    with pytest.raises(sa.exc.IntegrityError), parts.db.work() as tx:
        tx.execute(sa.text("delete from files"))


def test_files_are_not_made_again_without_a_picture_that_was_lost(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    give_pictures(parts, place(parts, owner), [put(parts, owner, picture("red"))])
    compose_all(parts, clock)
    with parts.db.work() as tx:
        [picture_key] = tx.execute(sa.text("select key from files")).scalars()
        [batch_id] = tx.execute(sa.select(batches.c.id)).scalars()
    parts.shelf.store.delete(picture_key)
    with pytest.raises(Unavailable, match="Bring it back from a backup"):
        production.remake(parts.press, batch_id)
