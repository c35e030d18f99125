"""What the composer's page shows beneath the look of the piece: whom it goes to, what it costs, and when."""

from typing import Any, Final

from fastapi import Request

from quillpost.dashboard.compose import audience, when
from quillpost.dashboard.compose.audience_parts import around_of
from quillpost.dashboard.compose.price import price_of
from quillpost.dashboard.typed_times import typed_zone
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form

FIND: Final = "find"
"""The button that somebody without scripts has pressed to see more of the page: lists, radius or price."""


def for_page(request: Request, who: SignedIn, parts: Parts, form: Form) -> dict[str, Any]:
    """Values for the templates `compose/audience.html`, `compose/price.html` and `compose/when.html`. The
    page itself gives them `typed`, `has`, `faults`, `now`, `who`, `csrf`, `once` and `zone`."""
    caller, zone, wanted = who.caller, typed_zone(request, form.fields), form.fields.get(FIND, ())
    return {
        **audience.page_values(form, caller, parts),
        **when.page_values(form, caller, parts, zone),
        "around": around_of(form, caller, parts) if "radius" in wanted else None,
        "price": price_of(form, caller, parts, zone) if "price" in wanted else None,
        "within": "/compose",
        "is_testing": caller.is_testing,
    }
