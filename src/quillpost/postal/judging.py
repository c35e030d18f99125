"""What the post makes of an address: its standard form, its key, and whether mail can reach it."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from quillpost.postal.abroad import standard_abroad
from quillpost.postal.checks import doubts_at_home
from quillpost.postal.cities import town_of
from quillpost.postal.home import delivery
from quillpost.postal.keys import bare, door_key
from quillpost.postal.surnames import surname_of as surname_of
from quillpost.postal.tables import SAYS_NOTHING
from quillpost.postal.wording import plain
from quillpost.postal.zips import written_zip

HOME = "US"

DELIVERABLE, DOUBTFUL, UNDELIVERABLE = "deliverable", "doubtful", "undeliverable"
VERDICTS = (DELIVERABLE, DOUBTFUL, UNDELIVERABLE)
"""How sure it is that mail arrives. What is doubtful is mailed, and the sender is told why."""

NO_ADDRESS = "There is no mailing address, only an e-mail."
HALF_AN_ADDRESS = "The address lacks its city, state or ZIP code."

PARTS = ("address", "address2", "city", "province", "postal_code")

Standard = tuple[str | None, str | None, str | None, str | None, str | None]
"""The parts of an address, in the order of `PARTS`, as they are printed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`standard` is None where there is no address, or too little of one to say how it is written."""

    key: str | None
    standard: Standard | None
    deliverability: str
    reasons: tuple[str, ...] = ()
    """Sentences; of what is undeliverable the first says why."""


def judge(
    parts: Mapping[str, str | None], country: str, *, email: str | None = None, name: str | None = None
) -> Judged:
    """The address of these parts (stripped; an empty one is None) in this country; whose it is matters only
    where it is no door."""
    if parts["address"] is None:
        return Judged(None, None, UNDELIVERABLE, (NO_ADDRESS,))
    second = parts["address2"]
    if second is not None and plain(second) in SAYS_NOTHING | {""}:
        second = None
    if country == HOME:
        return _judge_home(parts["address"], second, parts, email, name)
    return _judge_abroad(parts["address"], second, parts, country, email)


def _judge_home(
    address: str, second: str | None, parts: Mapping[str, str | None], email: str | None, name: str | None
) -> Judged:
    city, state, code = parts["city"], parts["province"], parts["postal_code"]
    written = delivery(address, second, state)
    street, unit = written.key
    zip_code = written_zip(code or "")
    if written.is_door:
        key = door_key(street, unit, zip_code[:5], HOME, known=(city, state, email))
    else:
        key = door_key(street, unit, "", HOME, known=(city, state, email, zip_code[:5], name))
    if city is None or state is None or code is None:
        return Judged(key, None, UNDELIVERABLE, (HALF_AN_ADDRESS,))
    town = town_of(zip_code[:5], city)
    doubts = doubts_at_home(written, city, state, zip_code[:5], is_town_known=town is not None)
    standard = (
        written.line,
        written.beside,
        town or plain(city),
        state if state.isupper() else plain(state),
        zip_code,
    )
    return Judged(key, standard, DOUBTFUL if doubts else DELIVERABLE, doubts)


def _judge_abroad(
    address: str, address2: str | None, parts: Mapping[str, str | None], country: str, email: str | None
) -> Judged:
    city, province, code = (parts[name] for name in PARTS[2:])
    where = bare(code).replace(" ", "") or bare(city)  # 110 00 is 11000; not everyone has codes
    key = door_key(bare(address), bare(address2), where, country, known=(city, province, email))
    if city is None:
        return Judged(key, None, UNDELIVERABLE, (HALF_AN_ADDRESS,))
    place = standard_abroad(country, _tidy(city), province and _tidy(province), code and _tidy(code))
    lines = (_tidy(address), address2 and _tidy(address2))
    standard = (*lines, place.city, place.province, place.postal_code)
    return Judged(key, standard, DOUBTFUL if place.doubts else DELIVERABLE, place.doubts)


def _tidy(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
