"""For whoever has forgotten the password: a link by e-mail, and the page that it leads to."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request, Response

from quillpost.dashboard.entrance.passwords import NO_EMAIL, chosen_password
from quillpost.dashboard.form_pages import Filled, show_form
from quillpost.kit.errors import Invalid
from quillpost.kit.tokens import is_of_kind
from quillpost.parts import Parts
from quillpost.people import emails, resets
from quillpost.people.sessions import SignedIn
from quillpost.reception.cookies import SESSION, drop_cookie
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go, show
from quillpost.reception.visits import MaybeReader, OurParts, address_of

router = APIRouter(include_in_schema=False)


@router.get("/forgot")
def ask_email(request: Request, parts: OurParts, who: MaybeReader) -> Response:
    return _asked(request, parts, who)


@router.post("/forgot")
def send_link(request: Request, parts: OurParts, who: MaybeReader, form: PostedForm) -> Response:
    """Whether somebody has this e-mail is not told: the answer is the same."""
    email = form.text("email", most=emails.LONGEST)
    if "@" not in email:
        return _asked(request, parts, who, email=email, faults={"email": [NO_EMAIL]})
    resets.ask(parts.people, email, base_url=parts.base_url, address=address_of(request), now=parts.clock())
    return go("/forgot", said="reset_asked" if parts.sends_mail else "reset_unsent")


@router.get("/reset/{token}")
def ask_new_password(request: Request, token: str, parts: OurParts, who: MaybeReader) -> Response:
    return _page(request, parts, token, who)


@router.post("/reset/{token}")
def set_new_password(
    request: Request, token: str, parts: OurParts, who: MaybeReader, form: PostedForm
) -> Response:
    if not is_of_kind(token, "reset"):
        return _over(request, who)
    try:
        password = chosen_password(form)
        is_set = resets.reset(parts.people, token, password, address=address_of(request), now=parts.clock())
    except Invalid as wrong:
        return _page(request, parts, token, who, faults=wrong.fields)
    if not is_set:
        return _over(request, who)
    done = go("/sign-in", said="password_reset")
    drop_cookie(request, done, SESSION)
    return done


def _asked(
    request: Request,
    parts: Parts,
    who: SignedIn | None,
    *,
    email: str = "",
    faults: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    form = Filled({"email": [email]}, faults or {})
    return show_form(request, "entrance/forgot.html", who, form, sends_mail=parts.sends_mail)


def _page(
    request: Request,
    parts: Parts,
    token: str,
    who: SignedIn | None,
    *,
    faults: Mapping[str, Sequence[str]] | None = None,
) -> Response:
    with parts.db.work() as tx:
        email = resets.whose(tx, token, now=parts.clock()) if is_of_kind(token, "reset") else None
    if email is None:
        return _over(request, who)
    return show_form(request, "entrance/reset.html", who, Filled({}, faults or {}), email=email)


def _over(request: Request, who: SignedIn | None) -> Response:
    """Used, old and unknown links look alike."""
    return show(request, "entrance/link_over.html", who=who, status=404, kind="reset")
