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

from quillpost.core.cache import SharedCache
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import files
from quillpost.core.errors import Invalid, Unavailable, add_note
from quillpost.core.files import FileStorage, PendingFile
from quillpost.core.ports import FetchedDocument, Fetcher, FetchFailed, FileStore
from quillpost.core.requests import FairQueue
from quillpost.rendering.decoder.service import (
    make_printable_pages_in_sandbox,
    make_printable_picture_in_sandbox,
    measure_tones_in_sandbox,
)
from quillpost.rendering.images.models import PictureTones, read_picture
from quillpost.rendering.images.rules import (
    JPEG_SIGNATURE,
    MAX_FILE_BYTES,
    UnprintableImage,
    UnprintablePdf,
    format_megabytes,
)

MAX_FETCHES = 8
"""A slow host holds a thread; the others stay free."""

MAX_FETCHES_PER_CALL = 4
"""Leaves slots to other calls."""

MAX_HEAVY_WORK = 4
"""Decoding and drawing take much memory."""

MAX_HEAVY_WORK_PER_ACCOUNT = 2
"""Leaves slots to other accounts."""

QUEUE_TIMEOUT_SECONDS = 10.0

MAX_TOTAL_BYTES = 200_000_000
"""All pictures of a call are in memory at once."""

MAX_TOTAL_SECONDS = 60.0
"""A caller waits for the answer."""

MAX_CACHED_PICTURE_BYTES = 64_000_000
"""Templates are sent again and again, and their files never change."""

_fetch_slots = BoundedSemaphore(MAX_FETCHES)
_heavy_work_queue = FairQueue(MAX_HEAVY_WORK, MAX_HEAVY_WORK_PER_ACCOUNT, QUEUE_TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True)
class FetchedPicture(FetchedDocument):
    """A printable picture; `width` and `height` are upright."""

    width: int
    height: int
    notes: tuple[str, ...] = ()


_picture_cache: SharedCache[str, FetchedPicture] = SharedCache(
    max_size=MAX_CACHED_PICTURE_BYTES, size_of=lambda picture: len(picture.body)
)


@dataclass(frozen=True, slots=True)
class FetchedPages(FetchedDocument):
    """A printable PDF of letter pages."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileToFetch:
    """`field` names it in the call; `recipient_note` says whom it is for, if not for everyone."""

    url: str
    field: str
    recipient_note: str = ""

    def build_error(self, reason: str) -> Invalid:
        return Invalid({self.field: [add_note(reason, self.recipient_note)]})


def fetch_images(
    fetcher: Fetcher,
    files_to_fetch: Sequence[FileToFetch],
    *,
    max_seconds: float = MAX_TOTAL_SECONDS,
    max_bytes: int = MAX_TOTAL_BYTES,
) -> list[FetchedPicture]:
    """Printable pictures in the given order; `Invalid` names all wrong fields."""
    if not files_to_fetch:
        return []
    deadline = monotonic() + max_seconds
    size = 0
    pictures: list[FetchedPicture] = []
    errors: dict[str, list[str]] = {}
    # Nothing more is fetched for a field with an error; the others go on, so that all errors are found at once.
    remaining_files = (file for file in files_to_fetch if file.field not in errors)
    with closing(_fetch_ahead(fetcher, remaining_files)) as fetched:
        for file, pending_body in fetched:
            try:
                pictures.append(_make_printable_picture(pending_body.result(), file.build_error))
            except Invalid as invalid:
                errors = {**invalid.fields, **errors}  # of each field the first
                continue
            size += len(pictures[-1].body)
            if size > max_bytes:
                raise Invalid({file.field: [f"The images take more than {format_megabytes(max_bytes)} together."]})
            if monotonic() > deadline and len(pictures) < len(files_to_fetch):
                timeout_message = (
                    f"Fetching the images takes longer than {max_seconds:g} seconds: use fewer or smaller ones."
                )
                raise Invalid({file.field: [timeout_message]})
    if errors:
        raise Invalid(errors)
    return pictures


def read_uploaded_image(data: bytes, *, field: str) -> FetchedPicture:
    return _make_printable_picture(data, lambda why: Invalid({field: [why]}))


def fetch_pages(fetcher: Fetcher, file_to_fetch: FileToFetch) -> FetchedPages:
    """The printable PDF; `Invalid` names the field."""
    data = _fetch(fetcher, file_to_fetch, file_kind="PDF")
    try:
        with limit_heavy_work():
            printable_pages = make_printable_pages_in_sandbox(data)
    except UnprintablePdf as bad_pdf:
        raise file_to_fetch.build_error(f"The PDF cannot be printed: {bad_pdf}") from None
    return FetchedPages("application/pdf", printable_pages.data, printable_pages.notes)


def load_picture(store: FileStore, key: str) -> FetchedPicture:
    """A stored picture, as if it had just been fetched."""

    def read() -> FetchedPicture:
        data = store.get(key)
        width, height = read_picture(data).upright_size
        return FetchedPicture("image/jpeg" if data.startswith(JPEG_SIGNATURE) else "image/png", data, width, height)

    return _picture_cache.get(key, read)


def load_pages(store: FileStore, key: str) -> FetchedPages:
    return FetchedPages("application/pdf", store.get(key))


def file_reader(store: FileStore, keys: Mapping[UUID, str]) -> Callable[[UUID | None], bytes | None]:
    """Reads stored files of orders by id, each once."""

    @cache
    def read(file_id: UUID | None) -> bytes | None:
        return None if file_id is None else store.get(keys[file_id])

    return read


@contextmanager
def limit_heavy_work() -> Iterator[None]:
    """A slot for work that takes much memory."""
    with _heavy_work_queue.slot("The service is busy drawing. Try again shortly."):
        yield


def _fetch_ahead(
    fetcher: Fetcher, files_to_fetch: Iterable[FileToFetch]
) -> Generator[tuple[FileToFetch, Future[bytes]], None, None]:
    """Each with its bytes, in order, while a few more are being fetched."""
    with ThreadPoolExecutor(MAX_FETCHES_PER_CALL, thread_name_prefix="pictures") as pool:
        pending_fetches: deque[tuple[FileToFetch, Future[bytes]]] = deque()
        for file in files_to_fetch:
            pending_fetches.append((file, pool.submit(_fetch, fetcher, file, file_kind="image")))
            if len(pending_fetches) == MAX_FETCHES_PER_CALL:
                yield pending_fetches.popleft()
        yield from pending_fetches


def _fetch(fetcher: Fetcher, file_to_fetch: FileToFetch, *, file_kind: str) -> bytes:
    try:
        with _acquire_slot(_fetch_slots, "fetching images"):
            return fetcher.fetch(file_to_fetch.url, max_bytes=MAX_FILE_BYTES).body
    except FetchFailed as failure:
        raise file_to_fetch.build_error(f"The {file_kind} could not be fetched: {failure}") from None


def _make_printable_picture(data: bytes, build_error: Callable[[str], Invalid]) -> FetchedPicture:
    try:
        with limit_heavy_work():
            printable_picture = make_printable_picture_in_sandbox(data)
    except UnprintableImage as bad_image:
        raise build_error(f"The image cannot be printed: {bad_image}") from None
    return FetchedPicture(
        printable_picture.content_type,
        printable_picture.data,
        printable_picture.width,
        printable_picture.height,
        printable_picture.notes,
    )


@contextmanager
def _acquire_slot(slots: BoundedSemaphore, activity: str) -> Iterator[None]:
    if not slots.acquire(timeout=QUEUE_TIMEOUT_SECONDS):
        raise Unavailable(f"The service is busy {activity}. Try again shortly.")
    try:
        yield
    finally:
        slots.release()


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A stored image; `pending_file` has no row yet."""

    id: UUID
    tenant: Tenant
    pending_file: PendingFile | None = None


def store_image(
    db: Database, storage: FileStorage, tenant: Tenant, image: FetchedDocument, *, now: datetime
) -> ImageFile:
    """Store the image before the transaction opens; an existing one is reused."""
    with db.transaction(tenant) as tx:
        existing_id = storage.find_by_content(tx, [image.body], purpose="creative").get(image.body)
    if existing_id is not None:
        return ImageFile(existing_id, tenant)
    pending_file = storage.put(image.body, purpose="creative", content_type=image.content_type, now=now)
    return ImageFile(pending_file.id, tenant, pending_file)


def record_image(tx: Tx, storage: FileStorage, image: ImageFile, *, now: datetime) -> None:
    """Insert the row of a pending file."""
    if image.pending_file is not None:
        tenant = image.tenant
        storage.record_file(
            tx, image.pending_file, account_id=tenant.account_id, sub_account_id=tenant.sub_account_id, now=now
        )


def read_image(db: Database, storage: FileStorage, tenant: Tenant, file_id: UUID) -> FetchedDocument:
    """An image as it is stored."""
    with db.transaction(tenant) as tx:
        row = tx.execute(sa.select(files.c.key, files.c.content_type).where(files.c.id == file_id)).one()
    return FetchedDocument(row.content_type, storage.store.get(row.key))


_tones_cache: SharedCache[bytes, PictureTones | None] = SharedCache(max_size=1_000)


def measure_tones(picture: FetchedPicture) -> PictureTones | None:
    """None where they cannot be measured."""

    def measure() -> PictureTones | None:
        try:
            with limit_heavy_work():
                return measure_tones_in_sandbox(picture.body, picture.width, picture.height)
        except UnprintableImage:
            return None

    return _tones_cache.get(hashlib.sha256(picture.body).digest(), measure)


PREVIEW_CACHE_SECONDS: Final = 300.0
"""Then a picture is fetched again, as it may have changed."""
MAX_PREVIEW_CACHE_BYTES: Final = 48_000_000
FAILED_FETCH_SECONDS: Final = 15.0
"""A URL that failed is not tried again for so long."""

FetchedFile = TypeVar("FetchedFile", FetchedPicture, FetchedPages)


class PreviewFetchCache:
    """Recent fetches for previews, by account: a host may answer accounts differently."""

    def __init__(self, *, max_bytes: int = MAX_PREVIEW_CACHE_BYTES, clock: Callable[[], float] = monotonic) -> None:
        self._pictures: SharedCache[Hashable, FetchedPicture] = SharedCache(
            max_size=max_bytes, size_of=_body_size, seconds=PREVIEW_CACHE_SECONDS, clock=clock
        )
        self._pages: SharedCache[Hashable, FetchedPages] = SharedCache(
            max_size=max_bytes, size_of=_body_size, seconds=PREVIEW_CACHE_SECONDS, clock=clock
        )
        self._failures: SharedCache[Hashable, Invalid] = SharedCache(
            max_size=1_000, seconds=FAILED_FETCH_SECONDS, clock=clock
        )

    def fetch_images(
        self, account_id: int, fetcher: Fetcher, files_to_fetch: Sequence[FileToFetch]
    ) -> list[FetchedPicture]:
        return [
            self._fetch_cached(self._pictures, account_id, file, partial(_fetch_picture, fetcher, file))
            for file in files_to_fetch
        ]

    def fetch_pages(self, account_id: int, fetcher: Fetcher, file_to_fetch: FileToFetch) -> FetchedPages:
        return self._fetch_cached(self._pages, account_id, file_to_fetch, lambda: fetch_pages(fetcher, file_to_fetch))

    def _fetch_cached(
        self,
        fetch_cache: SharedCache[Hashable, FetchedFile],
        account_id: int,
        file_to_fetch: FileToFetch,
        fetch: Callable[[], FetchedFile],
    ) -> FetchedFile:
        failure_key = account_id, file_to_fetch
        if cached_failure := self._failures.peek(failure_key):
            raise Invalid(cached_failure.fields)
        try:
            return fetch_cache.get((account_id, file_to_fetch.url), fetch)
        except Invalid as invalid:
            self._failures.put(failure_key, Invalid(invalid.fields))
            raise


def _fetch_picture(fetcher: Fetcher, file_to_fetch: FileToFetch) -> FetchedPicture:
    [picture] = fetch_images(fetcher, [file_to_fetch])
    return picture


def _body_size(fetched_file: FetchedPicture | FetchedPages) -> int:
    return len(fetched_file.body)
