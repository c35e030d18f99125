"""From a template to an answer that a browser may trust: nothing inline, nothing from elsewhere."""

import re
from typing import Any

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quillpost.kit.times import ago
from quillpost.pages.assets import asset, has_packages
from quillpost.pages.plain_words import plainly
from quillpost.pages.wording import cents, day, moment, number, plural, town

POLICY = "; ".join(
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

CLOSED = ", ".join(
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


def prose(text: str) -> Markup:
    """Plain words in which `backticks` mark code, as docstrings write it."""
    return Markup(QUOTED_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 (escaped above)


_templates = Environment(
    loader=PackageLoader("quillpost.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {"asset": asset, "has_packages": has_packages, "plural": plural, "town": town}
_templates.filters["prose"] = prose
_templates.filters |= {"cents": cents, "number": number, "day": day, "moment": moment, "plainly": plainly}
_templates.filters["ago"] = lambda moment, now: ago(moment, now=now)


def text_of(template: str, **values: Any) -> str:
    return _templates.get_template(template).render(values)


def page(text: str, *, status: int = 200) -> Response:
    """A whole page under the policy; browsers ask again each time they show it."""
    return Response(
        text,
        status_code=status,
        media_type="text/html",
        headers={
            "Content-Security-Policy": POLICY,
            "Permissions-Policy": CLOSED,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-cache",
        },
    )
