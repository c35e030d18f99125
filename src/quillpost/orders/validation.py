"""Everything that can be wrong with a request by itself, found all at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quillpost.core.database import Tx
from quillpost.core.errors import Invalid
from quillpost.orders import images
from quillpost.orders.giftcards import brands
from quillpost.orders.giftcards.rules import (
    Brand,
    amounts_of,
    choices_of,
    find_offered,
    no_such_brand,
    wrong_amount,
)
from quillpost.orders.images import Place, whose
from quillpost.orders.models import Gift, Source, Wish
from quillpost.orders.products import GIFTCARD
from quillpost.orders.requests import Call, Faults
from quillpost.orders.templates.images import FetchedPicture, tones_of
from quillpost.orders.templates.rules import (
    LONGEST_URL,
    SOMEONE,
    CheckUrl,
    wrong_style,
    wrong_variables,
    wrong_variables_of_url,
)
from quillpost.orders.templates.service import MessageTemplate
from quillpost.recipients.rules import Person, examine
from quillpost.rendering.handwriting.catalog import Style
from quillpost.rendering.images.tones import Tones
from quillpost.rendering.layout.contrast import READABLE, WHITE, contrast, contrast_over
from quillpost.rendering.layout.products import Piece, Side
from quillpost.rendering.models import Design, parse_colour
from quillpost.rendering.text.variables import holds_variable

MOST_OWN_PICTURES = 50


def examine_wish(
    wish: Wish,
    *,
    styles: Mapping[int, Style],
    check_url: CheckUrl,
    known_faults: Mapping[str, Sequence[str]],
) -> tuple[Wish, list[Person]]:
    """The wish in its final form and its people; or `Invalid` with what was known and all that is found."""
    faults = {field: list(found) for field, found in known_faults.items()}
    _check_variables(wish, faults)
    if unknown := wrong_style(wish.style, styles):
        faults["handwriting_style"] = [unknown]
    colour = _colour(wish.handwriting_color, faults)
    people: list[Person] = []
    try:
        people = examine(wish.recipients)
    except Invalid as wrong:
        faults |= wrong.fields
    _check_urls(wish, people, check_url, faults)
    if faults:
        raise Invalid(faults)
    return replace(wish, handwriting_color=colour), people


def _sources(wish: Wish) -> Iterator[tuple[Source, str, bool]]:
    """What the wish names by address: with the address, and whether it is a picture."""
    for source, is_picture in (
        (wish.front, True),
        (wish.background, True),
        (wish.logo, False),
        (wish.pages, False),
        (wish.code, False),
        (wish.landing, False),
    ):
        if source is not None and source.url is not None and source.file is None:
            yield source, source.url, is_picture


def _check_urls(wish: Wish, people: Sequence[Person], check_url: CheckUrl, faults: Faults) -> None:
    """Each URL as it will be used. Where people are at fault, what would be filled with their words waits."""
    for source, url, is_picture in _sources(wish):
        wrong = _wrong_url(url, wish, people, check_url, is_picture=is_picture)
        if wrong is None and holds_variable(url) and source != wish.code:
            wrong = _not_for_everyone(wish, is_picture=is_picture)
        if wrong is not None:
            _blame(source, wrong, faults)


def _wrong_url(
    url: str, wish: Wish, people: Sequence[Person], check_url: CheckUrl, *, is_picture: bool
) -> str | None:
    if not holds_variable(url):
        return check_url(url)
    if len(url) > LONGEST_URL:
        return f"The URL is longer than {LONGEST_URL} characters."
    filled = images.first_places(images.filled_urls(url, wish, people, SOMEONE))
    for own, place in filled.items():
        wrong = check_url(own)
        if wrong is not None:
            return f"{wrong} ({images.whose(place)})"
    if is_picture and len(filled) > MOST_OWN_PICTURES:
        return f"The URL names {len(filled):,} different pictures: at most {MOST_OWN_PICTURES} in one call."
    return None


def _not_for_everyone(wish: Wish, *, is_picture: bool) -> str | None:
    """What a recipient of their own may have is a picture, and it is fetched while the caller waits."""
    if not is_picture:
        return "It is the same for everyone: its URL takes no variables."
    if wish.radius is not None:
        return "With a radius_search the picture is the same for everyone: its URL takes no variables."
    if wish.mailing_list_ids:
        return "With mailing_list_ids the picture is the same for everyone: its URL takes no variables."
    return None


def _check_variables(wish: Wish, faults: Faults) -> None:
    found = [(Source(wish.message_field), wrong_variables(wish.message))]
    found += [(source, wrong_variables_of_url(url)) for source, url, _ in _sources(wish)]
    for source, wrong in found:
        if wrong is not None:
            _blame(source, wrong, faults)


def _blame(source: Source, wrong: str, faults: Faults) -> None:
    told = f"{wrong} ({source.part})" if source.part else wrong
    faults.setdefault(source.field, []).append(told)


def _colour(text: str, faults: Faults) -> str:
    try:
        return parse_colour(text).rgba_text
    except ValueError as unknown:
        faults["handwriting_color"] = [str(unknown)]
        return text


HARD_TO_READ = "The handwriting_color is hard to read"

Measure = Callable[[FetchedPicture], Tones | None]


@dataclass(frozen=True, slots=True)
class InkContrast:
    """`lowest` is that of the words that stand out least, where some are hard to read, from 1, not at all, to
    21, black on white."""

    lowest: float | None
    warnings: list[str]


def judge_ink(
    piece: Piece,
    design: Design,
    pictures: Mapping[FetchedPicture, Place],
    *,
    field: str,
    has_qr: bool,
    measure: Measure = tones_of,
) -> InkContrast:
    """How well everything in the hand stands out; `pictures` lie under the message, by `field` of the call.

    Of a message that is blank nothing is told, and yet its place is looked at: words may come later.
    """
    inside: list[tuple[float, str]] = []
    outside: list[tuple[float, str]] = []
    on_white = contrast(design.ink, WHITE), "on white paper: choose a darker color."
    if not design.pdf_only and pictures:
        inside = _on_pictures(piece.message_side, design, pictures, field, has_qr, measure)
    elif not design.pdf_only:
        inside = [on_white]
    if piece.envelope is not None and piece.envelope.handwritten:
        outside = [on_white]
    read = [*(inside if design.message.strip() else ()), *outside]
    told = [
        f"{HARD_TO_READ} {where} Its contrast is {value:.1f} to 1; {READABLE:g} to 1 reads well."
        for value, where in dict.fromkeys(read)
        if value < READABLE
    ]
    lowest = min(value for value, _ in [*inside, *outside, (READABLE, "")])
    return InkContrast(lowest if lowest < READABLE else None, told)


def _on_pictures(
    side: Side,
    design: Design,
    pictures: Mapping[FetchedPicture, Place],
    field: str,
    has_qr: bool,
    measure: Measure,
) -> list[tuple[float, str]]:
    area, box = side.art_area, side.message_box(qr=has_qr)
    if area is None or box is None:
        return []
    worst: tuple[float, str] | None = None
    for picture, place in pictures.items():
        tones = measure(picture)
        if tones is None:
            continue
        value = contrast_over(design.ink, tones, area, box)
        of_whom = f" ({whose(place)})" if place is not None else ""
        if worst is None or value < worst[0]:
            worst = (value, f"on {field}{of_whom}: choose another color or another picture.")
    return [worst] if worst else []


BRAND, AMOUNT, LANDING, MESSAGE_TEMPLATE = (
    "giftcard_brand", "giftcard_amount", "landing_page_url", "message_template",
)  # fmt: skip


def gift_of(tx: Tx, call: Call, words: MessageTemplate | None, faults: Faults) -> Gift | None:
    """The card as the catalogue has it; whatever is wrong with the choice is one more fault."""
    if call.piece != GIFTCARD:
        return None
    offered = brands.offered(tx)
    brand, cents = _brand(call, words, offered, faults), _amount(call, words)
    if cents is None:
        told = f"Say what each card is worth, in cents. {amounts_of(brand) if brand else ''}".strip()
        faults.setdefault(AMOUNT, []).append(told)
    if brand is None or cents is None:
        return None
    if wrong := wrong_amount(cents, brand):
        is_own = call.giftcard_amount is not None
        _blame_giftcard(AMOUNT if is_own else MESSAGE_TEMPLATE, wrong, "" if is_own else AMOUNT, faults)
    landing = landing_of(call, words)
    return Gift(brand.code, brand.title, brand.accent, cents, landing.url if landing else None)


def landing_of(call: Call, words: MessageTemplate | None) -> Source | None:
    """Which page whoever has the piece must visit before they redeem its card."""
    if call.piece != GIFTCARD:
        return None
    if call.landing_page_url:
        return Source(LANDING, call.landing_page_url)
    if words is not None and words.landing_page_url:
        return Source(MESSAGE_TEMPLATE, words.landing_page_url, part=f"its {LANDING}")
    return None


def faults_of(tx: Tx, gift: Gift) -> Faults:
    """What the catalogue, as it is now, has against a card that was chosen before."""
    offered = brands.offered(tx)
    brand = find_offered(gift.brand, offered)
    if brand is None:
        return {BRAND: [no_such_brand(gift.brand, offered)]}
    wrong = wrong_amount(gift.cents, brand)
    return {AMOUNT: [wrong]} if wrong else {}


def _brand(call: Call, words: MessageTemplate | None, offered: list[Brand], faults: Faults) -> Brand | None:
    saved = words.giftcard_brand_code if words is not None else None
    code = call.giftcard_brand or saved
    if code is None:
        faults.setdefault(BRAND, []).append(f"Say whose card it is. {choices_of(offered)}")
        return None
    found = find_offered(code, offered)
    if found is None and call.giftcard_brand:
        _blame_giftcard(BRAND, no_such_brand(code, offered), "", faults)
    elif found is None:
        _blame_giftcard(MESSAGE_TEMPLATE, no_such_brand(code, offered), "giftcard_brand_code", faults)
    return found


def _amount(call: Call, words: MessageTemplate | None) -> int | None:
    if call.giftcard_amount is not None:
        return call.giftcard_amount
    return words.giftcard_amount if words is not None else None


def _blame_giftcard(field: str, wrong: str, part: str, faults: Faults) -> None:
    """Name the field that the caller can change, and which part of it where it is a reference."""
    faults.setdefault(field, []).append(f"{wrong} (its {part})" if part else wrong)
