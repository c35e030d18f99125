"""Whether two records tell of one person, and what is known when both are put together."""

from quillpost.audience.hook_rows import Said
from quillpost.audience.rules import ADDRESS, Faults, Person, examine_alone, written
from quillpost.postal.keys import NO_PLACE, street_of, unit_of


def is_whole(person: Person) -> bool:
    """Whether the address is a door, and not a street that may be in many places."""
    return person.address_key is not None and not person.address_key.endswith(NO_PLACE)


def may_live_together(one: Person, other: Person) -> bool:
    """Whether they have the same street, and nothing else that is known of their addresses differs."""
    if one.address_key is None or other.address_key is None:
        return False
    if street_of(one.address_key) != street_of(other.address_key) or one.country != other.country:
        return False
    parts = ("city", "province", "postal_code")
    pairs = [(getattr(one, part) or "", getattr(other, part) or "") for part in parts]
    pairs.append((unit_of(one.address_key), unit_of(other.address_key)))
    return all(not here or not there or here.casefold() == there.casefold() for here, there in pairs)


def put_together(known: Person, said: Said, person: Person) -> tuple[Person, Faults]:
    """The person that is known with what was said of `person`. What was not said stays.

    Less of an address than is known changes nothing of it; and one without a street none that has one. Half
    a name changes none either: which half of the known one it is cannot be told.
    """
    new = {name: text for name, text in written(person).items() if text is not None}
    if not said.given.get("country"):
        del new["country"]
    if known.name and said.is_half_named:
        del new["name"]
    if known.address is None and person.address is not None:
        new |= {part: getattr(person, part) for part in ADDRESS}
    elif known.address is not None and (person.address is None or is_whole(known) > is_whole(person)):
        new = {name: text for name, text in new.items() if name not in ADDRESS}
    if known.email and known.email.lower() == str(new.get("email")).lower():
        del new["email"]  # the same in other capitals
    if known.postal_code and known.postal_code.startswith(f"{new.get('postal_code')}-"):
        del new["postal_code"]  # the four further digits of a ZIP+4 are known already
    return examine_alone({**written(known), **new}, may_lack=True)
