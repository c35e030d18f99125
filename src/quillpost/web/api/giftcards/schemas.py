"""Gift card brands, and how a send names its card."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from quillpost.web.api.bodies import DIGITS, WholeNumber

LEGACY_AMOUNT_FIELD = "giftcard_amount_in_cents"
"""What the amount was called in earlier versions. It is no field of this one and is not described: silence
would lose money, so it is refused, unless the operator has turned it on for old clients."""

Amount = WholeNumber
"""Without bounds: the brand answers for every amount that is none of its own, and names those that are."""
SavedAmount = Annotated[int, Field(ge=1, le=2**31 - 1), DIGITS]
"""With bounds, as it may be saved with a template of another piece, where no brand answers for it."""
LegacyAmount = Annotated[Amount | None, SkipJsonSchema()]


def check_legacy_amount(legacy_amount: int | None, *, is_allowed: bool) -> str | None:
    """What is wrong with an amount under its old name, where one was given. Where it is taken, the specified
    name wins."""
    return None if legacy_amount is None or is_allowed else "Use giftcard_amount: it is in cents, too."


def find_ignored_legacy_amount(payload: Any) -> set[str]:
    """The old name beside the specified one, which wins: it changes nothing."""
    names = ("giftcard_amount", LEGACY_AMOUNT_FIELD)
    has_both = isinstance(payload, Mapping) and all(payload.get(name) is not None for name in names)
    return {LEGACY_AMOUNT_FIELD} if has_both else set()
