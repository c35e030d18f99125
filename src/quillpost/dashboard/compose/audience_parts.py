"""The parts of the composer's page about its audience, as they change while somebody fills it in."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from quillpost.accounts.rules import Caller
from quillpost.api.errors import invalid_of
from quillpost.api.v2.radius import found_by
from quillpost.api.v2.radius_body import RadiusCall
from quillpost.dashboard.compose import audience
from quillpost.dashboard.compose.map import Map, map_of
from quillpost.dashboard.form_pages import Filled
from quillpost.kit.errors import Invalid, Refused
from quillpost.pages.plain_words import plainly
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedLargeForm
from quillpost.reception.show import show
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Around:
    """Whom a radius search finds; or why nobody."""

    address: str = ""
    count: int = 0
    wanted: int = 0
    cents: int = 0
    is_testing: bool = False
    map: Map | None = None
    fault: str | None = None


@router.post("/compose/people")
def people_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    found = audience.found_values(form, who.caller, parts)
    return _part(request, "compose/people_found.html", who, form, found=found)


@router.post("/compose/lists")
def lists_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    listed = audience.lists_to_choose(form, who.caller, parts)
    return _part(request, "compose/lists.html", who, form, listed=listed)


@router.post("/compose/radius")
def radius_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    around = around_of(form, who.caller, parts)
    return _part(request, "compose/radius_found.html", who, form, around=around)


def around_of(form: Form, who: Caller, parts: Parts) -> Around:
    """Whom the search of the form finds now. Asking is free."""
    try:
        search = audience.radius_of(form)
        body = RadiusCall.model_validate(search | {"sub_account_id": form.number("sub_account_id")})
        found, _ = found_by(body, who, parts)
    except ValidationError as wrong:
        return Around(fault=plainly(invalid_of(wrong.errors()).message))
    except (Invalid, Refused) as wrong:
        return Around(fault=plainly(wrong.message))
    drawn = map_of(found.middle, found.places) if found.middle is not None else None
    return Around(
        address=search["address"],
        count=len(found.people),
        wanted=search["record_count"],
        cents=found.cents,
        is_testing=found.are_samples,
        map=drawn,
    )


def _part(request: Request, template: str, who: SignedIn, form: Form, **values: Any) -> Response:
    filled = Filled(form.fields)
    return show(
        request,
        template,
        who=who,
        typed=filled.values,
        faults={},
        has=filled.has,
        within="/compose",
        **values,
    )
