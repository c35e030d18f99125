"""The composer: one page with one form, and beside it the picture of what would be sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.dashboard.compose import look_parts, sections, starting, when
from quillpost.dashboard.compose.form import FORM_FIELDS
from quillpost.dashboard.compose.previewing import Preview, previewed
from quillpost.dashboard.compose.starting import Fields
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.turns import in_turn
from quillpost.dashboard.typed_times import typed_zone
from quillpost.database import Tx
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form, PostedLargeForm
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE: Final = "/compose"

Faults = Mapping[str, Sequence[str]]

STARTS: Final[Mapping[str, Callable[[Tx, int, Fields], Fields]]] = {
    "order": starting.from_order,
    "template": starting.from_template,
    "image": starting.from_image,
    "list": starting.from_list,
}
"""What the page's address may name to start from; each wins over those before it."""

FIND, TEMPLATE = "find", "template"
"""The button that was pressed to see more of the page, and the one that takes over a saved message."""


@router.get(PAGE)
def composer(request: Request, who: Reader, parts: OurParts) -> Response:
    fields = starting.usual()
    with parts.db.transaction(tenant(who.caller)) as tx:
        for name, start in STARTS.items():
            if (number := request.query_params.get(name)) is not None:
                fields = start(tx, id_in_path(number), fields)
    return composer_page(request, who, parts, Form(fields))


@router.post(PAGE)
def composer_again(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """The page with what stands in its form, and the picture of it: nothing is sent."""
    if form.text(FIND) == TEMPLATE and (number := form.number("message_template_id")) is not None:
        with parts.db.transaction(tenant(who.caller)) as tx:
            fields = {name: list(values) for name, values in form.fields.items()}
            form = Form(starting.from_template(tx, number, fields), form.about)

    def answer() -> Response:
        preview, faults = previewed(form, who.caller, parts, typed_zone(request, form.fields))
        return composer_page(request, who, parts, form, faults=faults, preview=preview)

    return in_turn(who.person_id, answer)


def composer_page(
    request: Request,
    who: SignedIn,
    parts: Parts,
    form: Form,
    *,
    faults: Faults | None = None,
    status: int | None = None,
    preview: Preview | None = None,
) -> Response:
    """The page with this in its form; with faults, each beside its field, its status is 422 or the given."""
    form, faults = when.opened(form, faults or {})
    return show_form(
        request,
        "compose/page.html",
        who,
        Filled(form.fields, faults),
        status=status,
        draws_inline=True,
        can_upload=True,
        **composer_values(who.caller, parts, faults, preview),
        **sections.for_page(request, who, parts, form),
    )


def composer_values(
    caller: Caller,
    parts: Parts,
    faults: Faults | None,
    preview: Preview | None,
    *,
    fields: Iterable[str] = (*FORM_FIELDS.values(), when.RETURNS),
) -> dict[str, Any]:
    """What the form has to choose from, the picture beside it, and what is told above it: whatever is wrong
    with none of its fields."""
    return {
        **look_parts.page_values(caller, parts),
        "elsewhere": told_above(faults or {}, fields),
        "preview": preview,
        "seen": (),
        "now": parts.clock(),
    }


def told_above(faults: Faults, fields: Iterable[str]) -> list[str]:
    known = {*fields, "piece", "audience"}
    return [
        told
        for name, sentences in faults.items()
        if name not in known and not name.startswith(("to_", "radius_"))
        for told in sentences
    ]
