"""Between the form of a sub account and the body of the API."""

from collections.abc import Mapping
from typing import Any, Final

from quillpost.accounts.sub_accounts.queries import BACKGROUND_FIELDS, SubAccount
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.web.api.sub_accounts.schemas import MAX_LENGTH, MAX_TEXT_LENGTH
from quillpost.web.dashboard.forms import FormState
from quillpost.web.forms import Form

PLAIN_FIELDS: Final = (
    "title", "return_name", "return_address", "return_address2", "return_city", "return_state",
    "return_postal_code",
)  # fmt: skip
BRANDING_FIELD_LENGTHS: Final[Mapping[str, int]] = {
    "company": MAX_LENGTH,
    "name": MAX_LENGTH,
    "first_name": MAX_LENGTH,
    "phone": MAX_LENGTH,
    "email": MAX_LENGTH,
    "domain": MAX_LENGTH,
    "accentColor": MAX_LENGTH,
    "logo": MAX_URL_LENGTH,
    "symbol": MAX_URL_LENGTH,
    "headshot": MAX_URL_LENGTH,
    "disclaimer": MAX_TEXT_LENGTH,
}  # maximum lengths; what a program sets as `set` stays

BRANDING_PREFIX = "branding_fields."
INVALID_COLOR = "This is no color that we know. Pick one, or write it as #1f4e79."
FORM_FIELDS: Final = (*PLAIN_FIELDS, *BACKGROUND_FIELDS, *BRANDING_FIELD_LENGTHS)


def read_sub_account_fields(form: Form) -> dict[str, Any]:
    """Empty fields are null, which clears."""
    plain_values = {name: form.text(name, max_length=MAX_LENGTH) or None for name in PLAIN_FIELDS}
    return {
        **plain_values,
        "title": plain_values["title"] or "",
        **{name: form.text(name, max_length=MAX_URL_LENGTH) or None for name in BACKGROUND_FIELDS},
        "branding_fields": read_branding(form),
    }


def read_branding(form: Form) -> dict[str, str | None]:
    return {name: form.text(name, max_length=max_length) or None for name, max_length in BRANDING_FIELD_LENGTHS.items()}


def sub_account_form_fields(sub_account: SubAccount) -> dict[str, list[str]]:
    values: dict[str, object] = {
        **{name: getattr(sub_account, name) for name in PLAIN_FIELDS},
        **sub_account.backgrounds,
        **{name: sub_account.branding.get(name) for name in BRANDING_FIELD_LENGTHS},
    }
    return {name: [str(value)] for name, value in values.items() if value is not None}


def rejected_form(form: Form, error: Invalid | Refused) -> FormState:
    form_error = to_form_errors(error) if isinstance(error, Invalid) else error
    return FormState.from_error(form, form_error, default_field="title")


def to_form_errors(error: Invalid) -> Invalid:
    errors = {name.removeprefix(BRANDING_PREFIX): messages for name, messages in error.fields.items()}
    return Invalid(errors | {name: [INVALID_COLOR] for name in errors.keys() & {"accentColor"}})
