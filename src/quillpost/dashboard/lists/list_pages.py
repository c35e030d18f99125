"""What the pages about lists have in common: what a path or a query names, and words for what lists are."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response

from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.api.needs import id_in_path
from quillpost.audience.lists import MailingList, read_list
from quillpost.audience.rules import TEXTS
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.database import Tx
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form

KINDS: Final[Mapping[str, str]] = {
    "csv": "From a file",
    "manual": "By hand",
    "map": "Bought around an address",
    "radius": "Bought around an address",
    "friends": "Friends",
    "retarget": "Retargeting",
    "leads": "Leads",
    "automation": "By an automation",
    "crm": "From a CRM",
    "qrscans": "Scanned a code",
}
"""Where the people of a list come from."""

BARS_BY: Final[Mapping[str, str]] = {
    "address": "Everyone at the same address",
    "household": "The same family at the same address",
    "email": "Whoever has the same e-mail, wherever they live",
}
"""Whom an entry of a suppression list keeps from being mailed to."""

FIELD_TITLES: Final[Mapping[str, str]] = {
    "address": "Street address",
    "address2": "Apartment or suite",
    "province": "State or province",
    "postal_code": "ZIP or postal code",
    "email": "E-mail",
    "dob": "Date of birth",
    "full_address": "Whole address on one line",
}
"""Of a person, where the API's word is not what people say."""

NO_STREET: Final = (
    "No column is the street: nobody of these can be mailed to. Choose the column that is, or go on for their"
    " e-mail alone."
)
LONGEST_SOUGHT = 300


def list_view(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    **values: Any,
) -> Response:
    return show_form(request, f"lists/{template}", who, form, now=parts.clock(), kinds=KINDS, **values)


def known_list(parts: Parts, who: SignedIn, list_id: str) -> MailingList:
    """The list that a path names, or `NotFound`."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return read_list(tx, id_in_path(list_id))


def page_of(list_id: int, *, tab: str = "") -> str:
    return f"/lists/{list_id}{f'/{tab}' if tab else ''}"


def sought_in(request: Request) -> str:
    """What is looked for, as the query says it; no letter that the database could not hold."""
    given = request.query_params.get("query", "")[:LONGEST_SOUGHT]
    return " ".join("".join(sign if sign.isprintable() else " " for sign in given).split())


def list_asked(tx: Tx, request: Request) -> MailingList | None:
    """The list of `?list=`; `NotFound` where it is nobody's, or another's."""
    given = request.query_params.get("list", "").strip()
    return read_list(tx, id_in_path(given)) if given else None


def sub_accounts_of(tx: Tx, who: SignedIn) -> Mapping[int, str]:
    """Those among which the reader may choose: none for whoever is limited to one."""
    return {} if who.here.sub_account_id is not None else titles_of(list_sub_accounts(tx))


def texts_of(form: Form, names: Sequence[str]) -> dict[str, str | None]:
    """The fields of these names; what is empty is none."""
    return {name: form.text(name) or None for name in names}


def field_title(field: str) -> str:
    """A field of a person as its form calls it."""
    words = field.replace("_", " ")
    if words.startswith("custom"):
        words = f"custom {words.removeprefix('custom').strip()}"
    return FIELD_TITLES.get(field) or words[:1].upper() + words[1:]


def reason_in_words(reason: str) -> str:
    """Why a row was not taken, its field called as people call it."""
    field, parted, why = reason.partition(": ")
    return f"{field_title(field)}: {why}" if parted and field in (*TEXTS, "dob", "anniversary") else reason
