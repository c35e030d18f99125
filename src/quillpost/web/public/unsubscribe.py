"""Where readers of notices say that it is enough, or that they have changed their mind.

Looking changes nothing, as mail scanners follow every link; a button does, and so does the one click of a
mail program (RFC 8058), which posts to the same address.
"""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response

from quillpost.app.container import Container
from quillpost.core.errors import Invalid, NotFound
from quillpost.notifications import service as notification_service
from quillpost.notifications.messages import NotificationReader
from quillpost.web import rendering
from quillpost.web.dependencies import Services
from quillpost.web.public.partner_webhooks import limit_body

router = APIRouter(include_in_schema=False)

MAX_BODY_BYTES = 2_000
MAX_FIELDS = 10
STOP_FIELDS = {("List-Unsubscribe", "One-Click"), ("do", "stop")}
RESUME_FIELD = ("do", "resume")


@router.get("/unsubscribe/{token}")
def show_choice(request: Request, token: str, container: Services) -> Response:
    """What they get at present, and the button that changes it."""
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
    """Stop, or go on again; said twice, it changes nothing."""
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
    """The fields of a form, either as it is usually written or, as some mail programs do, in parts."""
    text = body.decode("ascii", errors="replace")
    if 'name="List-Unsubscribe"' in text and "One-Click" in text:
        return set(STOP_FIELDS)
    try:
        values_by_name = parse_qs(text, max_num_fields=MAX_FIELDS)
    except ValueError:
        return set()
    return {(name, value.strip()) for name, values in values_by_name.items() for value in values}


def _broken_link_page(request: Request) -> Response:
    """Long links are broken by mail programs: whoever has half of one is told so."""
    if "text/html" not in request.headers.get("accept", ""):
        raise NotFound
    text = rendering.render_template("public/unsubscribe_broken_link.html", release=request.app.state.release)
    return _add_private_headers(rendering.html_response(text, status=404))


def _choice_page(
    request: Request, container: Container, subscriber: NotificationReader, *, is_changed: bool
) -> Response:
    with container.db.system_transaction() as tx:
        values = {
            "sender": notification_service.read_sender_name(tx, subscriber),
            "is_unsubscribed": notification_service.has_unsubscribed(tx, subscriber),
        }
    text = rendering.render_template(
        "public/unsubscribe.html",
        **values,
        address=subscriber.address,
        is_changed=is_changed,
        release=request.app.state.release,
    )
    return _add_private_headers(rendering.html_response(text))


def _add_private_headers(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
