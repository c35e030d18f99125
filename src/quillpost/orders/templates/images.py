"""Images and PDFs that callers name by URL, and those of templates."""

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from threading import BoundedSemaphore
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.cache import Recent
from quillpost.core.clients import FairTurns
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.ports import Fetched, Fetcher, FetchFailed, FileStore
from quillpost.core.stored_files import Kept, Shelf
from quillpost.rendering.decoder.sandbox import limited_pages, limited_picture, limited_tones
from quillpost.rendering.images.limits import JPEG, MOST_BYTES, PDF, BadImage, BadPdf, megabytes
from quillpost.rendering.images.models import read_picture
from quillpost.rendering.images.tones import Tones

FETCHES_AT_ONCE = 8
"""A slow host holds a thread: so few of them that the others stay free to answer."""

FETCHES_FOR_ONE = 4
"""A call with many pictures leaves places to the others."""

HEAVY_AT_ONCE = 4
"""Decoding and drawing take a lot of memory for a moment."""

HEAVY_FOR_ONE = 2
"""An account whose pictures take long leaves places to the others."""

PATIENCE_SECONDS = 10.0

MOST_BYTES_TOGETHER = 200_000_000
"""All pictures of a call are in memory at once."""

MOST_SECONDS_TOGETHER = 60.0
"""A caller waits for the answer."""

MOST_BYTES_AT_HAND = 64_000_000
"""Templates are sent again and again, and their files never change."""

_fetches = BoundedSemaphore(FETCHES_AT_ONCE)
_heavy = FairTurns(HEAVY_AT_ONCE, HEAVY_FOR_ONE, PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class FetchedPicture(Fetched):
    """A picture that prints as it is; `width` and `height` are as seen, upright."""

    width: int
    height: int
    notes: tuple[str, ...] = ()


_recent_pictures: Recent[str, FetchedPicture] = Recent(
    most_bytes=MOST_BYTES_AT_HAND, size=lambda picture: len(picture.body)
)


@dataclass(frozen=True, slots=True)
class FetchedPages(Fetched):
    """A PDF of letter pages that print as they are."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A picture to fetch: the field of the call that names it, and whom it is for, if not for everyone."""

    url: str
    field: str
    whose: str = ""

    def refusal(self, why: str) -> Invalid:
        return Invalid({self.field: [f"{why} ({self.whose})" if self.whose else why]})


def fetch_images(
    fetcher: Fetcher,
    wanted: Sequence[Wanted],
    *,
    seconds: float = MOST_SECONDS_TOGETHER,
    most_bytes: int = MOST_BYTES_TOGETHER,
) -> list[FetchedPicture]:
    """All the pictures, made printable, in the order given; `Invalid` names all fields that are at fault."""
    if not wanted:
        return []
    ends = monotonic() + seconds
    size = 0
    pictures: list[FetchedPicture] = []
    faults: dict[str, list[str]] = {}
    # A field that is at fault is not asked for more; the others are, so that all faults are told at once.
    still_wanted = (one for one in wanted if one.field not in faults)
    with closing(_fetched_ahead(fetcher, still_wanted)) as fetched:
        for one, coming in fetched:
            try:
                pictures.append(_printable_picture(coming.result(), one.refusal))
            except Invalid as wrong:
                faults = {**wrong.fields, **faults}  # of each field the first
                continue
            size += len(pictures[-1].body)
            if size > most_bytes:
                raise Invalid({one.field: [f"The images take more than {megabytes(most_bytes)} together."]})
            if monotonic() > ends and len(pictures) < len(wanted):
                slow = (
                    f"Fetching the images takes longer than {seconds:g} seconds: use fewer or smaller ones."
                )
                raise Invalid({one.field: [slow]})
    if faults:
        raise Invalid(faults)
    return pictures


def uploaded_image(data: bytes, *, field: str) -> FetchedPicture:
    """A picture that came with the call, made printable; `Invalid` names the field and what is wrong."""
    return _printable_picture(data, lambda why: Invalid({field: [why]}))


def fetch_pages(fetcher: Fetcher, wanted: Wanted) -> FetchedPages:
    """The PDF's pages, made printable; `Invalid` names the field and what is wrong."""
    data = _fetch(fetcher, wanted, what="PDF")
    try:
        with heavy_work():
            made = limited_pages(data)
    except BadPdf as bad:
        raise wanted.refusal(f"The PDF cannot be printed: {bad}") from None
    return FetchedPages("application/pdf", made.data, made.notes)


def kept_picture(store: FileStore, key: str) -> FetchedPicture:
    """A picture on the shelf, as if it had just been fetched."""

    def read() -> FetchedPicture:
        data = store.get(key)
        width, height = read_picture(data).upright_size
        return FetchedPicture("image/jpeg" if data.startswith(JPEG) else "image/png", data, width, height)

    return _recent_pictures.get(key, read)


def kept_pages(store: FileStore, key: str) -> FetchedPages:
    """The same for a PDF."""
    return FetchedPages("application/pdf", store.get(key))


def kept_files(store: FileStore, keys: Mapping[UUID, str]) -> Callable[[UUID | None], bytes | None]:
    """Reads pictures and pages of orders by their file, each once, and gives them in printable form."""

    @cache
    def read(file_id: UUID | None) -> bytes | None:
        return None if file_id is None else _printable(store.get(keys[file_id]))

    return read


@contextmanager
def heavy_work() -> Iterator[None]:
    """A turn at what takes much memory: decoding a caller's picture, drawing a preview or a proof."""
    with _heavy.turn("The service is busy drawing. Try again shortly."):
        yield


def _fetched_ahead(
    fetcher: Fetcher, wanted: Iterable[Wanted]
) -> Generator[tuple[Wanted, Future[bytes]], None, None]:
    """Each with its bytes, in order, while a few more are on their way."""
    with ThreadPoolExecutor(FETCHES_FOR_ONE, thread_name_prefix="pictures") as pool:
        waiting: deque[tuple[Wanted, Future[bytes]]] = deque()
        for one in wanted:
            waiting.append((one, pool.submit(_fetch, fetcher, one, what="image")))
            if len(waiting) == FETCHES_FOR_ONE:
                yield waiting.popleft()
        yield from waiting


def _fetch(fetcher: Fetcher, wanted: Wanted, *, what: str) -> bytes:
    try:
        with _turn(_fetches, "fetching images"):
            return fetcher.fetch(wanted.url, most_bytes=MOST_BYTES).body
    except FetchFailed as failed:
        raise wanted.refusal(f"The {what} could not be fetched: {failed}") from None


def _printable_picture(data: bytes, refusal: Callable[[str], Invalid]) -> FetchedPicture:
    try:
        with heavy_work():
            made = limited_picture(data)
    except BadImage as bad:
        raise refusal(f"The image cannot be printed: {bad}") from None
    return FetchedPicture(made.content_type, made.data, made.width, made.height, made.notes)


def _printable(data: bytes) -> bytes:
    """A kept picture in printable form: orders of earlier releases keep theirs as it came.

    What cannot be made printable stays as it is: whoever draws it finds out, and knows whose it is.
    """
    if data.startswith(PDF):
        return data  # pages were made printable when they came, always
    try:
        read_picture(data)
    except BadImage:
        try:
            with heavy_work():
                return limited_picture(data).data
        except BadImage:
            return data
    return data


@contextmanager
def _turn(places: BoundedSemaphore, what: str) -> Iterator[None]:
    if not places.acquire(timeout=PATIENCE_SECONDS):
        raise Unavailable(f"The service is busy {what}. Try again shortly.")
    try:
        yield
    finally:
        places.release()


@dataclass(frozen=True, slots=True)
class KeptImage:
    """An image on the shelf; where it is `new`, it still waits for its row."""

    id: UUID
    home: Tenant
    new: Kept | None = None


def keep_image(db: Database, shelf: Shelf, home: Tenant, image: Fetched, *, now: datetime) -> KeptImage:
    """Put the image away before the transaction opens; one that is there already is not kept again."""
    with db.transaction(home) as tx:
        known = shelf.find(tx, [image.body], purpose="creative").get(image.body)
    if known is not None:
        return KeptImage(known, home)
    kept = shelf.put(image.body, purpose="creative", content_type=image.content_type, now=now)
    return KeptImage(kept.id, home, kept)


def record_image(tx: Tx, shelf: Shelf, image: KeptImage, *, now: datetime) -> None:
    """Say whose it is, unless that is known."""
    if image.new is not None:
        home = image.home
        shelf.record(tx, image.new, account_id=home.account_id, sub_account_id=home.sub_account_id, now=now)


def read_image(db: Database, shelf: Shelf, home: Tenant, file_id: UUID) -> Fetched:
    """An image as it lies on the shelf."""
    with db.transaction(home) as tx:
        row = tx.execute(sa.select(files.c.key, files.c.content_type).where(files.c.id == file_id)).one()
    return Fetched(row.content_type, shelf.store.get(row.key))


MOST_KEPT = 1_000

_recent: Recent[bytes, Tones | None] = Recent(most_bytes=MOST_KEPT, size=lambda _: 1)


def tones_of(picture: FetchedPicture) -> Tones | None:
    """None where they cannot be told: nothing is refused for that."""

    def measure() -> Tones | None:
        try:
            with heavy_work():
                return limited_tones(picture.body, picture.width, picture.height)
        except BadImage:
            return None

    return _recent.get(hashlib.sha256(picture.body).digest(), measure)


SECONDS: Final = 300.0
"""After which a picture is fetched anew: whoever changes it under the same address wants to see that."""
MOST_CACHED_BYTES: Final = 48_000_000
FAULTY_SECONDS: Final = 15.0
"""For so long an address that gave nothing is not asked again."""

Thing = TypeVar("Thing", FetchedPicture, FetchedPages)


class Remembered:
    """What was fetched for previews lately. Nobody sees what was fetched for another account: whether an
    address answers may depend on who asks."""

    def __init__(
        self, *, most_bytes: int = MOST_CACHED_BYTES, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock = clock
        self._pictures: Recent[Hashable, FetchedPicture] = Recent(most_bytes=most_bytes, size=_size)
        self._pages: Recent[Hashable, FetchedPages] = Recent(most_bytes=most_bytes, size=_size)
        self._faults: Recent[Hashable, Invalid] = Recent(most_bytes=1_000, size=lambda _: 1)

    def images(self, account_id: int, fetcher: Fetcher, wanted: Sequence[Wanted]) -> list[FetchedPicture]:
        """As `fetch_images`."""
        return [
            self._found(self._pictures, account_id, one, partial(_picture, fetcher, one)) for one in wanted
        ]

    def pages(self, account_id: int, fetcher: Fetcher, wanted: Wanted) -> FetchedPages:
        """As `fetch_pages`."""
        return self._found(self._pages, account_id, wanted, lambda: fetch_pages(fetcher, wanted))

    def _found(
        self, kept: Recent[Hashable, Thing], account_id: int, wanted: Wanted, fetch: Callable[[], Thing]
    ) -> Thing:
        now = self._clock()
        faulty = account_id, wanted, int(now // FAULTY_SECONDS)

        def told() -> Thing:
            try:
                return fetch()
            except Invalid as wrong:
                self._faults.get(faulty, partial(Invalid, wrong.fields))
                raise

        if known := self._faults.peek(faulty):
            raise Invalid(known.fields)
        return kept.get((account_id, wanted.url, int(now // SECONDS)), told)


def _picture(fetcher: Fetcher, wanted: Wanted) -> FetchedPicture:
    [found] = fetch_images(fetcher, [wanted])
    return found


def _size(thing: FetchedPicture | FetchedPages) -> int:
    return len(thing.body)
