"""Parts of the composer that are drawn again while somebody chooses recipients."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from quillpost.accounts.models import Caller
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, Refused
from quillpost.web.api.errors import invalid_of
from quillpost.web.api.radius.endpoints import found_by
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.dashboard.compose.people import Map, map_of
from quillpost.web.dashboard.compose.recipients import found_values, lists_to_choose, radius_of
from quillpost.web.dashboard.forms import Filled
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.rendering import plainly, show
from quillpost.web.sessions import OurParts, Reader

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
    found = found_values(form, who.caller, parts)
    return _part(request, "compose/people_found.html", who, form, found=found)


@router.post("/compose/lists")
def lists_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    listed = lists_to_choose(form, who.caller, parts)
    return _part(request, "compose/lists.html", who, form, listed=listed)


@router.post("/compose/radius")
def radius_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    around = around_of(form, who.caller, parts)
    return _part(request, "compose/radius_found.html", who, form, around=around)


def around_of(form: Form, who: Caller, parts: Parts) -> Around:
    """Whom the search of the form finds now. Asking is free."""
    try:
        search = radius_of(form)
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
