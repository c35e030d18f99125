"""Bodies and responses of sub accounts."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from quillpost.accounts.sub_accounts import BACKGROUNDS, SubAccount
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.rendering.models import parse_colour
from quillpost.web.api.bodies import BEYOND_IDS, INTEGER, NOT_BLANK, Body, Text, said
from quillpost.web.api.orders.schemas import PlainMoment

EXAMPLE: dict[str, Any] = {
    "id": 3,
    "user_id": 1,
    "title": "Austin office",
    "name": "Austin office",
    "return_name": "Dana Whitfield",
    "return_address": "500 Congress Ave",
    "return_address2": None,
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
    "message_background_url": None,
    "postcard6x9_background_url": None,
    "notecard_background_url": None,
    "windowedletter_background_url": None,
    "windowlessletter_background_url": None,
    "branding_fields": {
        "accentColor": "#1f4e79",
        "symbol": None,
        "logo": None,
        "disclaimer": None,
        "headshot": None,
        "name": None,
        "email": None,
        "phone": None,
        "company": "Whitfield Homes",
        "domain": None,
        "set": None,
        "first_name": None,
    },
    "created_at": "2026-05-01 09:30:00",
    "updated_at": "2026-05-01 09:30:00",
}


class BrandingShape(BaseModel):
    accentColor: str | None  # noqa: N815
    symbol: str | None
    logo: str | None
    disclaimer: str | None
    headshot: str | None
    name: str | None
    email: str | None
    phone: str | None
    company: str | None
    domain: str | None
    set: bool | int | str | None = Field(description="As it came.")
    first_name: str | None


class SubAccountShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    title: str
    name: str = Field(description="The title, as older clients read it.")
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    message_background_url: str | None
    postcard6x9_background_url: str | None
    notecard_background_url: str | None
    windowedletter_background_url: str | None
    windowlessletter_background_url: str | None
    branding_fields: BrandingShape
    created_at: PlainMoment
    updated_at: PlainMoment


class SubAccounts(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"data": [EXAMPLE]}]})

    data: list[SubAccountShape]


LONGEST = 300
LONGEST_TEXT = 2_000
PICTURES = ("symbol", "logo", "headshot")
HOME = ("return_address2", "return_city", "return_state", "return_postal_code")

CheckUrl = Callable[[str], str | None]


def _title(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the sub account a title.")
    return text.strip()


def _colour(text: str | None) -> str | None:
    if text is not None:
        parse_colour(text)
    return text


def _one_of_three(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One sentence for what would be a fault of each of the three types."""
    try:
        return handler(value)
    except ValidationError:
        raise ValueError(
            f"This must be a text of at most {LONGEST} characters, true, false or an integer."
        ) from None


Title = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_title)]
Words = Annotated[Text | None, AfterValidator(said)]
Mark = Annotated[
    bool
    | Annotated[int, Field(gt=-BEYOND_IDS, lt=BEYOND_IDS), INTEGER]
    | Annotated[Text, Field(max_length=LONGEST)]
    | None,
    WrapValidator(_one_of_three),
]


class Branding(Body):
    """What sets the sub account's mail apart. In a change, a key that is not named stays."""

    accentColor: Annotated[Words, AfterValidator(_colour)] = Field(  # noqa: N815
        None, max_length=LONGEST, description="A colour's name, #rrggbb, rgb() or rgba()."
    )
    symbol: Words = Field(None, max_length=LONGEST_URL, description="A symbol, or the URL of one.")
    logo: Words = Field(None, max_length=LONGEST_URL, description="The URL of a picture, or a word.")
    disclaimer: Words = Field(None, max_length=LONGEST_TEXT, description="The small print.")
    headshot: Words = Field(None, max_length=LONGEST_URL, description="The URL of a portrait.")
    name: Words = Field(None, max_length=LONGEST, description="What %YOUR_NAME% says; else the account's.")
    email: Words = Field(None, max_length=LONGEST, description="The sender's e-mail address.")
    phone: Words = Field(None, max_length=LONGEST, description="The sender's phone.")
    company: Words = Field(
        None, max_length=LONGEST, description="What %YOUR_COMPANY% says; else the account's."
    )
    domain: Words = Field(None, max_length=LONGEST, description="The sender's domain.")
    set: Mark = Field(None, description="Yours: a text, a flag or a number, kept as it came.")
    first_name: Words = Field(None, max_length=LONGEST, description="The sender's first name.")


class SubAccountFields(Body):
    """All but the title, which a new one must have."""

    return_name: Words = Field(None, max_length=LONGEST, description="Whom returned mail goes to.")
    return_address: Words = Field(
        None, max_length=LONGEST, description="Street and number; without it the account's address is used."
    )
    return_address2: Words = Field(None, max_length=LONGEST, description="Unit.")
    return_city: Words = Field(None, max_length=LONGEST, description="City.")
    return_state: Words = Field(
        None,
        max_length=LONGEST,
        validation_alias=AliasChoices("return_state", "return_province"),
        description="State or province.",
    )
    return_postal_code: Words = Field(None, max_length=LONGEST, description="ZIP or postal code.")
    message_background_url: Words = Field(
        None, max_length=LONGEST_URL, description="PNG or JPEG behind the message of a postcard."
    )
    postcard6x9_background_url: Words = Field(
        None, max_length=LONGEST_URL, description="The same for a 6x9 postcard."
    )
    notecard_background_url: Words = Field(
        None, max_length=LONGEST_URL, description="The same for the inside of a notecard."
    )
    windowedletter_background_url: Words = Field(
        None, max_length=LONGEST_URL, description="The same for a letter in a windowed envelope."
    )
    windowlessletter_background_url: Words = Field(
        None, max_length=LONGEST_URL, description="The same for a letter in a windowless envelope."
    )
    branding_fields: Branding | None = Field(
        None, description="What sets the sub account's mail apart; null clears all of it."
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        """Those within the branding are named by their path."""
        branding = sent.get("branding_fields") if isinstance(sent, Mapping) else None
        return super().ignored_in(sent) | {
            f"branding_fields.{name}" for name in Branding.ignored_in(branding)
        }

    def columns(self, before: SubAccount | None = None) -> dict[str, Any]:
        """What was named, as it is stored. Branding and backgrounds are laid over those of `before`."""
        named = self.given()
        urls = {name: named.pop(name) for name in BACKGROUNDS if name in named}
        if urls:
            named["backgrounds"] = _set_only(urls if before is None else {**before.backgrounds, **urls})
        if "branding_fields" in named:
            branding: Branding | None = named.pop("branding_fields")
            known = before.branding if before is not None and branding is not None else {}
            named["branding"] = _set_only({**known, **(branding.given() if branding is not None else {})})
        return named

    def faults(self, check_url: CheckUrl, before: SubAccount | None = None) -> dict[str, list[str]]:
        """What is wrong with the content, where every type is right, as it would stand after the call."""
        found = {name: [wrong] for name, url in self._urls().items() if (wrong := check_url(url))}
        named = self.given()

        def stands(name: str) -> bool:
            return bool(named.get(name) if name in named or before is None else getattr(before, name))

        if any(map(stands, HOME)) and not stands("return_address"):
            found["return_address"] = ["Give the street as well, or none of it: the account's is used then."]
        return found

    def _urls(self) -> dict[str, str]:
        """Every URL that was given, by the path of its field; a picture may also be named by a mere word."""
        urls = {name: url for name in BACKGROUNDS if (url := getattr(self, name))}
        for name in PICTURES if self.branding_fields is not None else ():
            if "://" in (text := getattr(self.branding_fields, name) or ""):
                urls[f"branding_fields.{name}"] = text
        return urls


def _set_only(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class NewSubAccount(SubAccountFields):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "title": "Austin office",
                    "return_name": "Dana Whitfield",
                    "return_address": "500 Congress Ave",
                    "return_city": "Austin",
                    "return_state": "TX",
                    "return_postal_code": "78701",
                    "branding_fields": {"accentColor": "#1f4e79", "company": "Whitfield Homes"},
                }
            ]
        }
    )

    title: Title = Field(
        max_length=LONGEST,
        validation_alias=AliasChoices("title", "name"),
        description="What you call it.",
        examples=["Austin office"],
    )


class ChangedSubAccount(SubAccountFields):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Austin and Waco", "branding_fields": {"phone": None}}]}
    )

    title: Title = Field(
        default_factory=str,  # stands for "stays"; null is no title
        max_length=LONGEST,
        validation_alias=AliasChoices("title", "name"),
        description="What you call it.",
    )
