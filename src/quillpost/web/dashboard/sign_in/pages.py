"""Signing in and out."""

from typing import Annotated
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from quillpost.accounts.oauth import clients
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users import second_factor, sessions, sign_in
from quillpost.accounts.users.queries import record_person_entry
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.accounts.users.sign_in import BROWSER_TOKEN_LIFETIME, SignInResult
from quillpost.app.container import Container
from quillpost.core.errors import Conflict, Invalid
from quillpost.web.api.responses import json_response
from quillpost.web.dashboard.responses import RequestContext
from quillpost.web.dependencies import Services
from quillpost.web.forms import AccountSwitched, Form, FormOfAnyAccount, PostedForm
from quillpost.web.rendering import path_with_next, redirect, render_page, safe_next, sign_in_path
from quillpost.web.security import KNOWN_BROWSER, SESSION, VISITOR, delete_cookie, read_cookie, set_cookie
from quillpost.web.sessions import CurrentUser, OptionalUser, get_visitor


def complete_sign_in(request: Request, container: Container, attempt: SignInResult, next_path: str) -> Response:
    if attempt.cookie is None:
        raise ValueError("Whoever is let in has a session.")
    end_session(request, container)
    response = redirect(next_path)
    set_session_cookie(request, response, attempt.cookie)
    if attempt.browser_token is not None:
        seconds = int(BROWSER_TOKEN_LIFETIME.total_seconds())
        set_cookie(request, response, KNOWN_BROWSER, attempt.browser_token, seconds=seconds)
    delete_cookie(request, response, VISITOR)
    return response


def set_session_cookie(request: Request, response: Response, cookie: str) -> None:
    set_cookie(request, response, SESSION, cookie, seconds=int(sessions.SESSION_LIFETIME.total_seconds()))


def end_session(request: Request, container: Container) -> None:
    cookie = read_cookie(request, SESSION)
    if cookie is not None:
        with container.db.system_transaction() as tx:
            sessions.end_session(tx, cookie)


CONSENT_PATH = "/oauth/authorize"


def find_waiting_app(container: Container, next_path: str) -> str | None:
    """The name of the app that the next page asks consent for, if any."""
    url = urlsplit(next_path)
    if url.path != CONSENT_PATH:
        return None
    try:
        [client_id] = parse_qs(url.query, max_num_fields=100).get("client_id", [])
        UUID(client_id)
    except ValueError:  # none, several, too much, or no id of ours
        return None
    with container.db.system_transaction() as tx:
        client = clients.find_by_client_id(tx, client_id)
    return None if client is None else client.name


EMAIL_MISSING = "Type your e-mail."
PASSWORD_MISSING = "Type your password."
WRONG_CREDENTIALS = "The e-mail or the password is not right. Try again, or set another password."
WRONG_PASSWORD = "That is not your password."
PASSWORDS_DIFFER = "This is not the same as above. Type both anew."


def read_new_password(form: Form) -> str:
    """Typed twice, as nobody sees it."""
    password = form.secret("password")
    if form.secret("again") != password:
        raise Invalid({"again": [PASSWORDS_DIFFER]})
    return password


def require_password(context: RequestContext, form: Form, field: str) -> None:
    """`Invalid` at the field unless it holds the user's password."""
    outcome = sign_in.confirm_password(
        context.container.sign_in_context, context.user.person_id, form.secret(field), get_visitor(context.request)
    )
    if outcome == "throttled":
        raise Invalid({field: [throttle_message(None)]})
    if outcome != "in":
        raise Invalid({field: [WRONG_PASSWORD]})


def throttle_message(seconds: int | None) -> str:
    """Roughly: the exact second helps only programs, which have a header."""
    minutes = None if seconds is None else -(-seconds // 60)
    wait_label = "a while" if minutes is None else "a minute" if minutes <= 1 else f"{minutes} minutes"
    return f"There were too many attempts. Wait for {wait_label}, and try again."


router = APIRouter(include_in_schema=False)

NextPath = Annotated[str | None, Query(alias="next")]

WRONG_CODE = "That is not the code, or it was used already. Wait for the next one and type it."
WRONG_RECOVERY_CODE = (
    "That is none of your recovery codes, or it was used already: each is good once. Type another of them, "
    "or the code that your app shows."
)


@router.get("/sign-in")
def sign_in_page(request: Request, container: Services, user: OptionalUser, next_path: NextPath = None) -> Response:
    if user is not None:
        return redirect(safe_next(next_path))
    return _render_sign_in_page(request, container, next_path)


@router.post("/sign-in")
def submit_password(request: Request, container: Services, form: PostedForm) -> Response:
    """Ends the browser's former session: nobody can plant one that is used after signing in."""
    next_path = _read_next_path(form)
    try:
        email, password = form.text("email", max_length=user_rules.MAX_EMAIL_LENGTH), form.secret("password")
    except Invalid as error:
        return _render_sign_in_page(request, container, next_path, errors=error.fields)
    required_fields = (("email", email, EMAIL_MISSING), ("password", password, PASSWORD_MISSING))
    if errors := {name: [message] for name, value, message in required_fields if not value}:
        return _render_sign_in_page(request, container, next_path, email=email, errors=errors)
    attempt = sign_in.sign_in(container.sign_in_context, email, password, get_visitor(request), now=container.clock())
    if attempt.outcome == "in":
        return complete_sign_in(request, container, attempt, next_path)
    if attempt.outcome == "code" and attempt.cookie is not None:
        end_session(request, container)
        code_redirect = redirect(path_with_next("/sign-in/code", next_path))
        set_cookie(request, code_redirect, SESSION, attempt.cookie)
        return code_redirect
    if attempt.outcome == "throttled":
        response = _render_sign_in_page(
            request,
            container,
            next_path,
            email=email,
            errors={"password": [throttle_message(attempt.retry_after)]},
            status=429,
        )
        response.headers["Retry-After"] = str(attempt.retry_after)
        return response
    return _render_sign_in_page(request, container, next_path, email=email, errors={"password": [WRONG_CREDENTIALS]})


@router.get("/sign-in/code")
def code_page(request: Request, container: Services, user: OptionalUser, next_path: NextPath = None) -> Response:
    if user is not None:
        return redirect(safe_next(next_path))
    cookie = read_cookie(request, SESSION)
    if cookie is None or sessions.find_person_awaiting_code(container.db, cookie, now=container.clock()) is None:
        return redirect(sign_in_path(next_path or "/"))
    return render_page(request, "sign_in/second_factor_code.html", next_path=safe_next(next_path), errors={})


@router.post("/sign-in/code")
def submit_code(request: Request, container: Services, form: PostedForm) -> Response:
    cookie, next_path = read_cookie(request, SESSION), _read_next_path(form)
    if cookie is None or sessions.find_person_awaiting_code(container.db, cookie, now=container.clock()) is None:
        return redirect(sign_in_path(next_path))
    code = form.text("code")
    attempt = sign_in.submit_code(container.sign_in_context, cookie, code, get_visitor(request), now=container.clock())
    if attempt.outcome == "in":
        return complete_sign_in(request, container, attempt, next_path)
    if attempt.outcome == "wrong" and attempt.cookie is None:
        response = redirect(sign_in_path(next_path), flash="too_many_codes")
        delete_cookie(request, response, SESSION)
        return response
    if attempt.outcome == "throttled":
        return _render_throttled_page(
            request, "sign_in/second_factor_code.html", "code", attempt.retry_after, next_path=next_path
        )
    message = WRONG_RECOVERY_CODE if second_factor.is_recovery_code(code) else WRONG_CODE
    return render_page(
        request, "sign_in/second_factor_code.html", status=422, next_path=next_path, errors={"code": [message]}
    )


@router.get("/sign-in/confirm")
def confirm_password_page(request: Request, user: CurrentUser, next_path: NextPath = None) -> Response:
    return render_page(request, "sign_in/confirm_password.html", user=user, next_path=safe_next(next_path), errors={})


@router.post("/sign-in/confirm")
def submit_password_again(request: Request, container: Services, user: CurrentUser, form: PostedForm) -> Response:
    next_path = _read_next_path(form)
    outcome = sign_in.confirm_password(
        container.sign_in_context, user.person_id, form.secret("password"), get_visitor(request)
    )
    if outcome == "throttled":
        return _render_throttled_page(
            request, "sign_in/confirm_password.html", "password", None, user=user, next_path=next_path
        )
    if outcome != "in":
        errors = {"password": [WRONG_PASSWORD]}
        return render_page(
            request, "sign_in/confirm_password.html", user=user, status=422, next_path=next_path, errors=errors
        )
    with container.db.system_transaction() as tx:
        sessions.confirm_session(tx, user.session_id, now=container.clock())
    return redirect(next_path)


@router.post("/sign-out")
def sign_out(request: Request, container: Services, user: OptionalUser, form: FormOfAnyAccount) -> Response:
    """The session ends on the server too."""
    end_session(request, container)
    if user is not None:
        with container.db.system_transaction() as tx:
            record_person_entry(tx, "sign_out", user.actor, now=container.clock())
    next_path = _read_next_path(form)
    response = redirect("/sign-in", flash="signed_out") if next_path == "/" else redirect(next_path)
    delete_cookie(request, response, SESSION)
    return response


def _read_next_path(form: Form) -> str:
    return safe_next(form.fields.get("next", ["/"])[0])


def _render_sign_in_page(
    request: Request,
    container: Container,
    next_path: str | None,
    *,
    email: str = "",
    errors: dict[str, list[str]] | None = None,
    status: int = 422,
) -> Response:
    return render_page(
        request,
        "sign_in/sign_in.html",
        status=status if errors else 200,
        next_path=safe_next(next_path),
        app_name=find_waiting_app(container, safe_next(next_path)),
        values={"email": email},
        errors=errors or {},
    )


def _render_throttled_page(
    request: Request, template: str, field: str, retry_after: int | None, **values: object
) -> Response:
    errors = {field: [throttle_message(retry_after)]}
    response = render_page(request, template, status=429, errors=errors, **values)  # type: ignore[arg-type]
    response.headers["Retry-After"] = str(retry_after or 60)
    return response


MODES = ("test", "live")
SESSION_MOVED_ON = "You look at another account or mode by now. Load this page again."


@router.post("/session/token")
def issue_page_token(container: Services, user: CurrentUser, form: PostedForm) -> Response:
    """A page names its account and mode: what begins in one does not end in another."""
    _require_same_account(user, form)
    with container.db.system_transaction() as tx:
        token, seconds = sessions.create_page_token(tx, user, now=container.clock())
    return json_response(
        {"token": token, "expires_in": seconds, "mode": user.mode}, headers={"Cache-Control": "no-store"}
    )


@router.post("/session/switch")
def switch_account(container: Services, user: CurrentUser, form: FormOfAnyAccount) -> Response:
    """Another account of the user, or the other mode."""
    mode, membership_id = form.text("mode"), form.number("membership") or _find_page_membership(user, form)
    with container.db.system_transaction() as tx:
        sessions.switch_account(tx, user, membership_id=membership_id, mode=mode if mode in MODES else None)
    return redirect(safe_next(form.text("next", max_length=4_000)))


def _find_page_membership(user: SignedInUser, form: Form) -> int:
    for membership in (user.here, *user.elsewhere):
        if membership.membership_id == form.page_context.membership_id:
            return membership.membership_id
    raise AccountSwitched


def _require_same_account(user: SignedInUser, form: Form) -> None:
    membership, mode = form.number("membership"), form.text("mode")
    if membership not in (None, user.here.membership_id) or mode not in ("", user.mode):
        raise Conflict(SESSION_MOVED_ON)
