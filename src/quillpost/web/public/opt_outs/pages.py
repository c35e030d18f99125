"""Opting out: of emails (unsubscribe) and of mail (do not mail). GET changes nothing, as scanners follow every link;
a button does, and so does a mail program's one click (RFC 8058). Nobody learns whether a mail code or address is
known."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request, Response

from quillpost.app.container import Container
from quillpost.core.errors import Invalid, NotFound
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from quillpost.privacy import tasks as privacy_tasks
from quillpost.web.api.responses import json_response
from quillpost.web.dependencies import Services
from quillpost.web.public.dependencies import is_for_people, limit_body, render_public_page, seconds_to_wait

router = APIRouter(include_in_schema=False)

MAX_PER_NETWORK = 10  # requests in a minute
MAX_TOTAL = 600

INVALID_CODE = "A code has eight letters and digits, as they are printed on the mail."
DONE_MESSAGE = "If this code is on mail that was sent with this service, its sender mails nothing there any more."
TOO_MANY_MESSAGE = "Too many requests came at once. Try again in a minute."
CONFIRM_MESSAGE = "POST to this address asks for no more mail to the address of the piece with this code."
USAGE_MESSAGE = "POST to /stop/{code} with the code that is printed on the mail."


@router.get("/stop")
def show_stop_form(request: Request, code: Annotated[str | None, Query(max_length=100)] = None) -> Response:
    if code is None or not code.strip():
        return _respond(request, "ask", USAGE_MESSAGE)
    if (parsed_code := privacy_tasks.parse_code(code)) is None:
        return _invalid_code_response(request, code)
    return Response(status_code=303, headers={"Location": f"/stop/{parsed_code}", **PRIVATE_HEADERS})


@router.get("/stop/{code}")
def show_stop_choice(request: Request, code: str) -> Response:
    if (parsed_code := privacy_tasks.parse_code(code)) is None:
        return _invalid_code_response(request, code)
    if privacy_tasks.is_specimen(parsed_code):
        return _respond(request, "specimen", "This is the code of a preview. Each printed piece has its own.")
    return _respond(request, "choice", CONFIRM_MESSAGE, code=parsed_code)


@router.post("/stop/{code}")
def stop_mail(request: Request, code: str, container: Services) -> Response:
    """Stored before it is answered; repeats change nothing."""
    if (parsed_code := privacy_tasks.parse_code(code)) is None or privacy_tasks.is_specimen(parsed_code):
        return _invalid_code_response(request, code)
    wait = seconds_to_wait(request, container, "stop", max_per_network=MAX_PER_NETWORK, max_total=MAX_TOTAL)
    if wait is not None:
        return _respond(request, "throttled", TOO_MANY_MESSAGE, code=parsed_code, status=429, retry_after=wait)
    with container.db.system_transaction() as tx:
        privacy_tasks.record_request(tx, parsed_code, now=container.clock())
    return _respond(request, "done", DONE_MESSAGE)


PRIVATE_HEADERS = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}


def _invalid_code_response(request: Request, code: str) -> Response:
    if not is_for_people(request):
        raise Invalid({"code": [INVALID_CODE]})
    return _respond(request, "wrong", INVALID_CODE, code=code[:20], status=422)


def _respond(
    request: Request, step: str, message: str, *, code: str = "", status: int = 200, retry_after: int | None = None
) -> Response:
    """A page for people, JSON for programs."""
    headers = PRIVATE_HEADERS | ({} if retry_after is None else {"Retry-After": str(retry_after)})
    if not is_for_people(request):
        return json_response({"message": message}, status=status, headers=headers)
    return render_public_page(request, "public/do_not_mail.html", status=status, headers=headers, step=step, code=code)


MAX_BODY_BYTES = 2_000
MAX_FIELDS = 10
STOP_FIELDS = {("List-Unsubscribe", "One-Click"), ("do", "stop")}
RESUME_FIELD = ("do", "resume")


@router.get("/unsubscribe/{token}")
def show_choice(request: Request, token: str, container: Services) -> Response:
    try:
        return _choice_page(
            request, container, notification_service.decode_token(container.encryptor, token), is_changed=False
        )
    except NotFound:
        return _broken_link_page(request)


@router.post("/unsubscribe/{token}")
def change_subscription(
    request: Request, token: str, container: Services, body: Annotated[bytes, Depends(limit_body(MAX_BODY_BYTES))]
) -> Response:
    """Repeats change nothing."""
    try:
        subscriber = notification_service.decode_token(container.encryptor, token)
        return _apply_choice(request, container, subscriber, _parse_fields(body))
    except NotFound:
        return _broken_link_page(request)


def _apply_choice(
    request: Request, container: Container, subscriber: NotificationReader, fields: set[tuple[str, str]]
) -> Response:
    if RESUME_FIELD not in fields and not STOP_FIELDS & fields:
        raise Invalid({"do": ["Say stop or resume."]})
    with container.db.system_transaction() as tx:
        notification_service.read_sender_name(tx, subscriber)
        if RESUME_FIELD in fields:
            notification_service.resubscribe(tx, subscriber)
        else:
            notification_service.unsubscribe(tx, subscriber, now=container.clock())
    return _choice_page(request, container, subscriber, is_changed=True)


def _parse_fields(body: bytes) -> set[tuple[str, str]]:
    """Urlencoded or, as some mail programs do, multipart."""
    text = body.decode("ascii", errors="replace")
    if 'name="List-Unsubscribe"' in text and "One-Click" in text:
        return set(STOP_FIELDS)
    try:
        values_by_name = parse_qs(text, max_num_fields=MAX_FIELDS)
    except ValueError:
        return set()
    return {(name, value.strip()) for name, values in values_by_name.items() for value in values}


def _broken_link_page(request: Request) -> Response:
    """Mail programs break long links: people read so."""
    if not is_for_people(request):
        raise NotFound
    return render_public_page(request, "public/unsubscribe_broken_link.html", status=404, headers=PRIVATE_HEADERS)


def _choice_page(
    request: Request, container: Container, subscriber: NotificationReader, *, is_changed: bool
) -> Response:
    with container.db.system_transaction() as tx:
        sender = notification_service.read_sender_name(tx, subscriber)
        is_unsubscribed = notification_service.has_unsubscribed(tx, subscriber)
    return render_public_page(
        request,
        "public/unsubscribe.html",
        headers=PRIVATE_HEADERS,
        sender=sender,
        is_unsubscribed=is_unsubscribed,
        address=subscriber.address,
        is_changed=is_changed,
    )
