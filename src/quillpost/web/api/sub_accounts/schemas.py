"""Bodies and responses of sub accounts."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from quillpost.accounts.sub_accounts.queries import BACKGROUND_FIELDS, SubAccount
from quillpost.client import accounts as wire
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.rendering.models import parse_color
from quillpost.web.api.schemas import INTEGRAL, NOT_BLANK, Body, Text, accepts, strip_or_none
from quillpost.web.dependencies import ABOVE_MAX_ID

MAX_LENGTH = 300
MAX_TEXT_LENGTH = 2_000
PICTURE_FIELDS = ("symbol", "logo", "headshot")
RETURN_ADDRESS_FIELDS = ("return_address2", "return_city", "return_state", "return_postal_code")

CheckUrl = Callable[[str], str | None]


def _require_title(text: str) -> str:
    if not text.strip():
        raise ValueError("Give the sub account a title.")
    return text.strip()


def _check_color(text: str | None) -> str | None:
    if text is not None:
        parse_color(text)
    return text


def _validate_setting(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One sentence for what would be a fault of each of the three types."""
    try:
        return handler(value)
    except ValidationError:
        raise ValueError(
            f"This must be a text of at most {MAX_LENGTH} characters, true, false or an integer."
        ) from None


Title = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_title)]
OptionalText = Annotated[Text | None, AfterValidator(strip_or_none)]
SettingValue = Annotated[
    bool
    | Annotated[int, Field(gt=-ABOVE_MAX_ID, lt=ABOVE_MAX_ID), INTEGRAL]
    | Annotated[Text, Field(max_length=MAX_LENGTH)]
    | None,
    WrapValidator(_validate_setting),
]


@accepts(wire.BrandingOptions)
class Branding(Body):
    """What sets the sub account's mail apart. In a change, a key that is not named stays."""

    accentColor: Annotated[OptionalText, AfterValidator(_check_color)] = Field(  # noqa: N815
        None, max_length=MAX_LENGTH, description="A color's name, #rrggbb, rgb() or rgba()."
    )
    symbol: OptionalText = Field(None, max_length=MAX_URL_LENGTH, description="A symbol, or the URL of one.")
    logo: OptionalText = Field(None, max_length=MAX_URL_LENGTH, description="The URL of a picture, or a word.")
    disclaimer: OptionalText = Field(None, max_length=MAX_TEXT_LENGTH, description="The small print.")
    headshot: OptionalText = Field(None, max_length=MAX_URL_LENGTH, description="The URL of a portrait.")
    name: OptionalText = Field(None, max_length=MAX_LENGTH, description="What %YOUR_NAME% says; else the account's.")
    email: OptionalText = Field(None, max_length=MAX_LENGTH, description="The sender's e-mail address.")
    phone: OptionalText = Field(None, max_length=MAX_LENGTH, description="The sender's phone.")
    company: OptionalText = Field(
        None, max_length=MAX_LENGTH, description="What %YOUR_COMPANY% says; else the account's."
    )
    domain: OptionalText = Field(None, max_length=MAX_LENGTH, description="The sender's domain.")
    set: SettingValue = Field(None, description="Yours: a text, a flag or a number, kept as it came.")
    first_name: OptionalText = Field(None, max_length=MAX_LENGTH, description="The sender's first name.")


@accepts(wire.SubAccountOptions)
class SubAccountFields(Body):
    """All but the title, which a new one must have."""

    return_name: OptionalText = Field(None, max_length=MAX_LENGTH, description="Whom returned mail goes to.")
    return_address: OptionalText = Field(
        None, max_length=MAX_LENGTH, description="Street and number; without it the account's address is used."
    )
    return_address2: OptionalText = Field(None, max_length=MAX_LENGTH, description="Unit.")
    return_city: OptionalText = Field(None, max_length=MAX_LENGTH, description="City.")
    return_state: OptionalText = Field(
        None,
        max_length=MAX_LENGTH,
        validation_alias=AliasChoices("return_state", "return_province"),
        description="State or province.",
    )
    return_postal_code: OptionalText = Field(None, max_length=MAX_LENGTH, description="ZIP or postal code.")
    message_background_url: OptionalText = Field(
        None, max_length=MAX_URL_LENGTH, description="PNG or JPEG behind the message of a postcard."
    )
    postcard6x9_background_url: OptionalText = Field(
        None, max_length=MAX_URL_LENGTH, description="The same for a 6x9 postcard."
    )
    notecard_background_url: OptionalText = Field(
        None, max_length=MAX_URL_LENGTH, description="The same for the inside of a notecard."
    )
    windowedletter_background_url: OptionalText = Field(
        None, max_length=MAX_URL_LENGTH, description="The same for a letter in a windowed envelope."
    )
    windowlessletter_background_url: OptionalText = Field(
        None, max_length=MAX_URL_LENGTH, description="The same for a letter in a windowless envelope."
    )
    branding_fields: Branding | None = Field(
        None, description="What sets the sub account's mail apart; null clears all of it."
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        branding = payload.get("branding_fields") if isinstance(payload, Mapping) else None
        return super().ignored_in(payload) | {f"branding_fields.{name}" for name in Branding.ignored_in(branding)}

    def columns(self, before: SubAccount | None = None) -> dict[str, Any]:
        """What was named, as it is stored. Branding and backgrounds are laid over those of `before`."""
        columns = self.provided_fields()
        urls = {name: columns.pop(name) for name in BACKGROUND_FIELDS if name in columns}
        if urls:
            columns["backgrounds"] = _without_nulls(urls if before is None else {**before.backgrounds, **urls})
        if "branding_fields" in columns:
            branding: Branding | None = columns.pop("branding_fields")
            existing = before.branding if before is not None and branding is not None else {}
            columns["branding"] = _without_nulls(
                {**existing, **(branding.provided_fields() if branding is not None else {})}
            )
        return columns

    def find_errors(self, check_url: CheckUrl, before: SubAccount | None = None) -> dict[str, list[str]]:
        """What is wrong with the content, where every type is right, as it would stand after the call."""
        errors = {name: [error] for name, url in self._urls().items() if (error := check_url(url))}
        provided = self.provided_fields()

        def is_set(name: str) -> bool:
            return bool(provided.get(name) if name in provided or before is None else getattr(before, name))

        if any(map(is_set, RETURN_ADDRESS_FIELDS)) and not is_set("return_address"):
            errors["return_address"] = ["Give the street as well, or none of it: the account's is used then."]
        return errors

    def _urls(self) -> dict[str, str]:
        """Every URL that was given, by the path of its field; a picture may also be named by a mere word."""
        urls = {name: url for name in BACKGROUND_FIELDS if (url := getattr(self, name))}
        for name in PICTURE_FIELDS if self.branding_fields is not None else ():
            if "://" in (text := getattr(self.branding_fields, name) or ""):
                urls[f"branding_fields.{name}"] = text
        return urls


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@accepts(wire.SubAccountUpdate)
class NewSubAccount(SubAccountFields):
    title: Title = Field(
        max_length=MAX_LENGTH,
        validation_alias=AliasChoices("title", "name"),
        description="What you call it.",
        examples=["Austin office"],
    )


@accepts(wire.SubAccountUpdate)
class ChangedSubAccount(SubAccountFields):
    title: Title = Field(
        default_factory=str,  # stands for "stays"; null is no title
        max_length=MAX_LENGTH,
        validation_alias=AliasChoices("title", "name"),
        description="What you call it.",
    )
