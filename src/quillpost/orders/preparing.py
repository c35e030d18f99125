"""Everything that can refuse a sound wish: what has to be looked up, fetched or laid out."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Caller
from quillpost.audience.rules import Person
from quillpost.composition import content
from quillpost.composition.compose import check_address_fits, check_message_fits, check_sender_fits
from quillpost.composition.hands.hand import missing_letters
from quillpost.composition.pages.layout import DoesNotFit
from quillpost.composition.words.variables import holds_variable
from quillpost.creative.images import fetch_image
from quillpost.database import Database, Tx
from quillpost.kit.errors import Invalid
from quillpost.kit.tokens import short_code
from quillpost.orders import look
from quillpost.orders.examining import HANDS
from quillpost.orders.rules import Wish
from quillpost.ports import Fetched, Fetcher
from quillpost.pricing.rules import Tariff
from quillpost.pricing.store import tariff_on


@dataclass(frozen=True, slots=True)
class Draft:
    """A wish that will not be refused any more, with its pictures in hand and nothing stored."""

    wish: Wish
    people: list[tuple[Person, int, str | None]]
    return_address: content.ReturnAddress
    front: Fetched | None
    background: Fetched | None
    design: content.Design
    warnings: list[str]


def prepare(
    db: Database,
    who: Caller,
    wish: Wish,
    people: list[Person],
    *,
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
    front = _picture(fetcher, wish.front_image_url, "front_image_url")
    background = _picture(fetcher, wish.background_url, "custom_background_image")
    design = look.design(
        wish,
        sender=content.Sender(sender.name, sender.company),
        return_address=return_address,
        front=front.body if front else None,
        background=background.body if background else None,
        indicia=indicia,
    )
    _check_fit(
        design,
        people,
        or_current_resident=wish.append_or_current_resident,
        has_qr=wish.qrcode_url is not None,
    )
    return Draft(wish, priced, return_address, front, background, design, _warnings(wish))


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


def _picture(fetcher: Fetcher, url: str | None, field: str) -> Fetched | None:
    return None if url is None else fetch_image(fetcher, url, field=field)


def _check_fit(
    design: content.Design, people: list[Person], *, or_current_resident: bool, has_qr: bool
) -> None:
    """Every recipient's own words must fit; a message without variables is the same for all."""
    faults: dict[str, list[str]] = {}
    same_for_all = not holds_variable(design.message)
    with _faults_of(faults, "return_address"):
        check_sender_fits(design)
    for index, person in enumerate(people):
        whom = look.addressee(person, or_current_resident=or_current_resident)
        if index == 0 or not (same_for_all or "message" in faults):
            with _faults_of(faults, "message", "" if same_for_all else f" (for recipient {index})"):
                check_message_fits(design, whom, qr=has_qr)
        with _faults_of(faults, f"recipients.{index}.address"):
            check_address_fits(design, whom)
    if faults:
        raise Invalid(faults)


@contextmanager
def _faults_of(faults: dict[str, list[str]], field: str, where: str = "") -> Iterator[None]:
    try:
        yield
    except DoesNotFit as too_long:
        faults[field] = [f"{too_long.message}{where}"]


def _warnings(wish: Wish) -> list[str]:
    letters = missing_letters(wish.message)
    if not letters:
        return []
    shown = ", ".join(letters[:10])
    return [f"The hand {HANDS[wish.style]} has no {shown}: another face or letter is used instead."]
