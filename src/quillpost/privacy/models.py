"""Who is to be erased: everyone at a door, whoever has an e-mail, or both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from quillpost.core.encryption import Sealer
from quillpost.core.errors import Invalid
from quillpost.recipients.addresses.keys import NO_PLACE, bare
from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.rules import ADDRESS, EMAIL, Person, examine_alone

Row = Mapping[str, str | None]

NOBODY_NAMED = "Give the person's address, or their email, or both."
NO_DOOR = (
    "Give the ZIP code too (outside the US the postal code or the city): a street alone may be many people's."
)
MANY_PEOPLES = "Many people have this address: give a house number or a box, or the person's email instead."
ZIP_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Whom:
    """Whoever matches one of the keys, or has the e-mail (in small letters)."""

    keys: tuple[str, ...]
    email: str | None

    def is_meant(self, person: Person) -> bool:
        """The same as the statements in `finding` ask of rows."""
        return person.address_key in self.keys or (
            self.email is not None and (person.email or "").lower() == self.email
        )


def whom_of(given: Row) -> Whom:
    """An address in parts, or whole on one line, and an e-mail: one of both at least."""
    address, email = ((given.get(name) or "").strip() for name in ("address", "email"))
    faults: dict[str, list[str]] = {}
    if email and not EMAIL.fullmatch(email):
        faults["email"] = ["This is not an e-mail address."]
    keys: tuple[str, ...] = ()
    if address:
        person, wrong = examine_alone({name: given.get(name) for name in ADDRESS}, may_lack=True)
        faults |= wrong
        if not wrong and (person.address_key is None or person.address_key.endswith(NO_PLACE)):
            has_place = person.postal_code is not None and person.country == HOME
            faults |= {"address": [MANY_PEOPLES]} if has_place else {"postal_code": [NO_DOOR]}
        keys = tuple(dict.fromkeys([person.address_key or "", older_key(person)]))
    elif not email:
        faults["address"] = [NOBODY_NAMED]
    if faults:
        raise Invalid(faults)
    return Whom(keys, email.lower() or None)


def older_key(person: Person) -> str:
    """The door's key as earlier releases wrote it, by the spelling alone: there may be such rows still."""
    code = bare(person.postal_code).replace(" ", "")
    place = code[:ZIP_DIGITS] if person.country == HOME else code or bare(person.city)
    return "|".join((bare(person.address), bare(person.address2), place, person.country))


def seal(sealer: Sealer, erasure_id: int, whom: Whom) -> bytes:
    """Whom a wish is about, for the second pass: nobody who reads the database learns it."""
    plain = json.dumps({"keys": whom.keys, "email": whom.email}).encode()
    return sealer.seal(plain, context=whom_context(erasure_id))


def unseal(sealer: Sealer, erasure_id: int, sealed: bytes) -> Whom:
    told = json.loads(sealer.open(sealed, context=whom_context(erasure_id)))
    return Whom(tuple(told["keys"]), told["email"])


def whom_context(erasure_id: int) -> str:
    return f"erasures:{erasure_id}"
