"""A user's own page: name, password, sessions, second factor."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from fastapi import APIRouter, Response
from markupsafe import Markup

from quillpost.accounts.users import passwords, second_factor, sessions
from quillpost.accounts.users.queries import record_person_entry
from quillpost.accounts.users.service import rename_person
from quillpost.core.errors import Invalid, NotFound
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import ConfirmedUserContext, PathId, RequestContext, UserContext
from quillpost.web.dashboard.sign_in.pages import read_new_password, require_password, set_session_cookie
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect
from quillpost.web.security import use_one_time_key

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
    """ "Firefox on Linux"; for an unknown browser the start of its user agent."""
    if not user_agent:
        return "Unknown browser"
    browser = next((name for marker, name in BROWSERS if marker in user_agent), None)
    system = next((name for marker, name in OPERATING_SYSTEMS if marker in user_agent), None)
    if browser is None:
        return user_agent[:MAX_BROWSER_NAME_LENGTH]
    return browser if system is None else f"{browser} on {system}"


router = APIRouter(include_in_schema=False)


@router.get("/settings")
def profile_page(context: UserContext) -> Response:
    return _render_profile(context)


@router.post("/settings/name")
def change_name(context: UserContext, form: PostedForm) -> Response:
    name = form.text("name")
    try:
        with context.system_transaction() as tx:
            rename_person(tx, context.user.person_id, name, now=context.now())
    except Invalid as error:
        return _render_profile(context, name=name, errors=error.fields)
    return redirect("/settings", flash="name_changed")


@router.post("/settings/password")
def change_password(context: UserContext, form: PostedForm) -> Response:
    """Needs the present password even if it was confirmed just now: an open browser is not enough."""
    try:
        password = read_new_password(form)
        require_password(context, form, "present")
        cookie = passwords.change_password(
            context.container.sign_in_context,
            context.user.person_id,
            password,
            context.user.actor,
            session_id=context.user.session_id,
            now=context.now(),
        )
    except Invalid as error:
        return _render_profile(context, errors=error.fields)
    response = redirect("/settings", flash="password_changed")
    set_session_cookie(context.request, response, cookie)
    return response


@router.post("/settings/sessions/end-others")
def end_other_sessions(context: UserContext, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        ended_count = sessions.end_sessions(tx, context.user.person_id, except_id=context.user.session_id)
        record_person_entry(
            tx, "sessions.ended", context.user.actor, about={"how_many": ended_count}, now=context.now()
        )
    return redirect("/settings", flash="sessions_ended")


@router.post("/settings/sessions/{session}/end")
def end_session(context: UserContext, session: PathId, _form: PostedForm) -> Response:
    with context.system_transaction() as tx:
        if not sessions.end_sessions(tx, context.user.person_id, only_id=session):
            raise NotFound
        record_person_entry(tx, "sessions.ended", context.user.actor, about={"how_many": 1}, now=context.now())
    return redirect("/settings", flash="session_ended")


def _render_profile(
    context: RequestContext, *, name: str | None = None, errors: Mapping[str, Sequence[str]] | None = None
) -> Response:
    now = context.now()
    with context.system_transaction() as tx:
        open_sessions = sessions.list_sessions(tx, context.user.person_id, now=now)
        codes_left = (
            second_factor.count_recovery_codes(tx, context.user.person_id) if context.user.has_second_factor else 0
        )
    return context.render(
        "settings/profile.html",
        FormState({"name": [context.user.name if name is None else name]}, errors or {}),
        sessions=open_sessions,
        browser_name=browser_name,
        codes_left=codes_left,
        now=now,
    )


QUIET_ZONE_MODULES = 4  # white around the symbol, without which cameras do not find it


def qr_svg(text: str, *, label: str) -> Markup:
    """Of an ASCII text, black on white in dark mode too."""
    symbol = QrEncoder().encode(text)
    side = symbol.side + 2 * QUIET_ZONE_MODULES
    dark_path = "".join(_dark_runs(row, QUIET_ZONE_MODULES + index) for index, row in enumerate(symbol.rows()))
    return Markup(
        '<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" role="img"'
        ' aria-label="{label}" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h{side}v{side}H0z"/>'
        '<path fill="#000" d="{dark}"/></svg>'
    ).format(side=side, label=label, dark=dark_path)


def _dark_runs(row: str, y: int) -> str:
    strokes, x = [], QUIET_ZONE_MODULES
    for is_dark, run in groupby(row, key="1".__eq__):
        length = len(list(run))
        if is_dark:
            strokes.append(f"M{x} {y}h{length}v1h-{length}z")
        x += length
    return "".join(strokes)


SECOND_FACTOR_PATH = "/settings/second-factor"

ISSUER = "Quillpost"
WRONG_CODE = (
    "That is not the code that the app shows now. Check that your phone's clock is right, and type the next one."
)

CODES_SHOWN_ONCE = "The codes are not shown again: if you have not kept them, make new ones."


@router.get(SECOND_FACTOR_PATH)
def second_factor_page(context: ConfirmedUserContext) -> Response:
    return _render_second_factor(context)


@router.post(SECOND_FACTOR_PATH)
def turn_on_second_factor(context: ConfirmedUserContext, form: PostedForm) -> Response:
    """On from the first valid code, which proves that the app has the secret. Shows the recovery codes."""
    if context.user.has_second_factor:
        return redirect(SECOND_FACTOR_PATH)
    with context.system_transaction() as tx:
        codes = second_factor.enable_second_factor(
            tx,
            context.container.encryptor,
            context.user.person_id,
            form.text("code"),
            context.user.actor,
            now=context.now(),
        )
    if codes is None:
        return _render_second_factor(context, errors={"code": [WRONG_CODE]})
    return context.render("settings/recovery_codes.html", codes=codes, is_new=True)


@router.post(f"{SECOND_FACTOR_PATH}/codes")
def renew_codes(context: ConfirmedUserContext, form: PostedForm) -> Response:
    if not context.user.has_second_factor:
        return redirect(SECOND_FACTOR_PATH)
    with context.system_transaction() as tx:
        use_one_time_key(tx, context.user, form.one_time_key, hint=CODES_SHOWN_ONCE, result_path=SECOND_FACTOR_PATH)
        codes = second_factor.create_recovery_codes(tx, context.user.person_id, context.user.actor, now=context.now())
    return context.render("settings/recovery_codes.html", codes=codes, is_new=False)


@router.post(f"{SECOND_FACTOR_PATH}/off")
def turn_off_second_factor(context: UserContext, form: PostedForm) -> Response:
    """Needs the password even if it was confirmed just now."""
    try:
        require_password(context, form, "password")
    except Invalid as error:
        return _render_second_factor(context, errors=error.fields)
    with context.system_transaction() as tx:
        second_factor.disable_second_factor(tx, context.user.person_id, context.user.actor, now=context.now())
    return redirect("/settings", flash="second_factor_off")


def _render_second_factor(context: RequestContext, *, errors: Mapping[str, Sequence[str]] | None = None) -> Response:
    enrollment, codes_left = None, 0
    with context.system_transaction() as tx:
        if context.user.has_second_factor:
            codes_left = second_factor.count_recovery_codes(tx, context.user.person_id)
        else:
            enrollment = second_factor.begin_enrollment(
                tx, context.container.encryptor, context.user.person_id, issuer=ISSUER, now=context.now()
            )
    return context.render(
        "settings/second_factor.html",
        FormState({}, errors or {}),
        enrollment=enrollment,
        qr_code=None if enrollment is None else qr_svg(enrollment.uri, label="QR code for your app"),
        codes_left=codes_left,
    )
