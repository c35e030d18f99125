"""What the settings pages have in common, and what is chosen by scopes."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form

BOTH = "You chose everything, but had ticked some as well: choose again."
NEITHER = "Choose everything, or some of it."


def settings_page(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    **values: Any,
) -> Response:
    return show_form(request, template, who, form, now=parts.clock(), **values)


def sub_account_titles(who: SignedIn, parts: Parts) -> Mapping[int, str]:
    with parts.db.transaction(who.tenant) as tx:
        return titles_of(list_sub_accounts(tx))


def chosen_scopes(form: Form) -> list[str] | None:
    """None: everything. Whoever chooses that and ticks some as well is asked again: nobody guesses."""
    ticked, limits = form.many("scopes"), form.text("limits")
    if limits not in ("all", "some"):
        raise Invalid({"scopes": [NEITHER]})
    if limits == "all" and ticked:
        raise Invalid({"scopes": [BOTH]})
    return ticked if limits == "some" else None
