"""Pictures that callers name by address."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from quillpost.composition.art.image import MOST_BYTES, BadImage, check_image
from quillpost.kit.errors import Invalid, Unavailable
from quillpost.ports import Fetched, Fetcher, FetchFailed

FETCHES_AT_ONCE = 8
"""A slow host holds a thread: so few of them that the others stay free to answer."""

HEAVY_AT_ONCE = 2
"""Decoding and drawing take a lot of memory for a moment."""

PATIENCE_SECONDS = 10.0

_fetches = BoundedSemaphore(FETCHES_AT_ONCE)
_heavy = BoundedSemaphore(HEAVY_AT_ONCE)


def fetch_image(fetcher: Fetcher, url: str, *, field: str) -> Fetched:
    """The picture, known to be one; `Invalid` names the field and what is wrong."""
    try:
        with _turn(_fetches, "fetching images"):
            fetched = fetcher.fetch(url, most_bytes=MOST_BYTES)
    except FetchFailed as failed:
        raise Invalid({field: [f"The image could not be fetched: {failed}"]}) from None
    try:
        with heavy_work():
            facts = check_image(fetched.body)
    except BadImage as bad:
        raise Invalid({field: [f"The image cannot be printed: {bad}"]}) from None
    return Fetched(f"image/{facts.format.lower()}", fetched.body)


@contextmanager
def heavy_work() -> Iterator[None]:
    """A turn at what takes much memory: decoding a caller's picture, drawing a preview or a proof."""
    with _turn(_heavy, "drawing"):
        yield


@contextmanager
def _turn(places: BoundedSemaphore, what: str) -> Iterator[None]:
    if not places.acquire(timeout=PATIENCE_SECONDS):
        raise Unavailable(f"The service is busy {what}. Try again shortly.")
    try:
        yield
    finally:
        places.release()
