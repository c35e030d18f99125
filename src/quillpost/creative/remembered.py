"""Pictures and PDFs of a piece that somebody is still changing: fetched once, and not for every key that is
pressed. Only previews remember; what is sent is fetched anew."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from quillpost.creative.images import FetchedPages, FetchedPicture, Wanted, fetch_images, fetch_pages
from quillpost.kit.errors import Invalid
from quillpost.kit.recent import Recent
from quillpost.ports.files import Fetcher

SECONDS: Final = 300.0
"""After which a picture is fetched anew: whoever changes it under the same address wants to see that."""
MOST_BYTES: Final = 48_000_000
FAULTY_SECONDS: Final = 15.0
"""For so long an address that gave nothing is not asked again."""

Thing = TypeVar("Thing", FetchedPicture, FetchedPages)


class Remembered:
    """What was fetched for previews lately. Nobody sees what was fetched for another account: whether an
    address answers may depend on who asks."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = monotonic) -> None:
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
