"""What the pages of automations have in common."""

from typing import Any, Final

from fastapi import Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.automations import store
from quillpost.dashboard.form_pages import EMPTY, Filled, show_form
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn

PAGE: Final = "/automations"


def automation_page(
    request: Request, template: str, who: SignedIn, parts: Parts, *, form: Filled = EMPTY, **values: Any
) -> Response:
    """The page; it may hold drawn pieces."""
    path = f"automations/{template}"
    return show_form(request, path, who, form, draws_inline=True, now=parts.clock(), **values)


def path_of(automation_id: int) -> str:
    return f"{PAGE}/{automation_id}"


def read_own(automation_id: str, who: SignedIn, parts: Parts) -> store.Automation:
    """The one in the path, if it is the reader's and of the mode that they look at."""
    with parts.db.transaction(tenant(who.caller)) as tx:
        return store.read_automation(tx, id_in_path(automation_id))
