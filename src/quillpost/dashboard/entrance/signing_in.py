"""Signing in and out: the password, the second factor, the password once more."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from quillpost.dashboard.entrance.entering import end_session, let_in
from quillpost.dashboard.entrance.onward import app_awaiting
from quillpost.dashboard.entrance.passwords import NO_EMAIL, NO_PASSWORD, WRONG, WRONG_PASSWORD, too_often
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.people import emails, second_factor, sessions, signing_in
from quillpost.people.own_acts import note_own
from quillpost.reception.cookies import SESSION, drop_cookie, read_cookie, set_cookie
from quillpost.reception.forms import Form, FormOfAnyAccount, PostedForm
from quillpost.reception.show import go, safe_next, show, sign_in_first, with_next
from quillpost.reception.visits import MaybeReader, OurParts, Reader, visitor_of

router = APIRouter(include_in_schema=False)

Next = Annotated[str | None, Query(alias="next")]

WRONG_CODE = "That is not the code, or it was used already. Wait for the next one and type it."
WRONG_RECOVERY_CODE = (
    "That is none of your recovery codes, or it was used already: each is good once. Type another of them, "
    "or the code that your app shows."
)


@router.get("/sign-in")
def ask_password(request: Request, parts: OurParts, who: MaybeReader, wanted: Next = None) -> Response:
    if who is not None:
        return go(safe_next(wanted))
    return _asked(request, parts, wanted)


@router.post("/sign-in")
def take_password(request: Request, parts: OurParts, form: PostedForm) -> Response:
    """A session that this browser had before ends: nobody can plant one that is used after signing in."""
    wanted = _next_of(form)
    try:
        email, password = form.text("email", most=emails.LONGEST), form.secret("password")
    except Invalid as wrong:
        return _asked(request, parts, wanted, faults=wrong.fields)
    needed = (("email", email, NO_EMAIL), ("password", password, NO_PASSWORD))
    if faults := {name: [said] for name, given, said in needed if not given}:
        return _asked(request, parts, wanted, email=email, faults=faults)
    tried = signing_in.sign_in(parts.people, email, password, visitor_of(request), now=parts.clock())
    if tried.outcome == "in":
        return let_in(request, parts, tried, wanted)
    if tried.outcome == "code" and tried.cookie is not None:
        end_session(request, parts)
        half_in = go(with_next("/sign-in/code", wanted))
        set_cookie(request, half_in, SESSION, tried.cookie)
        return half_in
    if tried.outcome == "throttled":
        refused = _asked(
            request,
            parts,
            wanted,
            email=email,
            faults={"password": [too_often(tried.retry_after)]},
            status=429,
        )
        refused.headers["Retry-After"] = str(tried.retry_after)
        return refused
    return _asked(request, parts, wanted, email=email, faults={"password": [WRONG]})


@router.get("/sign-in/code")
def ask_code(request: Request, parts: OurParts, who: MaybeReader, wanted: Next = None) -> Response:
    if who is not None:
        return go(safe_next(wanted))
    cookie = read_cookie(request, SESSION)
    if cookie is None or sessions.awaiting_code(parts.db, cookie, now=parts.clock()) is None:
        return go(sign_in_first(wanted or "/"))
    return show(request, "entrance/sign_in_code.html", next=safe_next(wanted), faults={})


@router.post("/sign-in/code")
def take_code(request: Request, parts: OurParts, form: PostedForm) -> Response:
    cookie, wanted = read_cookie(request, SESSION), _next_of(form)
    if cookie is None or sessions.awaiting_code(parts.db, cookie, now=parts.clock()) is None:
        return go(sign_in_first(wanted))
    code = form.text("code")
    tried = signing_in.give_code(parts.people, cookie, code, visitor_of(request), now=parts.clock())
    if tried.outcome == "in":
        return let_in(request, parts, tried, wanted)
    if tried.outcome == "wrong" and tried.cookie is None:
        over = go(sign_in_first(wanted), said="too_many_codes")
        drop_cookie(request, over, SESSION)
        return over
    if tried.outcome == "throttled":
        return _throttled(request, "entrance/sign_in_code.html", "code", tried.retry_after, next=wanted)
    wrong = WRONG_RECOVERY_CODE if second_factor.is_recovery_code(code) else WRONG_CODE
    return show(request, "entrance/sign_in_code.html", status=422, next=wanted, faults={"code": [wrong]})


@router.get("/sign-in/confirm")
def ask_again(request: Request, who: Reader, wanted: Next = None) -> Response:
    return show(request, "entrance/sign_in_confirm.html", who=who, next=safe_next(wanted), faults={})


@router.post("/sign-in/confirm")
def take_again(request: Request, parts: OurParts, who: Reader, form: PostedForm) -> Response:
    wanted = _next_of(form)
    outcome = signing_in.confirm_password(
        parts.people, who.person_id, form.secret("password"), visitor_of(request)
    )
    if outcome == "throttled":
        return _throttled(request, "entrance/sign_in_confirm.html", "password", None, who=who, next=wanted)
    if outcome != "in":
        faults = {"password": [WRONG_PASSWORD]}
        return show(request, "entrance/sign_in_confirm.html", who=who, status=422, next=wanted, faults=faults)
    with parts.db.work() as tx:
        sessions.confirm(tx, who.session_id, now=parts.clock())
    return go(wanted)


@router.post("/sign-out")
def sign_out(request: Request, parts: OurParts, who: MaybeReader, form: FormOfAnyAccount) -> Response:
    """The session ends on the server too; whoever kept the cookie has nothing."""
    end_session(request, parts)
    if who is not None:
        with parts.db.work() as tx:
            note_own(tx, "sign_out", who.actor, now=parts.clock())
    wanted = _next_of(form)
    left = go("/sign-in", said="signed_out") if wanted == "/" else go(wanted)
    drop_cookie(request, left, SESSION)
    return left


def _next_of(form: Form) -> str:
    return safe_next(form.fields.get("next", ["/"])[0])


def _asked(
    request: Request,
    parts: Parts,
    wanted: str | None,
    *,
    email: str = "",
    faults: dict[str, list[str]] | None = None,
    status: int = 422,
) -> Response:
    return show(
        request,
        "entrance/sign_in.html",
        status=status if faults else 200,
        next=safe_next(wanted),
        app=app_awaiting(parts, safe_next(wanted)),
        typed={"email": email},
        faults=faults or {},
    )


def _throttled(
    request: Request, template: str, field: str, retry_after: int | None, **values: object
) -> Response:
    faults = {field: [too_often(retry_after)]}
    refused = show(request, template, status=429, faults=faults, **values)  # type: ignore[arg-type]
    refused.headers["Retry-After"] = str(retry_after or 60)
    return refused
