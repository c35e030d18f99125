"""Everything that can still refuse a sound wish: what has to be fetched or laid out."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import Sender
from quillpost.core.errors import Invalid
from quillpost.core.ports import Fetcher, FileStore
from quillpost.orders import designs
from quillpost.orders.audience import Reach, may_repeat
from quillpost.orders.images import Art, Artwork, creative_key, whose
from quillpost.orders.images import gather as gather_anew
from quillpost.orders.models import Source, Wish
from quillpost.orders.request import Resolved
from quillpost.orders.validation import InkContrast, judge_ink
from quillpost.recipients.addresses.service import HALF_AN_ADDRESS, NO_ADDRESS, UNDELIVERABLE
from quillpost.recipients.leads.search import Find
from quillpost.recipients.rules import NO_PRICE, Person
from quillpost.rendering import models as rendering_models
from quillpost.rendering.images.models import SHARP_DPI, resolution_note, whole_dpi
from quillpost.rendering.layout.paragraphs import FIXED_SIZES
from quillpost.rendering.renderer import Studio
from quillpost.rendering.text.variables import holds_variable

Gather = Callable[[Fetcher, FileStore, Wish, Sequence[Person], rendering_models.Sender], Artwork]

BLANK = "The message is blank: nothing is written over the custom background."

EASY_TO_READ = FIXED_SIZES["medium"]
"""In points: what is written smaller was shrunk to fit."""

_LONGEST = " (with the longest values on the lists)"


@dataclass(frozen=True, slots=True)
class Draft:
    """A wish that will not be refused any more, with its pictures in hand and nothing stored.

    The design is without pictures, as they may differ from one recipient to the next. `lowest_dpi` is that
    of the softest of them, if any looks soft, and `lowest_contrast` that of the ink where it is hard to read.
    `found` are the people of its radius search, to be bought.
    `cards_left` is how many of its gift cards there are, where they are not made as they are wanted.
    `not_ready` is what its sender is told where live mail cannot be printed yet. No order keeps either: both
    may be mended before its review ends, which looks again.
    """

    wish: Wish
    people: list[Person]
    tariff: Tariff
    return_address: rendering_models.ReturnAddress
    artwork: Artwork
    design: rendering_models.Design
    creative_key: UUID
    warnings: list[str]
    lowest_dpi: int | None = None
    lowest_contrast: float | None = None
    found: Find | None = None
    cards_left: int | None = None
    not_ready: Sequence[str] = ()

    def reach(self, who: Caller, *, mails_at: datetime) -> Reach:
        """Whom it would reach, mailed then."""
        return Reach(
            account_id=who.account_id,
            sub_account_id=self.wish.sub_account_id,
            mode=who.mode,
            list_ids=self.wish.mailing_list_ids,
            creative_key=self.creative_key,
            allow_duplicates=may_repeat(self.wish.type, allow_duplicates=self.wish.allow_duplicates),
            mails_at=mails_at,
            tariff=self.tariff,
        )


def prepare(
    resolved: Resolved,
    wish: Wish,
    people: list[Person],
    *,
    who: Caller,
    studio: Studio,
    fetcher: Fetcher,
    store: FileStore,
    indicia: tuple[str, ...],
    gather: Gather = gather_anew,
) -> Draft:
    """Check all that depends on others; the network is asked last. No transaction is open meanwhile."""
    return_address = return_address_of(wish, resolved.sender)
    if not who.is_testing and return_address.address is None:
        raise Invalid(
            {"return_address": ["Live mail needs a return address: in the call or in the account."]}
        )
    _check_prices(people, resolved.tariff, wish)
    design = designs.design(
        wish,
        sender=rendering_models.Sender(resolved.sender.name, resolved.sender.company),
        return_address=return_address,
        indicia=indicia,
    )
    addressees = [designs.addressee(p, or_current_resident=wish.append_or_current_resident) for p in people]
    written = check_fit(
        studio,
        design,
        addressees,
        longest=resolved.longest,
        has_qr=wish.qrcode_url is not None,
        message_field=wish.message_field,
        may_be_blank=wish.background is not None,
    )
    artwork = gather(fetcher, store, wish, people, design.sender)
    ink = _ink(studio, design, artwork, wish)
    warnings = [
        *handwriting_warnings(studio, design, written),
        *ink.warnings,
        *_picture_warnings(studio, design, artwork.front, "front", wish.front),
        *_picture_warnings(studio, design, artwork.background, "background", wish.background),
        *_page_warnings(artwork, wish),
    ]
    key = creative_key(wish, artwork)
    softest = _lowest_dpi(studio, design, artwork)
    return Draft(
        wish,
        people,
        resolved.tariff,
        return_address,
        artwork,
        design,
        key,
        warnings,
        lowest_dpi=softest,
        lowest_contrast=ink.lowest,
    )


def return_address_of(wish: Wish, sender: Sender) -> rendering_models.ReturnAddress:
    """The call's own, whole, or else the sender's."""
    if wish.return_address.address is not None:
        return wish.return_address
    return rendering_models.ReturnAddress(
        name=wish.return_address.name or sender.return_name,
        address=sender.return_address,
        address2=sender.return_address2,
        city=sender.return_city,
        province=sender.return_province,
        postal_code=sender.return_postal_code,
    )


def _check_prices(people: list[Person], prices: Tariff, wish: Wish) -> None:
    faults: dict[str, list[str]] = {}
    for index, person in enumerate(people):
        if prices.unit_cents(person.country) is None:
            what = "standard mail" if wish.mail_class == "standard" else "this piece"
            hint = "use first class" if wish.mail_class == "standard" else "ask the operator"
            faults[f"recipients.{index}.country"] = [
                f"There is no price for {what} to {person.country}: {hint}."
            ]
    if wish.mailing_list_ids and not prices.by_country:
        faults["mailing_list_ids"] = ["There is no price for this piece: ask the operator."]
    if faults:
        raise Invalid(faults)


@dataclass(frozen=True, slots=True)
class Written:
    """A message as everyone reads it; `smallest` is the size of its smallest letters, in points."""

    wordings: list[str]
    smallest: float | None


def check_fit(
    studio: Studio,
    design: rendering_models.Design,
    addressees: Sequence[rendering_models.Addressee],
    *,
    longest: Sequence[Person],
    has_qr: bool,
    message_field: str = "message",
    may_be_blank: bool = False,
) -> Written:
    """Every recipient's own words must fit, and the longest that the lists hold; all those words.

    A message that says nothing to anyone passes where it `may_be_blank`; one that is blank for somebody alone
    lacks a value. Addresses of lists are looked at when they are composed, each by itself.
    """
    wordings = [] if design.pdf_only else studio.wordings(design, addressees)
    imagined = [] if design.pdf_only else studio.wordings(design, [designs.addressee(p) for p in longest])
    hand = studio.hands.hand(design.hand)
    is_left_blank = may_be_blank and not design.message.strip()
    for place, words in enumerate(wordings):
        if not is_left_blank and not hand.writes(words):
            raise Invalid({message_field: [f"The message is empty{_whose(design, place)}."]})
    found = studio.misfits(design, addressees, qr=has_qr, wordings=wordings)
    faults: dict[str, list[str]] = {}
    if found.sender:
        faults["return_address"] = [found.sender.message]
    for place, too_long in list(found.messages.items())[:1]:
        faults[message_field] = [too_long.message + _whose(design, place)]
    for place, too_long in found.addresses.items():
        faults[f"recipients.{place}.address"] = [too_long.message]
    sizes = [found.smallest]
    if imagined and message_field not in faults:
        of_lists = studio.misfits(design, [], qr=has_qr, wordings=imagined)
        sizes.append(of_lists.smallest)
        for too_long in list(of_lists.messages.values())[:1]:
            faults[message_field] = [too_long.message + _LONGEST]
    if faults:
        raise Invalid(faults)
    return Written(wordings + imagined, min((size for size in sizes if size is not None), default=None))


def _whose(design: rendering_models.Design, place: int) -> str:
    return f" (for recipient {place})" if holds_variable(design.message) else ""


def _picture_warnings(
    studio: Studio, design: rendering_models.Design, art: Art, kind: str, source: Source | None
) -> list[str]:
    """What became of pictures when they were made printable, and whether they will look soft; each once."""
    piece = studio.pieces[design.piece]
    field = _named(source, kind)
    found: dict[str, str] = {}
    for picture, place in art.distinct().items():
        told = [f"{field}: {note}" for note in picture.notes]
        for area in piece.art_areas(kind):
            soft = resolution_note(picture.width, picture.height, area, what=field, where=f"a {piece.title}")
            told += [soft] if soft else []
        for warning in told:
            found.setdefault(warning, whose(place))
    return [f"{warning} ({first})" if first else warning for warning, first in found.items()]


def _named(source: Source | None, kind: str) -> str:
    """What the caller would have to change."""
    if source is None:
        return kind
    return f"{source.field} ({source.part})" if source.part else source.field


def _ink(studio: Studio, design: rendering_models.Design, artwork: Artwork, wish: Wish) -> InkContrast:
    """How well the handwriting stands out from what lies under it."""
    piece = studio.pieces[design.piece]
    kind = piece.message_side.art
    art, source = (artwork.front, wish.front) if kind == "front" else (artwork.background, wish.background)
    pictures = art.distinct() if kind else {}
    field, has_qr = _named(source, "the picture"), wish.qrcode_url is not None
    return judge_ink(piece, design, pictures, field=field, has_qr=has_qr)


def _lowest_dpi(studio: Studio, design: rendering_models.Design, artwork: Artwork) -> int | None:
    """At how many dots an inch its softest picture prints; None where all of them are sharp."""
    piece = studio.pieces[design.piece]
    found = [
        whole_dpi(picture.width, picture.height, area)
        for kind, art in (("front", artwork.front), ("background", artwork.background))
        for picture in art.distinct()
        for area in piece.art_areas(kind)
    ]
    return min((dpi for dpi in found if dpi < SHARP_DPI), default=None)


def _page_warnings(artwork: Artwork, wish: Wish) -> list[str]:
    found = artwork.pages.notes if artwork.pages else ()
    told = [f"{wish.pages.field}: {note}" for note in found if wish.pages]
    if "message" in wish.unused:
        told.append("The PDF is the whole letter: the message is not printed.")
    if wish.pdf_left_out:
        told.append("The call's own message is the letter: the PDF of its template is not printed.")
    return told


def handwriting_warnings(studio: Studio, design: rendering_models.Design, written: Written) -> list[str]:
    """What of the message, with anyone's words in it, is not written as it was asked for."""
    if not written.wordings:
        return []
    if not design.message.strip():
        return [BLANK]
    hand = studio.hands.hand(design.hand)
    found = []
    letters = "".join(dict.fromkeys("".join(written.wordings)))
    borrowed, missing = hand.borrowed_letters(letters), hand.missing_letters(letters)
    if helped_out := [letter for letter in borrowed if letter not in missing]:
        found.append(f"The hand {hand.style.name} has no {_shown(helped_out)}: another face is used instead.")
    if missing:
        found.append(f"No face has {_shown(missing)}: it is spelt in Latin letters, or left out.")
    found += _shrunk(studio, design, written.smallest)
    if hand.style.kind != "AI" and (design.font_size != "auto" or not design.realism):
        found.append(
            f"The hand {hand.style.name} is of type {hand.style.kind}:"
            " font_size and handwriting_realism have no effect on it."
        )
    return found


def _shrunk(studio: Studio, design: rendering_models.Design, smallest: float | None) -> list[str]:
    sizes, _ = studio.handwriting_of(design)
    if smallest is None or smallest >= min(sizes.largest, EASY_TO_READ):
        return []
    return [
        f"The message was shrunk to fit: it is written at {smallest:g} points, smaller than medium"
        f" ({EASY_TO_READ:g}). Shorten it to have it larger."
    ]


def _shown(letters: list[str]) -> str:
    """Letters with their names, as some of them may not show on the reader's screen either."""
    named = [f"{letter} ({unicodedata.name(letter, 'unnamed').lower()})" for letter in letters[:5]]
    more = f" and {len(letters) - 5} more" if len(letters) > 5 else ""
    return ", ".join(named) + more


EMPTY = "The message is empty for this recipient."


def draft_for(
    resolved: Resolved,
    wish: Wish,
    people: Sequence[Person],
    *,
    who: Caller,
    studio: Studio,
    fetcher: Fetcher,
    store: FileStore,
    indicia: tuple[str, ...],
) -> Draft:
    """As `prepare` does it; those who cannot be mailed come last, each with the reason.

    Its pictures are the same for everyone: no place among the people matters to them.
    """

    def prepared(whom: list[Person]) -> Draft:
        return prepare(
            resolved,
            wish,
            whom,
            who=who,
            studio=studio,
            fetcher=fetcher,
            store=store,
            indicia=indicia,
        )

    judged = [replace(person, refusal=_unmailable(person, resolved.tariff)) for person in people]
    good, refused = _parted(judged)
    try:
        draft = prepared(good)
    except Invalid:
        # Only now is it worth asking whose words or address it is.
        good, misfits = _parted(_judged_by_fit(resolved, wish, good, studio, indicia))
        if not misfits:
            raise
        draft, refused = prepared(good), [*misfits, *refused]
    return replace(draft, people=[*good, *refused])


def _parted(people: Sequence[Person]) -> tuple[list[Person], list[Person]]:
    return [p for p in people if not p.refusal], [p for p in people if p.refusal]


def _unmailable(person: Person, tariff: Tariff) -> str | None:
    if person.address is None:
        return NO_ADDRESS
    if not person.can_be_mailed:
        return HALF_AN_ADDRESS
    if person.deliverability == UNDELIVERABLE:
        return person.reasons[0]
    return NO_PRICE.format(person.country) if tariff.unit_cents(person.country) is None else None


def _judged_by_fit(
    resolved: Resolved, wish: Wish, people: Sequence[Person], studio: Studio, indicia: tuple[str, ...]
) -> list[Person]:
    design = designs.design(
        wish,
        sender=rendering_models.Sender(resolved.sender.name, resolved.sender.company),
        return_address=return_address_of(wish, resolved.sender),
        indicia=indicia,
    )
    addressees = [designs.addressee(p, or_current_resident=wish.append_or_current_resident) for p in people]
    wordings = [] if design.pdf_only else studio.wordings(design, addressees)
    hand = studio.hands.hand(design.hand)
    found = studio.misfits(design, addressees, qr=wish.qrcode_url is not None, wordings=wordings, every=True)
    why = {place: too_long.message for place, too_long in found.addresses.items()}
    why |= {place: too_long.message for place, too_long in found.messages.items()}
    if wish.message.strip() or wish.background is None:
        why |= {place: EMPTY for place, words in enumerate(wordings) if not hand.writes(words)}
    return [replace(person, refusal=why.get(place)) for place, person in enumerate(people)]
