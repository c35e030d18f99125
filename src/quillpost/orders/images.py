"""The pictures and PDFs of a wish: one for everyone or, where a picture's address holds variables, one for
each recipient."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from quillpost.core.errors import Invalid
from quillpost.core.ports import Fetcher, FileStore
from quillpost.core.stored_files import ShelfFile
from quillpost.orders import designs
from quillpost.orders.models import Source, Wish
from quillpost.orders.templates.images import (
    FetchedPages,
    FetchedPicture,
    Wanted,
    fetch_images,
    fetch_pages,
    kept_pages,
    kept_picture,
)
from quillpost.recipients.rules import Person
from quillpost.rendering.models import Sender
from quillpost.rendering.text.variables import fill_url, holds_variable

A = TypeVar("A")
B = TypeVar("B")

FRONT, BACKGROUND = "front_image_url", "custom_background_image"
PAGES, PDF_ONLY = "additional_pages_url", "pdf_only_url"

Place = int | None
"""A recipient's place in the audience; None is everyone who has no picture of their own."""


@dataclass(frozen=True, slots=True)
class Art:
    """All pictures that one part of a wish names; `file`, it is one that lies on the shelf already."""

    by_place: Mapping[Place, FetchedPicture]
    file: ShelfFile | None = None

    def of(self, place: Place) -> FetchedPicture | None:
        return self.by_place.get(place, self.by_place.get(None))

    def distinct(self) -> dict[FetchedPicture, Place]:
        """Each picture once, with the first whom it is for."""
        found: dict[FetchedPicture, Place] = {}
        for place, picture in self.by_place.items():
            found.setdefault(picture, place)
        return found


NO_ART = Art({})


@dataclass(frozen=True, slots=True)
class Artwork:
    """Everything of a wish that was drawn elsewhere, in hand and printable."""

    front: Art = NO_ART
    background: Art = NO_ART
    logo: Art = NO_ART
    pages: FetchedPages | None = None
    pages_file: ShelfFile | None = None


FetchImages = Callable[[Fetcher, Sequence[Wanted]], list[FetchedPicture]]
FetchPages = Callable[[Fetcher, Wanted], FetchedPages]


def gather(
    fetcher: Fetcher,
    store: FileStore,
    wish: Wish,
    people: Sequence[Person],
    sender: Sender,
    *,
    images: FetchImages = fetch_images,
    papers: FetchPages = fetch_pages,
) -> Artwork:
    """Fetch what the wish names by address, every distinct one once, and read the rest from the shelf.
    Whoever shows a piece while it is still changed fetches in ways of their own, which remember."""
    named = {"front": wish.front, "background": wish.background, "logo": wish.logo}
    urls = {
        name: (source, filled_urls(source.url, wish, people, sender))
        for name, source in named.items()
        if source is not None and source.url is not None and source.file is None
    }
    wanted = [
        (name, Wanted(url, source.field, _told(source, place)))
        for name, (source, by_place) in urls.items()
        for url, place in first_places(by_place).items()
    ]
    pictures, pages = _both(
        lambda: images(fetcher, [one for _, one in wanted]),
        lambda: _pages(fetcher, store, wish.pages, papers),
    )
    found = {(name, one.url): picture for (name, one), picture in zip(wanted, pictures, strict=True)}
    art = {
        name: Art({place: found[name, url] for place, url in by_place.items()})
        for name, (_, by_place) in urls.items()
    }
    for name, source in named.items():
        if source is not None and source.file is not None:
            art[name] = Art({None: kept_picture(store, source.file.key)}, source.file)
    return Artwork(**art, pages=pages, pages_file=wish.pages.file if wish.pages else None)


def _both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What both find; or what is wrong with either, together."""
    try:
        found = first()
    except Invalid as wrong:
        try:
            second()
        except Invalid as wrong_too:
            raise Invalid(wrong.fields | wrong_too.fields) from None
        raise
    return found, second()


def _pages(
    fetcher: Fetcher, store: FileStore, source: Source | None, papers: FetchPages
) -> FetchedPages | None:
    if source is None:
        return None
    if source.file is not None:
        return kept_pages(store, source.file.key)
    assert source.url is not None
    return papers(fetcher, Wanted(source.url, source.field, source.part))


def creative_key(wish: Wish, artwork: Artwork) -> UUID:
    """Which creative it is, by its content: sent again in other ink it is still the same.

    Where each recipient has a picture of their own, the address that names them all stands for them.
    """

    def content(source: Source | None, art: Art) -> str | None:
        everyones = art.by_place.get(None)
        if everyones is not None:
            return art.file.digest if art.file else hashlib.sha256(everyones.body).hexdigest()
        return source.url if source else None

    pages, pages_file = artwork.pages, artwork.pages_file
    return key_of(
        wish.piece,
        wish.message,
        front=content(wish.front, artwork.front),
        background=content(wish.background, artwork.background),
        pages=pages_file.digest if pages_file else hashlib.sha256(pages.body).hexdigest() if pages else None,
    )


def key_of(piece: str, message: str, *, front: str | None, background: str | None, pages: str | None) -> UUID:
    """The key of a creative whose files are known by their digests, or by the addresses of many."""
    told = json.dumps([piece, message, front, background, pages])
    return UUID(bytes=hashlib.sha256(told.encode()).digest()[:16])


def filled_urls(url: str, wish: Wish, people: Sequence[Person], sender: Sender) -> dict[Place, str]:
    """The address for everyone, or with its variables filled for each whose piece will be seen.

    Those who cannot be mailed need no picture, except the one whom a preview is asked for.
    """
    if not holds_variable(url):
        return {None: url}
    shown = shown_place(wish, people)
    return {
        place: fill_url(url, designs.addressee(person), sender)
        for place, person in enumerate(people)
        if place == shown or not person.refusal
    }


def first_places(urls: Mapping[Place, str]) -> dict[str, Place]:
    """Each distinct address with the first whom it is for."""
    found: dict[str, Place] = {}
    for place, url in urls.items():
        found.setdefault(url, place)
    return found


def whose(place: Place) -> str:
    return "" if place is None else f"for recipient {place}"


def shown_place(wish: Wish, people: Sequence[Person]) -> Place:
    """Whose piece a preview shows: the recipient asked for, or the first who can be mailed.

    None: nobody of the call itself can be; the lists may hold someone.
    """
    if wish.preview_recipient is not None and people:
        return wish.preview_recipient
    first = next((place for place, person in enumerate(people) if not person.refusal), None)
    return first if first is not None or wish.mailing_list_ids or not people else 0


def _told(source: Source, place: Place) -> str:
    return ", ".join(part for part in (source.part, whose(place)) if part)
