"""How calls name the card that they send."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from quillpost.api.bodies import DIGITS, Whole

OLD_AMOUNT = "giftcard_amount_in_cents"
"""What the amount was called in earlier versions. It is no field of this one and is not described: silence
would lose money, so it is refused, unless the operator has turned it on for old clients."""

Amount = Whole
"""Without bounds: the brand answers for every amount that is none of its own, and names those that are."""
SavedAmount = Annotated[int, Field(ge=1, le=2**31 - 1), DIGITS]
"""With bounds, as it may be saved with a template of another piece, where no brand answers for it."""
OldAmount = Annotated[Amount | None, SkipJsonSchema()]


def wrong_old_amount(old: int | None, *, is_taken: bool) -> str | None:
    """What is wrong with an amount under its old name, where one was given. Where it is taken, the specified
    name wins."""
    return None if old is None or is_taken else "Use giftcard_amount: it is in cents, too."


def ignored_old_amount(sent: Any) -> set[str]:
    """The old name beside the specified one, which wins: it changes nothing."""
    both = ("giftcard_amount", OLD_AMOUNT)
    is_beside = isinstance(sent, Mapping) and all(sent.get(name) is not None for name in both)
    return {OLD_AMOUNT} if is_beside else set()
