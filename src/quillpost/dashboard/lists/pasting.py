"""People pasted from a spreadsheet: looked at, and then imported as a file would be. Without any script."""

from collections.abc import Mapping, Sequence
from io import BytesIO

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.api.needs import id_in_path
from quillpost.api.v2.mailing_lists import NewMailingList
from quillpost.audience import list_keeping, lists
from quillpost.audience.importing import intake
from quillpost.audience.importing.columns import FIELDS, LEFT_OUT, have_street, require_someone, warnings_of
from quillpost.audience.importing.intake import Looked
from quillpost.audience.importing.store import Import
from quillpost.dashboard.form_bodies import read_body
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.lists.list_pages import NO_STREET, field_title, list_asked, list_view
from quillpost.database import Tx
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.paging import PageRequest
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import Form, PostedLargeForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)

PAGE = "/lists/paste"
LONGEST = 2_500_000
OFFERED = 200
SHOWN = 5
COLUMN = "column-"
NAME = "pasted.csv"
NOTHING = "Paste some rows first."
TWICE = "Another column is “{}” already."
NOBODY = "Choose which column is the street, or at least the e-mail."


@router.get(PAGE)
def paste_page(request: Request, who: Reader, parts: OurParts) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        into = list_asked(tx, request)
    return _page(request, who, parts, Filled({} if into is None else {"list": [str(into.id)]}))


@router.post(PAGE)
def paste(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    """Twice: what the columns seem to be is shown first, and imported when that was seen."""
    try:
        looked = _looked(form)
        if form.text("step") != "import":
            return _page(request, who, parts, Filled(form.fields), looked)
        made = _import(who, form, looked, parts)
    except (Invalid, Refused) as refused:
        back = Filled.back(form, refused, at="rows")
        return _page(request, who, parts, Filled(back.typed, _placed(back.faults)), _if_readable(form))
    return go(f"/lists/imports/{made.id}")


def _looked(form: Form, *, as_chosen: bool = True) -> Looked:
    rows = form.text("rows", most=LONGEST)
    if not rows:
        raise Invalid({"rows": [NOTHING]})
    chosen = {name.removeprefix(COLUMN): form.text(name) for name in form.fields if name.startswith(COLUMN)}
    if as_chosen:
        _require_each_once(chosen)
    # Beside choices a box that is not ticked says no; before them nobody was asked.
    has_header = bool(form.text("header")) if chosen else None
    mapping = chosen if chosen and as_chosen else None
    return intake.look(BytesIO(rows.encode()), name=NAME, mapping=mapping, has_header=has_header)


def _if_readable(form: Form) -> Looked | None:
    """For another try; what was chosen stands in the form whether it can be or not."""
    try:
        return _looked(form, as_chosen=False)
    except Invalid:
        return None


def _import(who: SignedIn, form: Form, looked: Looked, parts: Parts) -> Import:
    require_someone(looked.columns)
    if form.number("list") is None:
        read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    key = intake.keep(parts.shelf.store, looked, now=parts.clock())
    try:
        with parts.db.transaction(tenant(who.caller)) as tx:
            do_once(
                tx,
                who,
                form.text(once.FIELD),
                instead="They are on their way to the list.",
                leads_to="/lists",
            )
            return intake.place(tx, _into(tx, who, form, parts), looked, key, clock=parts.clock)
    except BaseException:
        parts.shelf.store.delete(key)
        raise


def _into(tx: Tx, who: SignedIn, form: Form, parts: Parts) -> int:
    """The list that is chosen, or a new one."""
    chosen = form.number("list")
    if chosen is not None:
        [into] = lists.read_lists(tx, [chosen])
        intake.require_own(into)
        if not into.processed:
            raise Invalid({"list": [intake.BUSY]})
        return into.id
    body = read_body(NewMailingList, {"description": form.text("description"), "type": "manual"})
    made = list_keeping.make_list(tx, who.caller, parts.sealer, body.columns(parts), now=parts.clock())
    return made.id


def _require_each_once(chosen: Mapping[str, str]) -> None:
    """Of columns that are taken for the same, all but the first are wrong."""
    taken, faults = set[str](), dict[str, list[str]]()
    for place, field in chosen.items():
        if field in taken:
            faults[f"{COLUMN}{place}"] = [TWICE.format(field_title(field))]
        taken |= {field} - {LEFT_OUT}
    if faults:
        raise Invalid(faults)


def _placed(faults: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """At what the form has for it: a column's row, all columns, or the rows that cannot be read."""
    placed: dict[str, list[str]] = {}
    for name, told in faults.items():
        if name == "mapping":
            placed[name] = [NOBODY]
        elif name.startswith("mapping."):
            placed.setdefault(COLUMN + name.removeprefix("mapping."), []).extend(told)
        else:
            placed.setdefault("rows" if name == "file" else name, []).extend(told)
    return placed


def _page(
    request: Request, who: SignedIn, parts: Parts, form: Filled, looked: Looked | None = None
) -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        offered = lists.list_page(tx, PageRequest(1, OFFERED)).rows
        chosen = id_in_path(form.values.get("list", ""))
        if chosen and chosen not in {each.id for each in offered}:
            offered += lists.known_lists(tx, [chosen]).values()
    bars = any(each.id == chosen and each.is_suppression_list for each in offered)
    return list_view(
        request,
        "paste.html",
        who,
        parts,
        form=form,
        own=[each for each in offered if each.kept_for is None],
        looked=looked,
        fields=[(field, field_title(field)) for field in FIELDS],
        samples=[] if looked is None else _samples(looked),
        warnings=[] if looked is None else _warnings(looked, bars=bars),
    )


def _warnings(looked: Looked, *, bars: bool) -> list[str]:
    """On a list that bars people their e-mail is enough."""
    is_enough = bars or have_street(looked.columns)
    return ([] if is_enough else [NO_STREET]) + warnings_of(looked.columns)


def _samples(looked: Looked) -> list[str]:
    """Of each column what stands in its first rows."""
    return [
        " · ".join(row[place] for row in looked.rows[:SHOWN] if place < len(row) and row[place])[:200]
        for place in range(looked.layout.width)
    ]
