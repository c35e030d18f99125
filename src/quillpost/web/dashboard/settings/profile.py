"""A user's own page: name, password, sessions."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from quillpost.accounts.users import password_resets, second_factor, sessions
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.queries import record_person_entry
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid, NotFound
from quillpost.web.api.dependencies import parse_path_id
from quillpost.web.dashboard.forms import FormState, render_form_page
from quillpost.web.dashboard.sign_in.pages import read_new_password, require_password, set_session_cookie
from quillpost.web.dependencies import Services
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.sessions import CurrentUser

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
OPERATING_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
MAX_BROWSER_NAME_LENGTH = 40


def browser_name(user_agent: str | None) -> str:
    """Firefox on Linux, say; the beginning of its own name for a browser that we do not know."""
    if not user_agent:
        return "Unknown browser"
    browser = next((name for marker, name in BROWSERS if marker in user_agent), None)
    system = next((name for marker, name in OPERATING_SYSTEMS if marker in user_agent), None)
    if browser is None:
        return user_agent[:MAX_BROWSER_NAME_LENGTH]
    return browser if system is None else f"{browser} on {system}"


router = APIRouter(include_in_schema=False)


@router.get("/settings")
def profile_page(request: Request, container: Services, user: CurrentUser) -> Response:
    return _render_profile(request, container, user)


@router.post("/settings/name")
def change_name(request: Request, container: Services, user: CurrentUser, form: PostedForm) -> Response:
    name = form.text("name")
    try:
        with container.db.system_transaction() as tx:
            user_rules.rename_person(tx, user.person_id, name, now=container.clock())
    except Invalid as error:
        return _render_profile(request, container, user, name=name, errors=error.fields)
    return redirect("/settings", flash="name_changed")


@router.post("/settings/password")
def change_password(request: Request, container: Services, user: CurrentUser, form: PostedForm) -> Response:
    """With the present one, however short a while ago it was given: a browser left open is not enough."""
    try:
        password = read_new_password(form)
        require_password(request, container, user, form, "present")
        cookie = password_resets.change_password(
            container.sign_in_context,
            user.person_id,
            password,
            user.actor,
            session_id=user.session_id,
            now=container.clock(),
        )
    except Invalid as error:
        return _render_profile(request, container, user, errors=error.fields)
    response = redirect("/settings", flash="password_changed")
    set_session_cookie(request, response, cookie)
    return response


@router.post("/settings/sessions/end-others")
def end_other_sessions(container: Services, user: CurrentUser, _form: PostedForm) -> Response:
    with container.db.system_transaction() as tx:
        ended_count = sessions.end_sessions(tx, user.person_id, except_id=user.session_id)
        record_person_entry(tx, "sessions.ended", user.actor, about={"how_many": ended_count}, now=container.clock())
    return redirect("/settings", flash="sessions_ended")


@router.post("/settings/sessions/{session}/end")
def end_session(session: str, container: Services, user: CurrentUser, _form: PostedForm) -> Response:
    with container.db.system_transaction() as tx:
        if not sessions.end_sessions(tx, user.person_id, only_id=parse_path_id(session)):
            raise NotFound
        record_person_entry(tx, "sessions.ended", user.actor, about={"how_many": 1}, now=container.clock())
    return redirect("/settings", flash="session_ended")


def _render_profile(
    request: Request,
    container: Container,
    user: SignedInUser,
    *,
    name: str | None = None,
    errors: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    now = container.clock()
    with container.db.system_transaction() as tx:
        open_sessions = sessions.list_sessions(tx, user.person_id, now=now)
        codes_left = second_factor.count_recovery_codes(tx, user.person_id) if user.has_second_factor else 0
    return render_form_page(
        request,
        "settings/profile.html",
        user,
        FormState({"name": [user.name if name is None else name]}, errors or {}),
        sessions=open_sessions,
        browser_name=browser_name,
        codes_left=codes_left,
        now=now,
    )
