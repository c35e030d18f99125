"""Fragments of the composer that are drawn again while somebody chooses recipients."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from quillpost.accounts.models import Caller
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, Refused
from quillpost.web.api.errors import to_invalid
from quillpost.web.api.radius.endpoints import find_leads
from quillpost.web.api.radius.schemas import RadiusCall
from quillpost.web.dashboard.compose.people import RadiusMap, draw_radius_map
from quillpost.web.dashboard.compose.recipients import find_list_choices, people_context, radius_fields
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dependencies import Services
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.rendering import render_page, to_plain_language
from quillpost.web.sessions import CurrentUser

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class RadiusSearchView:
    """Whom a radius search finds; or why nobody."""

    address: str = ""
    count: int = 0
    requested_count: int = 0
    cents: int = 0
    is_testing: bool = False
    map: RadiusMap | None = None
    error: str | None = None


@router.post("/compose/people")
def people_fragment(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    context = people_context(form, user.caller, container)
    return _render_fragment(request, "compose/people.html", user, form, people=context)


@router.post("/compose/lists")
def lists_fragment(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    choices = find_list_choices(form, user.caller, container)
    return _render_fragment(request, "compose/lists.html", user, form, list_choices=choices)


@router.post("/compose/radius")
def radius_fragment(request: Request, user: CurrentUser, form: PostedLargeForm, container: Services) -> Response:
    result = search_radius(form, user.caller, container)
    return _render_fragment(request, "compose/radius.html", user, form, radius_search=result)


def search_radius(form: Form, caller: Caller, container: Container) -> RadiusSearchView:
    """Whom the search of the form finds now. Asking is free."""
    try:
        fields = radius_fields(form)
        body = RadiusCall.model_validate(fields | {"sub_account_id": form.number("sub_account_id")})
        leads, _ = find_leads(body, caller, container)
    except ValidationError as error:
        return RadiusSearchView(error=to_plain_language(to_invalid(error.errors()).message))
    except (Invalid, Refused) as error:
        return RadiusSearchView(error=to_plain_language(error.message))
    radius_map = draw_radius_map(leads.center, leads.coordinates) if leads.center is not None else None
    return RadiusSearchView(
        address=fields["address"],
        count=len(leads.people),
        requested_count=fields["record_count"],
        cents=leads.cents,
        is_testing=leads.are_samples,
        map=radius_map,
    )


def _render_fragment(request: Request, template: str, user: SignedInUser, form: Form, **values: Any) -> Response:
    form_state = FormState(form.fields)
    return render_page(
        request,
        template,
        user=user,
        values=form_state.values,
        errors={},
        is_selected=form_state.is_selected,
        base_path="/compose",
        **values,
    )
