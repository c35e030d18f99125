"""Signing in and out."""

from typing import Annotated
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from quillpost.accounts.oauth import clients
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users import second_factor, sessions, sign_in
from quillpost.accounts.users.queries import note_own
from quillpost.accounts.users.sessions import SignedIn
from quillpost.accounts.users.sign_in import Attempt
from quillpost.app.container import Parts
from quillpost.core.errors import Conflict, Invalid
from quillpost.web.api.responses import answer
from quillpost.web.cookies import KNOWN, SESSION, VISITOR, drop_cookie, read_cookie, set_cookie
from quillpost.web.forms import Form, FormOfAnyAccount, MovedOn, PostedForm
from quillpost.web.rendering import go, safe_next, show, sign_in_first, with_next
from quillpost.web.sessions import MaybeReader, OurParts, Reader, visitor_of


def let_in(request: Request, parts: Parts, attempt: Attempt, wanted: str) -> Response:
    """On to where they wanted to go, signed in from now on."""
    if attempt.cookie is None:
        raise ValueError("Whoever is let in has a session.")
    end_session(request, parts)
    onward = go(wanted)
    set_session_cookie(request, onward, attempt.cookie)
    if attempt.known is not None:
        lasts = int(user_queries.LASTS.total_seconds())
        set_cookie(request, onward, KNOWN, attempt.known, seconds=lasts)
    drop_cookie(request, onward, VISITOR)
    return onward


def set_session_cookie(request: Request, response: Response, cookie: str) -> None:
    set_cookie(request, response, SESSION, cookie, seconds=int(sessions.LASTS.total_seconds()))


def end_session(request: Request, parts: Parts) -> None:
    """The one that this browser has, whoever's it is."""
    cookie = read_cookie(request, SESSION)
    if cookie is not None:
        with parts.db.work() as tx:
            sessions.end_session(tx, cookie)


CONSENT = "/oauth/authorize"


def app_awaiting(parts: Parts, wanted: str) -> str | None:
    """The name of the app that asks for leave on the page that comes next; None: it is another page, or we
    know no such app."""
    page = urlsplit(wanted)
    if page.path != CONSENT:
        return None
    try:
        [client_id] = parse_qs(page.query, max_num_fields=100).get("client_id", [])
        UUID(client_id)
    except ValueError:  # none, several, too much, or no id of ours
        return None
    with parts.db.work() as tx:
        client = clients.by_client_id(tx, client_id)
    return None if client is None else client.name


NO_EMAIL = "Type your e-mail."
NO_PASSWORD = "Type your password."  # noqa: S105 (a sentence)
WRONG = "The e-mail or the password is not right. Try again, or set another password."
WRONG_PASSWORD = "That is not your password."  # noqa: S105 (a sentence)
DIFFERENT = "This is not the same as above. Type both anew."


def chosen_password(form: Form) -> str:
    """A new password, typed twice as nobody sees what they type."""
    password = form.secret("password")
    if form.secret("again") != password:
        raise Invalid({"again": [DIFFERENT]})
    return password


def require_password(request: Request, parts: Parts, who: SignedIn, form: Form, field: str) -> None:
    """`Invalid` (that field) unless it holds the reader's password."""
    given = form.secret(field)
    outcome = sign_in.confirm_password(parts.people, who.person_id, given, visitor_of(request))
    if outcome == "throttled":
        raise Invalid({field: [too_often(None)]})
    if outcome != "in":
        raise Invalid({field: [WRONG_PASSWORD]})


def too_often(seconds: int | None) -> str:
    """When to try again, in words: the exact second helps only programs, which are told in a header."""
    minutes = None if seconds is None else -(-seconds // 60)
    wait = "a while" if minutes is None else "a minute" if minutes <= 1 else f"{minutes} minutes"
    return f"There were too many attempts. Wait for {wait}, and try again."


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
        email, password = form.text("email", most=user_rules.LONGEST), form.secret("password")
    except Invalid as wrong:
        return _asked(request, parts, wanted, faults=wrong.fields)
    needed = (("email", email, NO_EMAIL), ("password", password, NO_PASSWORD))
    if faults := {name: [said] for name, given, said in needed if not given}:
        return _asked(request, parts, wanted, email=email, faults=faults)
    tried = sign_in.sign_in(parts.people, email, password, visitor_of(request), now=parts.clock())
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
    tried = sign_in.give_code(parts.people, cookie, code, visitor_of(request), now=parts.clock())
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
    outcome = sign_in.confirm_password(
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


MODES = ("test", "live")
MOVED_ON = "You look at another account or mode by now. Load this page again."


@router.post("/session/token")
def give_token(parts: OurParts, who: Reader, form: PostedForm) -> Response:
    """A page says for which account and mode it was made: what is begun in one is not finished in another."""
    _require_same(who, form)
    with parts.db.work() as tx:
        token, seconds = sessions.page_token(tx, who, now=parts.clock())
    return answer(
        {"token": token, "expires_in": seconds, "mode": who.mode}, headers={"Cache-Control": "no-store"}
    )


@router.post("/session/switch")
def switch(parts: OurParts, who: Reader, form: FormOfAnyAccount) -> Response:
    """Another of one's accounts, or the other mode of the one that the page was about."""
    mode, chosen = form.text("mode"), form.number("membership") or _page_was_about(who, form)
    with parts.db.work() as tx:
        sessions.switch(tx, who, membership_id=chosen, mode=mode if mode in MODES else None)
    return go(safe_next(form.text("next", most=4_000)))


def _page_was_about(who: SignedIn, form: Form) -> int:
    for each in (who.here, *who.elsewhere):
        if each.membership_id == form.about.membership_id:
            return each.membership_id
    raise MovedOn


def _require_same(who: SignedIn, form: Form) -> None:
    membership, mode = form.number("membership"), form.text("mode")
    if membership not in (None, who.here.membership_id) or mode not in ("", who.mode):
        raise Conflict(MOVED_ON)
