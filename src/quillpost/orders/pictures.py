"""The pictures of a wish: one for everyone or, where its address holds variables, one for each recipient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quillpost.audience.rules import Person
from quillpost.composition.content import Sender
from quillpost.composition.words.variables import fill_url, holds_variable
from quillpost.creative.images import FetchedPicture, Wanted, fetch_images
from quillpost.orders import look
from quillpost.orders.rules import Wish
from quillpost.ports import Fetcher

FRONT, BACKGROUND = "front_image_url", "custom_background_image"

Place = int | None
"""A recipient's place in the audience; None is everyone who has no picture of their own."""


@dataclass(frozen=True, slots=True)
class Art:
    """All pictures that one field of a wish names."""

    by_place: Mapping[Place, FetchedPicture]

    def of(self, place: int) -> FetchedPicture | None:
        return self.by_place.get(place, self.by_place.get(None))

    def distinct(self) -> dict[FetchedPicture, Place]:
        """Each picture once, with the first whom it is for."""
        found: dict[FetchedPicture, Place] = {}
        for place, picture in self.by_place.items():
            found.setdefault(picture, place)
        return found


def fetch_art(fetcher: Fetcher, wish: Wish, people: Sequence[Person], sender: Sender) -> tuple[Art, Art]:
    """Front and background: every distinct address of each is fetched once."""
    urls = {
        field: filled_urls(url, wish, people, sender)
        for field, url in ((FRONT, wish.front_image_url), (BACKGROUND, wish.background_url))
        if url is not None
    }
    wanted = [
        Wanted(url, field, whose(place))
        for field, by_place in urls.items()
        for url, place in first_places(by_place).items()
    ]
    pictures = fetch_images(fetcher, wanted)
    found = {(one.field, one.url): picture for one, picture in zip(wanted, pictures, strict=True)}
    front, background = (
        Art({place: found[field, url] for place, url in urls.get(field, {}).items()})
        for field in (FRONT, BACKGROUND)
    )
    return front, background


def filled_urls(url: str, wish: Wish, people: Sequence[Person], sender: Sender) -> dict[Place, str]:
    """The address for everyone, or with its variables filled for each whose piece will be seen.

    Those who cannot be mailed need no picture, except the one whom a preview is asked for.
    """
    if not holds_variable(url):
        return {None: url}
    shown = shown_place(wish, people)
    return {
        place: fill_url(url, look.addressee(person), sender)
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


def shown_place(wish: Wish, people: Sequence[Person]) -> int:
    """Whose piece a preview shows: the recipient asked for, or the first who can be mailed."""
    if wish.preview_recipient is not None:
        return wish.preview_recipient
    return next((place for place, person in enumerate(people) if not person.refusal), 0)
