"""Drafts for people whom the service has chosen itself: what is wrong with one of them stops no other.

A caller who names somebody wrongly is told so at once. Here nobody waits for an answer: whoever cannot be
mailed to is a Failed item that says why, as it is with the people of lists.
"""

from collections.abc import Sequence
from dataclasses import replace

from quillpost.accounts.rules import Caller
from quillpost.audience.rules import NO_PRICE, Person
from quillpost.composition import content
from quillpost.composition.studio import Studio
from quillpost.kit.errors import Invalid
from quillpost.orders import look
from quillpost.orders.preparing import Draft, prepare, return_address_of
from quillpost.orders.resolving import Resolved
from quillpost.orders.wish import Wish
from quillpost.ports.files import Fetcher, FileStore
from quillpost.postal.judging import HALF_AN_ADDRESS, NO_ADDRESS, UNDELIVERABLE
from quillpost.pricing.rules import Tariff

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
    design = look.design(
        wish,
        sender=content.Sender(resolved.sender.name, resolved.sender.company),
        return_address=return_address_of(wish, resolved.sender),
        indicia=indicia,
    )
    addressees = [look.addressee(p, or_current_resident=wish.append_or_current_resident) for p in people]
    wordings = [] if design.pdf_only else studio.wordings(design, addressees)
    hand = studio.hands.hand(design.hand)
    found = studio.misfits(design, addressees, qr=wish.qrcode_url is not None, wordings=wordings, every=True)
    why = {place: too_long.message for place, too_long in found.addresses.items()}
    why |= {place: too_long.message for place, too_long in found.messages.items()}
    if wish.message.strip() or wish.background is None:
        why |= {place: EMPTY for place, words in enumerate(wordings) if not hand.writes(words)}
    return [replace(person, refusal=why.get(place)) for place, person in enumerate(people)]
