"""Where our pages are, and whether a request comes from one of them."""

from urllib.parse import urlsplit

from fastapi import Request

from quillpost.kit.errors import Forbidden
from quillpost.parts import Parts

OWN_SITES = frozenset({"same-origin", "none"})
"""What browsers say of a request (Sec-Fetch-Site) that a page of ours, or their user's own hand, has made."""

NOT_OURS = "This form was sent by another site. Open the page here, and send it from there."


def own_origins(request: Request) -> frozenset[str]:
    """As this request found us, and as the settings say, which knows of any proxy."""
    parts: Parts = request.app.state.parts
    base = urlsplit(parts.base_url)
    found = f"{request.url.scheme}://{request.headers.get('host', '')}"
    return frozenset({found.lower(), f"{base.scheme}://{base.netloc}".lower()})


def require_own_site(request: Request) -> None:
    """`Forbidden` if a browser says that another site has sent it."""
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() not in own_origins(request):
        raise Forbidden(NOT_OURS)
    if request.headers.get("sec-fetch-site", "same-origin") not in OWN_SITES:
        raise Forbidden(NOT_OURS)
