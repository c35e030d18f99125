"""Everything that can refuse a sound wish: what has to be looked up, fetched or laid out."""

import secrets
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime

from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Caller
from quillpost.audience.rules import Person
from quillpost.composition import content
from quillpost.composition.art.resolution import resolution_note
from quillpost.composition.studio import Studio
from quillpost.composition.words.variables import holds_variable
from quillpost.database import Database, Tx
from quillpost.kit.errors import Invalid
from quillpost.kit.tokens import short_code
from quillpost.orders import look
from quillpost.orders.pictures import BACKGROUND, FRONT, Art, fetch_art, whose
from quillpost.orders.rules import Wish
from quillpost.ports import Fetcher
from quillpost.pricing.rules import Tariff
from quillpost.pricing.store import tariff_on

_FAINT = 0.8


@dataclass(frozen=True, slots=True)
class Draft:
    """A wish that will not be refused any more, with its pictures in hand and nothing stored.

    The design is without pictures, as they may differ from one recipient to the next.
    """

    wish: Wish
    people: list[tuple[Person, int, str | None]]
    return_address: content.ReturnAddress
    front: Art
    background: Art
    design: content.Design
    warnings: list[str]


def prepare(
    db: Database,
    who: Caller,
    wish: Wish,
    people: list[Person],
    *,
    studio: Studio,
    fetcher: Fetcher,
    indicia: tuple[str, ...],
    now: datetime,
) -> Draft:
    """Look everything up and check it; the network is asked last, with no transaction open."""
    wish = replace(wish, sub_account_id=_home(who, wish))
    with db.transaction(accounts.tenant(who)) as tx:
        sender, prices = _look_up(tx, who, wish, now=now)
    return_address = _return_address(wish, sender)
    if not who.is_testing and return_address.address is None:
        raise Invalid(
            {"return_address": ["Live mail needs a return address: in the call or in the account."]}
        )
    priced = _priced(people, prices, wish)
    design = look.design(
        wish,
        sender=content.Sender(sender.name, sender.company),
        return_address=return_address,
        indicia=indicia,
    )
    addressees = [look.addressee(p, or_current_resident=wish.append_or_current_resident) for p in people]
    wordings = studio.wordings(design, addressees)
    _check_fit(studio, design, addressees, wordings, has_qr=wish.qrcode_url is not None)
    front, background = fetch_art(fetcher, wish, people, design.sender)
    warnings = [
        *_handwriting_warnings(studio, design, wordings, on_white=not background.by_place),
        *_picture_warnings(studio, design, front, "front", FRONT),
        *_picture_warnings(studio, design, background, "background", BACKGROUND),
    ]
    return Draft(wish, priced, return_address, front, background, design, warnings)


def _home(who: Caller, wish: Wish) -> int | None:
    """A limited caller's mail lands in its own sub account."""
    return wish.sub_account_id if wish.sub_account_id is not None else who.sub_account_id


def _look_up(tx: Tx, who: Caller, wish: Wish, *, now: datetime) -> tuple[accounts.Sender, Tariff]:
    if wish.sub_account_id is not None:
        accounts.require_sub_account(tx, wish.sub_account_id)
    sender = accounts.sender_of(tx, who, wish.sub_account_id)
    prices = tariff_on(tx, type=wish.type, size=wish.size, mail_class=wish.mail_class, on=now.date())
    return sender, prices


def _return_address(wish: Wish, sender: accounts.Sender) -> content.ReturnAddress:
    """The call's own, whole, or else the sender's."""
    if wish.return_address.address is not None:
        return wish.return_address
    return content.ReturnAddress(
        name=wish.return_address.name or sender.return_name,
        address=sender.return_address,
        address2=sender.return_address2,
        city=sender.return_city,
        province=sender.return_province,
        postal_code=sender.return_postal_code,
    )


def _priced(people: list[Person], prices: Tariff, wish: Wish) -> list[tuple[Person, int, str | None]]:
    """Each with a price and, where the piece carries a QR code, its short code. The refused are free."""
    faults: dict[str, list[str]] = {}
    priced: list[tuple[Person, int, str | None]] = []
    for index, person in enumerate(people):
        cents = prices.unit_cents(person.country)
        if cents is None:
            what = "standard mail" if wish.mail_class == "standard" else "this piece"
            hint = "use first class" if wish.mail_class == "standard" else "ask the operator"
            faults[f"recipients.{index}.country"] = [
                f"There is no price for {what} to {person.country}: {hint}."
            ]
            cents = 0
        code = short_code(secrets.token_bytes(16)) if wish.qrcode_url else None
        priced.append((person, 0 if person.refusal else cents, code))
    if faults:
        raise Invalid(faults)
    return priced


def _check_fit(
    studio: Studio,
    design: content.Design,
    addressees: list[content.Addressee],
    wordings: list[str],
    *,
    has_qr: bool,
) -> None:
    """Every recipient's own words must fit; a message without variables is the same for all."""
    faults: dict[str, list[str]] = {}
    hand = studio.hands.hand(design.hand)
    for place, words in enumerate(wordings):
        if not hand.writes(words):
            raise Invalid({"message": [f"The message is empty{_whose(design, place)}."]})
    found = studio.misfits(design, addressees, qr=has_qr, wordings=wordings)
    if found.sender:
        faults["return_address"] = [found.sender.message]
    for place, too_long in list(found.messages.items())[:1]:
        faults["message"] = [too_long.message + _whose(design, place)]
    for place, too_long in found.addresses.items():
        faults[f"recipients.{place}.address"] = [too_long.message]
    if faults:
        raise Invalid(faults)


def _whose(design: content.Design, place: int) -> str:
    return f" (for recipient {place})" if holds_variable(design.message) else ""


def _picture_warnings(studio: Studio, design: content.Design, art: Art, kind: str, field: str) -> list[str]:
    """What became of pictures when they were made printable, and whether they will look soft; each once."""
    piece = studio.pieces[design.piece]
    found: dict[str, str] = {}
    for picture, place in art.distinct().items():
        told = [f"{field}: {note}" for note in picture.notes]
        for area in piece.art_areas(kind):
            soft = resolution_note(picture.width, picture.height, area, what=field, where=f"a {piece.title}")
            told += [soft] if soft else []
        for warning in told:
            found.setdefault(warning, whose(place))
    return [f"{warning} ({first})" if first else warning for warning, first in found.items()]


def _handwriting_warnings(
    studio: Studio, design: content.Design, wordings: list[str], *, on_white: bool
) -> list[str]:
    """What of the message, with anyone's words in it, is not written as it was asked for."""
    hand = studio.hands.hand(design.hand)
    found = []
    letters = "".join(dict.fromkeys("".join(wordings)))
    borrowed, missing = hand.borrowed_letters(letters), hand.missing_letters(letters)
    if helped_out := [letter for letter in borrowed if letter not in missing]:
        found.append(f"The hand {hand.style.name} has no {_shown(helped_out)}: another face is used instead.")
    if missing:
        found.append(f"No face has {_shown(missing)}: it is spelt in Latin letters, or left out.")
    if min(design.ink) > _FAINT and on_white:
        found.append("The handwriting_color is so light that it will hardly be seen on white paper.")
    if hand.style.kind != "AI" and (design.font_size != "auto" or not design.realism):
        found.append(
            f"The hand {hand.style.name} is of type {hand.style.kind}:"
            " font_size and handwriting_realism have no effect on it."
        )
    return found


def _shown(letters: list[str]) -> str:
    """Letters with their names, as some of them may not show on the reader's screen either."""
    named = [f"{letter} ({unicodedata.name(letter, 'unnamed').lower()})" for letter in letters[:5]]
    more = f" and {len(letters) - 5} more" if len(letters) > 5 else ""
    return ", ".join(named) + more
