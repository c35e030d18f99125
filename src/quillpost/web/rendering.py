"""From a template to a page, and how pages write numbers, money and times."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core import exact_json
from quillpost.core.text import format_time_ago
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


def format_json(value: object, depth: int = 0) -> str:
    """Line by line; numbers stay as they were written."""
    if not isinstance(value, dict | list) or not value:
        return exact_json.dump_json(value)
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        rows = [f"{inner}{format_json(each, depth + 1)}" for each in value]
        return "[\n" + ",\n".join(rows) + f"\n{outer}]"
    rows = [f"{inner}{exact_json.dump_json(name)}: {format_json(each, depth + 1)}" for name, each in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{outer}}}"


def format_date(at: datetime, zone: tzinfo) -> str:
    """`4 May 2026`."""
    local = at.astimezone(zone)
    return f"{local.day} {local:%b %Y}"


def format_time(at: datetime, zone: tzinfo, label: str | None = None, *, has_year: bool = False) -> Markup:
    """A `time` element in the reader's zone, or with a `label` such as `3 minutes ago`; its title is exact. A script
    corrects the zone where it was not known."""
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
"""What our pages never use."""

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
    """A whole page under the policy; browsers revalidate it each time."""
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


def download_headers(file_name: str) -> dict[str, str]:
    """Of a file that is saved, and kept by no cache."""
    return {"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"}


MAX_NEXT_LENGTH = 4_000
NO_RETURN_PATHS = ("/sign-in", "/sign-out", "/session/")

ECHOED_VALUES = ("values", "errors", "unsaved_text")
FORM_ACTION_SELF = "form-action 'self'"
IMG_SRC_SELF = "img-src 'self'"
PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

POPUP_PATHS = ("/sign-in", "/oauth/")
"""Apps open these in a window and wait for their own page there: it keeps its opener."""


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
    A form of it may lead to another site, `redirect_target`. Secrets in `values` and `errors` are hidden."""
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
    """A page that was drawn for nobody, with the header of this user."""
    csrf = create_csrf_token(request, user)
    head_bar = render_template("header.html", user=user, csrf=csrf, path=request.url.path)
    text = text.replace("</head>", f'<link rel="stylesheet" href="{asset_path("dashboard.css")}">\n</head>', 1)
    response = html_response(text.replace(render_template("header.html", user=None), head_bar, 1))
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = _referrer_policy(request)
    return response


def redirect(path: str, *, flash: str | None = None) -> Response:
    """To another page of ours (303), which shows the flash message of this name."""
    if flash is not None:
        if flash not in FLASH_MESSAGES:
            raise ValueError(f"{flash} is no sentence of our pages.")
        path += ("&" if "?" in path else "?") + urlencode({"said": flash})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})


def safe_next(path: str | None) -> str:
    """Where to go after signing in; "/" for anything that is not a path of ours."""
    path = own_path(path)
    return "/" if path.startswith(NO_RETURN_PATHS) else path


def own_path(path: str | None) -> str:
    """ "/" for anything that is not a path of ours: another host, a backslash, a control character, too long."""
    if not path or len(path) > MAX_NEXT_LENGTH or not path.startswith("/") or path.startswith("//"):
        return "/"
    if any(not "!" <= char <= "~" or char == "\\" for char in path):
        return "/"
    if without_secrets(path) != path:  # one that leaked there is not led along
        return "/"
    return path


def sign_in_path(path: str) -> str:
    return path_with_next("/sign-in", path)


def path_with_next(page: str, next_path: str) -> str:
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
    return {
        name: hide_secrets(value) if isinstance(value, str) else [hide_secrets(text) for text in value]
        for name, value in values.items()
    }


def _referrer_policy(request: Request) -> str:
    """Without a referrer browsers hide the origin of a form even from us. Other sites never get it, and where the path
    is a secret nobody does."""
    return "strict-origin" if "token" in request.path_params else "same-origin"


def form_action_source(address: str) -> str:
    """Its origin, or its scheme where it is no plain website."""
    parsed = urlsplit(address)
    if parsed.scheme in ("http", "https") and PLAIN_HOST.fullmatch(parsed.netloc):
        return f"{parsed.scheme}://{parsed.netloc}"
    if SCHEME.fullmatch(parsed.scheme):
        return f"{parsed.scheme}:"
    raise ValueError("A form leads to an address that has no scheme.")
