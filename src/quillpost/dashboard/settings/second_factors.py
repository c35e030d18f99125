"""The second factor of whoever reads: set up with an authenticator app, its recovery codes, turned off."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from quillpost.dashboard.entrance.passwords import require_password
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.dashboard.settings.qr_picture import qr_svg
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.people import second_factor
from quillpost.people.sessions import SignedIn
from quillpost.reception import once
from quillpost.reception.forms import PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go, show
from quillpost.reception.visits import ConfirmedReader, OurParts, Reader

router = APIRouter(prefix="/settings/second-factor", include_in_schema=False)

ISSUER = "Quillpost"
WRONG_CODE = (
    "That is not the code that the app shows now. Check that your phone's clock is right, and type the next "
    "one."
)

LOST = "The codes are not shown again: if you have not kept them, make new ones."


@router.get("")
def show_second_factor(request: Request, parts: OurParts, who: ConfirmedReader) -> Response:
    return _page(request, parts, who)


@router.post("")
def turn_on(request: Request, parts: OurParts, who: ConfirmedReader, form: PostedForm) -> Response:
    """On from the first right code, which shows that the app has the secret. Recovery codes are shown now."""
    if who.has_second_factor:
        return go("/settings/second-factor")
    with parts.db.work() as tx:
        codes = second_factor.turn_on(
            tx, parts.sealer, who.person_id, form.text("code"), who.actor, now=parts.clock()
        )
    if codes is None:
        return _page(request, parts, who, faults={"code": [WRONG_CODE]})
    return show(request, "settings/recovery_codes.html", who=who, codes=codes, is_new=True)


@router.post("/codes")
def renew_codes(request: Request, parts: OurParts, who: ConfirmedReader, form: PostedForm) -> Response:
    if not who.has_second_factor:
        return go("/settings/second-factor")
    with parts.db.work() as tx:
        do_once(tx, who, form.text(once.FIELD), instead=LOST, leads_to="/settings/second-factor")
        codes = second_factor.new_recovery_codes(tx, who.person_id, who.actor, now=parts.clock())
    return show(request, "settings/recovery_codes.html", who=who, codes=codes, is_new=False)


@router.post("/off")
def turn_off(request: Request, parts: OurParts, who: Reader, form: PostedForm) -> Response:
    """With the password, however short a while ago it was given."""
    try:
        require_password(request, parts, who, form, "password")
    except Invalid as wrong:
        return _page(request, parts, who, faults=wrong.fields)
    with parts.db.work() as tx:
        second_factor.turn_off(tx, who.person_id, who.actor, now=parts.clock())
    return go("/settings", said="second_factor_off")


def _page(
    request: Request, parts: Parts, who: SignedIn, *, faults: Mapping[str, Sequence[str]] | None = None
) -> Response:
    enrolment, codes_left = None, 0
    with parts.db.work() as tx:
        if who.has_second_factor:
            codes_left = second_factor.left(tx, who.person_id)
        else:
            enrolment = second_factor.begin(tx, parts.sealer, who.person_id, issuer=ISSUER, now=parts.clock())
    return show_form(
        request,
        "settings/second_factor.html",
        who,
        Filled({}, faults or {}),
        enrolment=enrolment,
        picture=None if enrolment is None else qr_svg(enrolment.uri, label="QR code for your app"),
        codes_left=codes_left,
    )
