"""Recipients as they come in a send: plain dicts that go straight on, not models."""

from typing import Annotated, Any, Optional

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from quillpost.api.bodies import Text, ignored_in_rows
from quillpost.api.rows import STOPS_EARLY

Maybe = Optional[Text]  # noqa: UP045 (an Annotated alias in a TypedDict)


@with_config(ConfigDict(strict=True, extra="ignore"))
class InlineRecipient(TypedDict, total=False):
    """One person to mail to: an address in parts, or whole on one line, or at least an e-mail."""

    name: Annotated[Maybe, Field(examples=["Jane Doe"])]
    company: Maybe
    address: Annotated[Maybe, Field(examples=["12 Main St"])]
    address2: Maybe
    city: Annotated[Maybe, Field(examples=["Austin"])]
    province: Annotated[Maybe, Field(examples=["TX"], description="State or province.")]
    postal_code: Annotated[Maybe, Field(examples=["78701"])]
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


InlineRecipients = Annotated[list[InlineRecipient], STOPS_EARLY]
KNOWN = frozenset(InlineRecipient.__annotations__)


def ignored_in_recipients(sent: Any) -> set[str]:
    """Fields of a body's recipients that mean nothing to us."""
    return ignored_in_rows(sent, "recipients", lambda _: KNOWN)
