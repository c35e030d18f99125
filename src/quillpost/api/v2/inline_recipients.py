"""Recipients as they come in a send: plain dicts that go straight on, not models."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Optional

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from quillpost.api.bodies import Text

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


KNOWN = frozenset(InlineRecipient.__annotations__)


def unknown_fields(sent: Any) -> list[str]:
    """Fields of a body's recipients that mean nothing to us, each once."""
    rows = sent.get("recipients") if isinstance(sent, Mapping) else None
    if not isinstance(rows, Sequence):
        return []
    found = {name for row in rows if isinstance(row, dict) for name in row if name not in KNOWN}
    return sorted(f"recipients.*.{name}" for name in found)
