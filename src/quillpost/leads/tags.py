"""What is known of an address beyond where it is: kinds of records, as the bits of one number."""

from collections.abc import Iterable

ALL = "all"
ONLY_BUSINESSES = "onlybusinesses"
NEW_BUSINESS = "newbusiness"

HOMES = (
    "likelytomove", "likelytorefi", "absenteeowner", "highnetworth", "majorityhomeequity", "homefreeclear",
    "underwater", "kidsinhousehold", "newhomeowner", "firsttimehomebuyer", "renters", "retiring", "retired",
    "pool",
)  # fmt: skip

RECORD_TYPES = (ALL, *HOMES, ONLY_BUSINESSES, NEW_BUSINESS)
"""In the order in which they are told. The number of a bit is for good: rows are kept by it."""

BUSINESS, CONDO, SAMPLE = 1 << 16, 1 << 17, 1 << 18

BITS = {name: 1 << number for number, name in enumerate(HOMES)} | {
    ONLY_BUSINESSES: BUSINESS,
    NEW_BUSINESS: 1 << 15,
}
"""Of every kind but all."""

OTHER_TAGS = {"business": BUSINESS, "condo": CONDO}
"""What a file may say beside the kinds."""


def mask(names: Iterable[str]) -> int:
    """The bits of these kinds together; 0 where all are meant."""
    found = 0
    for name in names:
        if name == ALL:
            return 0
        found |= BITS[name]
    return found


def implied(tags: int) -> int:
    """The same with what goes without saying: a new business is a business."""
    return tags | BUSINESS if tags & BITS[NEW_BUSINESS] else tags
