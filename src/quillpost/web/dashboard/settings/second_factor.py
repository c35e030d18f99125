"""The second factor: set up, recovery codes, turned off."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from quillpost.accounts.users import second_factor
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.rendering.codes.qr import QrEncoder
from quillpost.web import csrf
from quillpost.web.csrf import use_one_time_key
from quillpost.web.dashboard.forms import FormState, render_form_page
from quillpost.web.dashboard.sign_in.pages import require_password
from quillpost.web.dependencies import Services
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect, render_page
from quillpost.web.sessions import ConfirmedUser, CurrentUser

QUIET_ZONE_MODULES = 4
"""Modules of white around a symbol, without which cameras do not find it."""


def qr_svg(text: str, *, label: str) -> Markup:
    """The picture of an ASCII text, black on white by day and by night."""
    symbol = QrEncoder().encode(text)
    side = symbol.side + 2 * QUIET_ZONE_MODULES
    dark_path = "".join(_dark_runs(row, QUIET_ZONE_MODULES + index) for index, row in enumerate(symbol.rows()))
    return Markup(
        '<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" role="img"'
        ' aria-label="{label}" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h{side}v{side}H0z"/>'
        '<path fill="#000" d="{dark}"/></svg>'
    ).format(side=side, label=label, dark=dark_path)


def _dark_runs(row: str, y: int) -> str:
    """One stroke for each run of dark modules."""
    strokes, x = [], QUIET_ZONE_MODULES
    for is_dark, run in groupby(row, key="1".__eq__):
        length = len(list(run))
        if is_dark:
            strokes.append(f"M{x} {y}h{length}v1h-{length}z")
        x += length
    return "".join(strokes)


router = APIRouter(prefix="/settings/second-factor", include_in_schema=False)

ISSUER = "Quillpost"
WRONG_CODE = (
    "That is not the code that the app shows now. Check that your phone's clock is right, and type the next one."
)

CODES_SHOWN_ONCE = "The codes are not shown again: if you have not kept them, make new ones."


@router.get("")
def second_factor_page(request: Request, container: Services, user: ConfirmedUser) -> Response:
    return _render_page(request, container, user)


@router.post("")
def turn_on_second_factor(request: Request, container: Services, user: ConfirmedUser, form: PostedForm) -> Response:
    """On from the first right code, which shows that the app has the secret. Recovery codes are shown now."""
    if user.has_second_factor:
        return redirect("/settings/second-factor")
    with container.db.system_transaction() as tx:
        codes = second_factor.enable_second_factor(
            tx, container.encryptor, user.person_id, form.text("code"), user.actor, now=container.clock()
        )
    if codes is None:
        return _render_page(request, container, user, errors={"code": [WRONG_CODE]})
    return render_page(request, "settings/recovery_codes.html", user=user, codes=codes, is_new=True)


@router.post("/codes")
def renew_codes(request: Request, container: Services, user: ConfirmedUser, form: PostedForm) -> Response:
    if not user.has_second_factor:
        return redirect("/settings/second-factor")
    with container.db.system_transaction() as tx:
        use_one_time_key(
            tx, user, form.text(csrf.ONE_TIME_FIELD), hint=CODES_SHOWN_ONCE, result_path="/settings/second-factor"
        )
        codes = second_factor.create_recovery_codes(tx, user.person_id, user.actor, now=container.clock())
    return render_page(request, "settings/recovery_codes.html", user=user, codes=codes, is_new=False)


@router.post("/off")
def turn_off_second_factor(request: Request, container: Services, user: CurrentUser, form: PostedForm) -> Response:
    """With the password, however short a while ago it was given."""
    try:
        require_password(request, container, user, form, "password")
    except Invalid as error:
        return _render_page(request, container, user, errors=error.fields)
    with container.db.system_transaction() as tx:
        second_factor.disable_second_factor(tx, user.person_id, user.actor, now=container.clock())
    return redirect("/settings", flash="second_factor_off")


def _render_page(
    request: Request, container: Container, user: SignedInUser, *, errors: Mapping[str, Sequence[str]] | None = None
) -> Response:
    enrollment, codes_left = None, 0
    with container.db.system_transaction() as tx:
        if user.has_second_factor:
            codes_left = second_factor.count_recovery_codes(tx, user.person_id)
        else:
            enrollment = second_factor.begin_enrollment(
                tx, container.encryptor, user.person_id, issuer=ISSUER, now=container.clock()
            )
    return render_form_page(
        request,
        "settings/second_factor.html",
        user,
        FormState({}, errors or {}),
        enrollment=enrollment,
        qr_code=None if enrollment is None else qr_svg(enrollment.uri, label="QR code for your app"),
        codes_left=codes_left,
    )
