"""From a template to the page of a reader, and how pages write numbers, money and times."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core.clock import format_time_ago
from quillpost.core.tokens import hide_secrets
from quillpost.rendering.text.addresses import country_name, format_address_lines
from quillpost.web.assets import asset_path, has_packages
from quillpost.web.messages import FLASH_MESSAGES
from quillpost.web.middleware.requests import without_secrets
from quillpost.web.security import VISITOR, create_csrf_token, create_one_time_key, get_zone, set_cookie


def format_number(value: int) -> str:
    return f"{value:,}"


def format_cents(amount: int) -> str:
    """`$1,234.50`, and below zero `−$3.00`."""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}${abs(amount) // 100:,}.{abs(amount) % 100:02d}"


def pluralize(count: int, singular: str, plural_form: str | None = None) -> str:
    """`1 piece`, `2,000 pieces`."""
    return f"{count:,} {singular if count == 1 else plural_form or singular + 's'}"


def format_town(city: str | None, province: str | None, postal_code: str | None, country: str | None = "US") -> str:
    """`Austin, TX 78701`; abroad as the country writes it, with its name: `10115 Berlin, Germany`."""
    if country in (None, "US"):
        return ", ".join(filter(None, (city, " ".join(filter(None, (province, postal_code))))))
    return ", ".join([*format_address_lines(country, [], city, province, postal_code), country_name(country or "")])


def format_date(at: datetime, zone: tzinfo) -> str:
    """A date that nobody reads the wrong way round: `4 May 2026`."""
    local = at.astimezone(zone)
    return f"{local.day} {local:%b %Y}"


def format_time(at: datetime, zone: tzinfo, label: str | None = None, *, has_year: bool = False) -> Markup:
    """A `time` element: in the reader's zone, or in `label` such as `3 minutes ago`. Whoever points at it
    sees all of it, and a script puts it right where the reader's zone was not known. `has_year`: it may be
    long ago."""
    local = at.astimezone(zone)
    exact = f"{local.day} {local:%b %Y, %H:%M}"
    template = Markup('<time datetime="{at}" title="{exact} {name}"{kind}>{shown}</time>')
    kind = Markup("")
    if label is None:
        kind = Markup(' data-moment="year"') if has_year else Markup(" data-moment")
        label = exact if has_year else f"{local.day} {local:%b, %H:%M}"
    return template.format(at=at.isoformat(), exact=exact, name=local.tzname(), kind=kind, shown=label)


CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "publickey-credentials-get",
        "screen-wake-lock",
        "serial",
        "usb",
        "xr-spatial-tracking",
    )
)
"""What our pages never use, and what nothing on them may."""

QUOTED_CODE = re.compile(r"`([^`]+)`")


def format_prose(text: str) -> Markup:
    """Plain words in which `backticks` mark code, as docstrings write it."""
    return Markup(QUOTED_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 (escaped above)


_templates = Environment(
    loader=PackageLoader("quillpost.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {
    "asset": asset_path,
    "has_packages": has_packages,
    "pluralize": pluralize,
    "format_town": format_town,
}
_templates.filters |= {
    "ago": lambda moment, now: format_time_ago(moment, now=now),
    "cents": format_cents,
    "day": format_date,
    "moment": format_time,
    "number": format_number,
    "prose": format_prose,
}


def render_template(template: str, **values: Any) -> str:
    return _templates.get_template(template).render(values)


def html_response(text: str, *, status: int = 200) -> Response:
    """A whole page under the policy; browsers ask again each time they show it."""
    return Response(
        text,
        status_code=status,
        media_type="text/html",
        headers={
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Permissions-Policy": PERMISSIONS_POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-cache",
        },
    )


MAX_NEXT_LENGTH = 4_000
NO_RETURN_PATHS = ("/sign-in", "/sign-out", "/session/")

ECHOED_VALUES = ("values", "errors", "unsaved_text")
FORM_ACTION_SELF = "form-action 'self'"
IMG_SRC_SELF = "img-src 'self'"
PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

POPUP_PATHS = ("/sign-in", "/oauth/")
"""Apps open these in a window of their own, and wait there for their page: it keeps its opener."""


def render_page(
    request: Request,
    template: str,
    *,
    user: SignedInUser | None = None,
    status: int = 200,
    redirect_target: str | None = None,
    has_inline_images: bool = False,
    **values: Any,
) -> Response:
    """The page, with `user`, `csrf`, `one_time_key`, `release`, `path`, `flash`, `note` and `zone` for its template.
    `redirect_target` is another site's address to which a form of this page may lead in the end: the policy allows
    it there. `has_inline_images`: it holds pictures that are nowhere else. Of the `values` of a
    form, and of its `errors`, no secret is shown again."""
    csrf = create_csrf_token(request, user)
    flash = request.query_params.get("said")
    common = {
        "user": user,
        "csrf": csrf,
        "one_time_key": create_one_time_key(),
        "release": request.app.state.release,
        "path": request.url.path,
        "flash": flash if flash in FLASH_MESSAGES else None,
        "note": _flash_text(flash, user),
        "zone": get_zone(request),
    }
    safe_values = {name: _hide_value_secrets(values[name]) for name in ECHOED_VALUES if name in values}
    text = render_template(template, **common | values | safe_values)
    response = html_response(text, status=status)
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = _referrer_policy(request)
    if request.url.path.startswith(POPUP_PATHS):
        del response.headers["Cross-Origin-Opener-Policy"]
    policy = CONTENT_SECURITY_POLICY
    if redirect_target is not None:
        policy = policy.replace(FORM_ACTION_SELF, f"{FORM_ACTION_SELF} {form_action_source(redirect_target)}")
    if has_inline_images:
        policy = policy.replace(IMG_SRC_SELF, f"{IMG_SRC_SELF} data:")
    response.headers["Content-Security-Policy"] = policy
    new_visitor: str | None = getattr(request.state, "new_visitor", None)
    if new_visitor is not None and csrf in text:
        set_cookie(request, response, VISITOR, new_visitor)
    return response


def render_cached_page(request: Request, text: str, user: SignedInUser) -> Response:
    """A page that was drawn once, for nobody (`user=None`), with the head that all pages have for them."""
    csrf = create_csrf_token(request, user)
    head_bar = render_template("header.html", user=user, csrf=csrf, path=request.url.path)
    text = text.replace("</head>", f'<link rel="stylesheet" href="{asset_path("dashboard.css")}">\n</head>', 1)
    response = html_response(text.replace(render_template("header.html", user=None), head_bar, 1))
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = _referrer_policy(request)
    return response


def redirect(path: str, *, flash: str | None = None) -> Response:
    """On to another page of ours (303). `flash` names a sentence that it shows (a known word, no text)."""
    if flash is not None:
        if flash not in FLASH_MESSAGES:
            raise ValueError(f"{flash} is no sentence of our pages.")
        path += ("&" if "?" in path else "?") + urlencode({"said": flash})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})


def safe_next(path: str | None) -> str:
    """A path of ours, to go to after signing in; "/" for anything else."""
    path = own_path(path)
    return "/" if path.startswith(NO_RETURN_PATHS) else path


def own_path(path: str | None) -> str:
    """A path of ours; "/" for anything else: another host, `//host`, a backslash, a control character,
    something too long."""
    if not path or len(path) > MAX_NEXT_LENGTH or not path.startswith("/") or path.startswith("//"):
        return "/"
    if any(not "!" <= char <= "~" or char == "\\" for char in path):
        return "/"
    if without_secrets(path) != path:  # one that leaked there is not led along
        return "/"
    return path


def sign_in_path(path: str) -> str:
    """The sign-in page that leads on to this one."""
    return path_with_next("/sign-in", path)


def path_with_next(page: str, next_path: str) -> str:
    """A page of ours that leads on to another."""
    next_path = safe_next(next_path)
    return page if next_path == "/" else f"{page}?{urlencode({'next': next_path})}"


def _flash_text(flash: str | None, user: SignedInUser | None) -> str | None:
    message = FLASH_MESSAGES.get(flash or "")
    if message is None or "{place}" not in message:
        return message
    if user is None:
        return message.format(place="the account")
    sub_account_title = user.here.sub_account_title
    return message.format(place=user.here.account_name + (f", for {sub_account_title}" if sub_account_title else ""))


def _hide_value_secrets(values: Mapping[str, str | Sequence[str]]) -> Mapping[str, str | Sequence[str]]:
    """By field, one text or several, without any secret of ours that stands where it does not belong."""
    return {
        name: hide_secrets(value) if isinstance(value, str) else [hide_secrets(text) for text in value]
        for name, value in values.items()
    }


def _referrer_policy(request: Request) -> str:
    """Without any referrer browsers hide where a form comes from even from ourselves. Other sites learn
    nothing from it, and where the path is a secret nobody learns that."""
    return "strict-origin" if "token" in request.path_params else "same-origin"


def form_action_source(address: str) -> str:
    """What a policy calls the place: its origin, or its scheme where it is no website of a plain name."""
    parsed = urlsplit(address)
    if parsed.scheme in ("http", "https") and PLAIN_HOST.fullmatch(parsed.netloc):
        return f"{parsed.scheme}://{parsed.netloc}"
    if SCHEME.fullmatch(parsed.scheme):
        return f"{parsed.scheme}:"
    raise ValueError("A form leads to an address that has no scheme.")
