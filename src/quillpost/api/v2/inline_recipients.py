"""Recipients as they come in a send: plain dicts that go straight on, not models."""

from collections.abc import Mapping, Set
from typing import Annotated, Any, Optional

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from quillpost.api.bodies import Text, ignored_in_rows, without_nulls
from quillpost.api.rows import STOPS_EARLY

OTHER_NAMES = {"state": "province", "zip": "postal_code"}
"""What other clients call them. Where both names are given, ours wins."""
STATE_NAMES, ZIP_NAMES = AliasChoices("province", "state"), AliasChoices("postal_code", "zip")
NAMES = [(name, other) for other, name in OTHER_NAMES.items()]
STATE, ZIP = "State or province; `state` is taken, too.", "ZIP or postal code; `zip` is taken, too."

Maybe = Optional[Text]  # noqa: UP045 (an Annotated alias in a TypedDict)


@with_config(ConfigDict(strict=True, extra="ignore"))
class InlineRecipient(TypedDict, total=False):
    """One person to mail to: an address in parts, or whole on one line, or at least an e-mail."""

    name: Annotated[Maybe, Field(examples=["Jane Doe"])]
    company: Maybe
    address: Annotated[Maybe, Field(examples=["12 Main St"])]
    address2: Maybe
    city: Annotated[Maybe, Field(examples=["Austin"])]
    province: Annotated[Maybe, Field(validation_alias=STATE_NAMES, examples=["TX"], description=STATE)]
    postal_code: Annotated[Maybe, Field(validation_alias=ZIP_NAMES, examples=["78701"], description=ZIP)]
    country: Annotated[Maybe, Field(examples=["US"], description="Two letters; US when missing.")]
    email: Maybe
    phone: Maybe
    dob: Annotated[Maybe, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    anniversary: Annotated[Maybe, Field(description="YYYY-MM-DD or MM/DD/YYYY.")]
    custom1: Maybe
    custom2: Maybe
    custom3: Maybe
    custom4: Maybe
    custom5: Maybe
    custom6: Maybe
    custom7: Maybe
    custom8: Maybe
    custom9: Maybe
    custom10: Maybe


def with_other_names(row: Any) -> Any:
    """The row as it is read: where ours is null, another client's name counts."""
    if type(row) is dict and ("state" in row or "zip" in row):
        return without_nulls(row, NAMES)
    return row


InlineRecipients = Annotated[list[Annotated[InlineRecipient, BeforeValidator(with_other_names)]], STOPS_EARLY]
KNOWN = frozenset(InlineRecipient.__annotations__)


def ignored_in_recipients(sent: Any) -> set[str]:
    """Fields of a body's recipients that mean nothing to us."""
    return ignored_in_rows(sent, "recipients", known_in)


def known_in(row: Mapping[str, Any]) -> Set[str]:
    """The names that mean something in a row: another client's where ours is not given."""
    others = {other for other, name in OTHER_NAMES.items() if other in row and row.get(name) is None}
    return KNOWN | others if others else KNOWN
