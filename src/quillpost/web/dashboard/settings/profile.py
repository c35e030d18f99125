"""A user's own page: name, password, sessions."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from quillpost.accounts.users import password_resets, second_factor, sessions
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.queries import note_own
from quillpost.accounts.users.sessions import SignedIn
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, NotFound
from quillpost.web.api.dependencies import id_in_path
from quillpost.web.dashboard.forms import Filled, show_form
from quillpost.web.dashboard.sign_in.pages import chosen_password, require_password, set_session_cookie
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import go
from quillpost.web.sessions import OurParts, Reader

# The first that is found counts: most of them say that they are each other.
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
LONGEST = 40


def browser_name(user_agent: str | None) -> str:
    """Firefox on Linux, say; the beginning of its own name for a browser that we do not know."""
    if not user_agent:
        return "Unknown browser"
    browser = next((name for mark, name in BROWSERS if mark in user_agent), None)
    system = next((name for mark, name in SYSTEMS if mark in user_agent), None)
    if browser is None:
        return user_agent[:LONGEST]
    return browser if system is None else f"{browser} on {system}"


router = APIRouter(include_in_schema=False)


@router.get("/settings")
def show_profile(request: Request, parts: OurParts, who: Reader) -> Response:
    return _page(request, parts, who)


@router.post("/settings/name")
def change_name(request: Request, parts: OurParts, who: Reader, form: PostedForm) -> Response:
    name = form.text("name")
    try:
        with parts.db.work() as tx:
            user_rules.rename(tx, who.person_id, name, now=parts.clock())
    except Invalid as wrong:
        return _page(request, parts, who, name=name, faults=wrong.fields)
    return go("/settings", said="name_changed")


@router.post("/settings/password")
def change_password(request: Request, parts: OurParts, who: Reader, form: PostedForm) -> Response:
    """With the present one, however short a while ago it was given: a browser left open is not enough."""
    try:
        password = chosen_password(form)
        require_password(request, parts, who, form, "present")
        cookie = password_resets.change(
            parts.people, who.person_id, password, who.actor, session_id=who.session_id, now=parts.clock()
        )
    except Invalid as wrong:
        return _page(request, parts, who, faults=wrong.fields)
    onward = go("/settings", said="password_changed")
    set_session_cookie(request, onward, cookie)
    return onward


@router.post("/settings/sessions/end-others")
def end_other_sessions(parts: OurParts, who: Reader, _form: PostedForm) -> Response:
    with parts.db.work() as tx:
        ended = sessions.end_sessions(tx, who.person_id, but=who.session_id)
        note_own(tx, "sessions.ended", who.actor, about={"how_many": ended}, now=parts.clock())
    return go("/settings", said="sessions_ended")


@router.post("/settings/sessions/{session}/end")
def end_one_session(session: str, parts: OurParts, who: Reader, _form: PostedForm) -> Response:
    with parts.db.work() as tx:
        if not sessions.end_sessions(tx, who.person_id, only=id_in_path(session)):
            raise NotFound
        note_own(tx, "sessions.ended", who.actor, about={"how_many": 1}, now=parts.clock())
    return go("/settings", said="session_ended")


def _page(
    request: Request,
    parts: Parts,
    who: SignedIn,
    *,
    name: str | None = None,
    faults: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    now = parts.clock()
    with parts.db.work() as tx:
        open_sessions = sessions.list_sessions(tx, who.person_id, now=now)
        codes_left = second_factor.left(tx, who.person_id) if who.has_second_factor else 0
    return show_form(
        request,
        "settings/profile.html",
        who,
        Filled({"name": [who.name if name is None else name]}, faults or {}),
        sessions=open_sessions,
        browser_name=browser_name,
        codes_left=codes_left,
        now=now,
    )
