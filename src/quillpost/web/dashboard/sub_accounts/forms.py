"""From the form of a sub account to the body that the API takes, and back."""

from collections.abc import Mapping
from typing import Any, Final

from quillpost.accounts.sub_accounts import BACKGROUNDS, SubAccount
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.web.api.sub_accounts.schemas import LONGEST, LONGEST_TEXT
from quillpost.web.dashboard.forms import Filled
from quillpost.web.forms import Form

PLAIN: Final = (
    "title", "return_name", "return_address", "return_address2", "return_city", "return_state",
    "return_postal_code",
)  # fmt: skip
BRANDING: Final[Mapping[str, int]] = {
    "company": LONGEST,
    "name": LONGEST,
    "first_name": LONGEST,
    "phone": LONGEST,
    "email": LONGEST,
    "domain": LONGEST,
    "accentColor": LONGEST,
    "logo": LONGEST_URL,
    "symbol": LONGEST_URL,
    "headshot": LONGEST_URL,
    "disclaimer": LONGEST_TEXT,
}
"""The branding that people fill in, and how long each of it may be. What a program marks as `set` stays."""

IN_BRANDING = "branding_fields."
NO_COLOR = "This is no color that we know. Pick one, or write it as #1f4e79."
FIELDS: Final = (*PLAIN, *BACKGROUNDS, *BRANDING)


def values_of(form: Form) -> dict[str, Any]:
    """All fields as the API takes them: what is empty is null, and clears."""
    plain = {name: form.text(name, most=LONGEST) or None for name in PLAIN}
    return {
        **plain,
        "title": plain["title"] or "",
        **{name: form.text(name, most=LONGEST_URL) or None for name in BACKGROUNDS},
        "branding_fields": branding_of(form),
    }


def branding_of(form: Form) -> dict[str, str | None]:
    return {name: form.text(name, most=most) or None for name, most in BRANDING.items()}


def typed_of(sub_account: SubAccount) -> dict[str, list[str]]:
    """What stands in the form of one that there is."""
    shown: dict[str, object] = {
        **{name: getattr(sub_account, name) for name in PLAIN},
        **sub_account.backgrounds,
        **{name: sub_account.branding.get(name) for name in BRANDING},
    }
    return {name: [str(value)] for name, value in shown.items() if value is not None}


def sent_back(form: Form, refused: Invalid | Refused) -> Filled:
    """The form for another try, each fault at the field that the form has for it."""
    told = as_told(refused) if isinstance(refused, Invalid) else refused
    return Filled.back(form, told, at="title")


def as_told(refused: Invalid) -> Invalid:
    """The same faults at the fields that the form has, in people's words."""
    faults = {name.removeprefix(IN_BRANDING): told for name, told in refused.fields.items()}
    return Invalid(faults | {name: [NO_COLOR] for name in faults.keys() & {"accentColor"}})
