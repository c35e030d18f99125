"""Pictures that cannot be printed, or are lost, and the pieces that need them."""

import io
from collections.abc import Sequence

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import NOT_COMPOSABLE
from quillpost.orders.models import Order
from quillpost.rendering.decoder.tasks import rasterize_pages
from support.factories import Clock, people
from support.images import saved
from support.orders import create_order, item_rows, order_row
from support.production import compose, only_batch, sweep_due_orders
from support.rows import execute, run_as, scalar

pytestmark = pytest.mark.usefixtures("clean_database")

RED = saved(Image.new("RGB", (1875, 1275), "red"), "PNG")


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


def test_one_damaged_picture_sets_its_own_order_aside_alone(container: Container, clock: Clock, caller: Caller) -> None:
    damaged, sound = create_order(container, caller, people(3)), create_order(container, caller, people(2))
    red, junk = put(container, caller, RED), put(container, caller, b"junk")
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


def test_files_that_pieces_need_cannot_be_removed_and_are_not_made_again_without_a_lost_picture(
    container: Container, clock: Clock, caller: Caller
) -> None:
    give_pictures(container, create_order(container, caller), [put(container, caller, RED)])
    with pytest.raises(sa.exc.IntegrityError):
        execute(container, "delete from files")
    compose_all(container, clock)
    container.storage.store.delete(scalar(container, "select key from files"))
    with pytest.raises(Unavailable, match="Bring it back from a backup"):
        batch_tasks.remake_files(container.production, only_batch(container).id)
