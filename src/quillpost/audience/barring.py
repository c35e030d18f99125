"""Whether someone on a suppression list bars anybody."""

from quillpost.audience.rules import BY_EMAIL, Person

BARS_NOBODY = (
    "On a suppression list an address needs its ZIP code (abroad its city) and a house number or a box: or"
    " give an email."
)
BARS_BY_EMAIL = "This suppression list bars by e-mail: give an email, or use a list that bars by address."


def in_vain(suppress_by: str | None, person: Person) -> tuple[str, str] | None:
    """The field, and what to do about it, of someone who would be on a list that bars so in vain; a list
    that bars nobody is none."""
    if suppress_by is None:
        return None
    if suppress_by == BY_EMAIL:
        return ("email", BARS_BY_EMAIL) if person.email is None else None
    return None if person.can_be_barred else ("address", BARS_NOBODY)
