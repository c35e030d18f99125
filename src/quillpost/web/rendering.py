"""From a template to the page of a reader, and how pages write numbers, money and times."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from quillpost.accounts.users.sessions import SignedIn
from quillpost.core.clock import ago
from quillpost.core.tokens import hide_secrets
from quillpost.rendering.text.addresses import address_lines
from quillpost.rendering.text.countries import country_name
from quillpost.web.assets import asset, has_packages
from quillpost.web.cookies import COOKIE, VISITOR, set_cookie, zone_of
from quillpost.web.csrf import csrf_token, new_key
from quillpost.web.flash import SAID
from quillpost.web.middleware.path_secrets import without_secrets


def number(n: int) -> str:
    return f"{n:,}"


def cents(amount: int) -> str:
    """`$1,234.50`, and below zero `−$3.00`."""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}${abs(amount) // 100:,}.{abs(amount) % 100:02d}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 piece`, `2,000 pieces`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def town(city: str | None, province: str | None, postal_code: str | None, country: str | None = "US") -> str:
    """`Austin, TX 78701`; abroad as the country writes it, with its name: `10115 Berlin, Germany`."""
    if country in (None, "US"):
        return ", ".join(filter(None, (city, " ".join(filter(None, (province, postal_code))))))
    return ", ".join([*address_lines(country, [], city, province, postal_code), country_name(country or "")])


def day(at: datetime, zone: tzinfo) -> str:
    """A date that nobody reads the wrong way round: `4 May 2026`."""
    there = at.astimezone(zone)
    return f"{there.day} {there:%b %Y}"


def moment(at: datetime, zone: tzinfo, words: str | None = None, *, has_year: bool = False) -> Markup:
    """A `time` element: in the reader's zone, or in `words` such as `3 minutes ago`. Whoever points at it
    sees all of it, and a script puts it right where the reader's zone was not known. `has_year`: it may be
    long ago."""
    there = at.astimezone(zone)
    exact = f"{there.day} {there:%b %Y, %H:%M}"
    full = Markup('<time datetime="{at}" title="{exact} {name}"{kind}>{shown}</time>')
    kind = Markup("")
    if words is None:
        kind = Markup(' data-moment="year"') if has_year else Markup(" data-moment")
        words = exact if has_year else f"{there.day} {there:%b, %H:%M}"
    return full.format(at=at.isoformat(), exact=exact, name=there.tzname(), kind=kind, shown=words)


FRONT: Final = "the picture on the front"

NAMES: Final[Mapping[str, str]] = {
    "front_image_url": FRONT,
    "image_template": FRONT,
    "custom_background_image": "the picture under the handwriting",
    "custom_background_url": "the picture under the handwriting",
    "additional_pages": "the PDF",
    "additional_pages_url": "the PDF",
    "pdf_only_url": "the PDF",
    "message_template": "the saved message",
    "sub_account_id": "the sub account",
    "mailing_list_ids": "the list",
    "landing_page_url": "the page to visit first",
    "qrcode_url": "the link of the QR code",
    "handwriting_color": "ink",
    "handwriting_realism": "unevenness",
    "font_size": "size",
    "record_types": "kinds of people",
}
"""What a field of the API is to somebody who has never seen one."""

PHRASES: Final[Mapping[str, str]] = {
    ", or give postal_code beside it.": ".",
    ", or set allow_duplicates.": ", or choose to mail to them all the same.",
    " Set allow_duplicates to mail to them all the same.": "",
}

_NAMED = re.compile(rf"(?<![\w%~])(?:{'|'.join(map(re.escape, sorted(NAMES, key=len, reverse=True)))})(?!\w)")
_UNKNOWN = re.compile(r"Unknown variable (?P<unknown>%.+?%)\. Known variables: (?P<known>%.+%)\.")


def plainly(sentence: str) -> str:
    """The same without a word that only programs know."""
    for theirs, ours in PHRASES.items():
        sentence = sentence.replace(theirs, ours)
    sentence = _UNKNOWN.sub(lambda found: _suggested(found["unknown"], found["known"]), sentence)
    told = _NAMED.sub(lambda found: NAMES[found[0]], sentence).replace(" (its the ", " (its ")
    return told if told == sentence else told[:1].upper() + told[1:]


def _suggested(unknown: str, known: str) -> str:
    """For each variable that there is not, the one that was meant. All that there are would be a wall."""
    names = [name.strip("%") for name in known.split(", ")]
    return " ".join(_meant(each.strip("%"), names) for each in unknown.split(", "))


def _meant(name: str, names: Sequence[str]) -> str:
    told = f"%{name}% is not known."
    nearest = get_close_matches(name.upper(), names, n=1)
    return f"{told} Did you mean %{nearest[0]}%?" if nearest else told


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
    loader=PackageLoader("quillpost.web"),
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


LONGEST_NEXT = 4_000
NO_PLACES_TO_RETURN_TO = ("/sign-in", "/sign-out", "/session/")

SHOWN_AGAIN = ("typed", "faults")
FORMS_STAY = "form-action 'self'"
PICTURES = "img-src 'self'"
PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+(?::\d{1,5})?")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

IN_POP_UPS = ("/sign-in", "/oauth/")
"""Apps open these in a window of their own, and wait there for their page: it keeps its opener."""


def show(
    request: Request,
    template: str,
    *,
    who: SignedIn | None = None,
    status: int = 200,
    leads_to: str | None = None,
    draws_inline: bool = False,
    **values: Any,
) -> Response:
    """The page, with `who`, `csrf`, `once`, `release`, `path`, `said`, `note` and `zone` for its template.
    `leads_to` is another site's address to which a form of this page may lead in the end: the policy allows
    it there. `draws_inline`: it holds pictures that are nowhere else. Of what was `typed`, and of its
    `faults`, no secret is shown again."""
    csrf = csrf_token(request, who)
    said = request.query_params.get("said")
    common = {
        "who": who,
        "csrf": csrf,
        "once": new_key(),
        "release": request.app.state.release,
        "path": request.url.path,
        "said": said if said in SAID else None,
        "note": _note(said, who),
        "zone": zone_of(request),
        "knows_zone": COOKIE in request.cookies,
    }
    covered = {name: _covered(values[name]) for name in SHOWN_AGAIN if name in values}
    text = text_of(template, **common | values | covered)
    shown = page(text, status=status)
    shown.headers["Cache-Control"] = "no-store"
    shown.headers["Referrer-Policy"] = _referrer_policy(request)
    if request.url.path.startswith(IN_POP_UPS):
        del shown.headers["Cross-Origin-Opener-Policy"]
    policy = POLICY
    if leads_to is not None:
        policy = policy.replace(FORMS_STAY, f"{FORMS_STAY} {form_target(leads_to)}")
    if draws_inline:
        policy = policy.replace(PICTURES, f"{PICTURES} data:")
    shown.headers["Content-Security-Policy"] = policy
    made: str | None = getattr(request.state, "new_visitor", None)
    if made is not None and csrf in text:
        set_cookie(request, shown, VISITOR, made)
    return shown


def show_drawn(request: Request, text: str, who: SignedIn) -> Response:
    """A page that was drawn once, for nobody (`who=None`), with the head that all pages have for them."""
    csrf = csrf_token(request, who)
    bar = text_of("bar.html", who=who, csrf=csrf, path=request.url.path)
    text = text.replace("</head>", f'<link rel="stylesheet" href="{asset("dashboard.css")}">\n</head>', 1)
    shown = page(text.replace(text_of("bar.html", who=None), bar, 1))
    shown.headers["Cache-Control"] = "no-store"
    shown.headers["Referrer-Policy"] = _referrer_policy(request)
    return shown


def go(path: str, *, said: str | None = None) -> Response:
    """On to another page of ours (303). `said` names a sentence that it shows (a known word, no text)."""
    if said is not None:
        if said not in SAID:
            raise ValueError(f"{said} is no sentence of our pages.")
        path += ("&" if "?" in path else "?") + urlencode({"said": said})
    return Response(status_code=303, headers={"Location": path, "Cache-Control": "no-store"})


def safe_next(wanted: str | None) -> str:
    """A path of ours, to go to after signing in; "/" for anything else."""
    wanted = own_path(wanted)
    return "/" if wanted.startswith(NO_PLACES_TO_RETURN_TO) else wanted


def own_path(wanted: str | None) -> str:
    """A path of ours; "/" for anything else: another host, `//host`, a backslash, a control character,
    something too long."""
    if not wanted or len(wanted) > LONGEST_NEXT or not wanted.startswith("/") or wanted.startswith("//"):
        return "/"
    if any(not "!" <= letter <= "~" or letter == "\\" for letter in wanted):
        return "/"
    if without_secrets(wanted) != wanted:  # one that leaked there is not led along
        return "/"
    return wanted


def sign_in_first(wanted: str) -> str:
    """The sign-in page that leads on to this one."""
    return with_next("/sign-in", wanted)


def with_next(page: str, wanted: str) -> str:
    """A page of ours that leads on to another."""
    wanted = safe_next(wanted)
    return page if wanted == "/" else f"{page}?{urlencode({'next': wanted})}"


def _note(said: str | None, who: SignedIn | None) -> str | None:
    sentence = SAID.get(said or "")
    if sentence is None or "{place}" not in sentence:
        return sentence
    if who is None:
        return sentence.format(place="the account")
    branch = who.here.sub_account_title
    return sentence.format(place=who.here.account_name + (f", for {branch}" if branch else ""))


def _covered(shown: Mapping[str, str | Sequence[str]]) -> Mapping[str, str | Sequence[str]]:
    """By field, one text or several, without any secret of ours that stands where it does not belong."""
    return {
        name: hide_secrets(told) if isinstance(told, str) else [hide_secrets(each) for each in told]
        for name, told in shown.items()
    }


def _referrer_policy(request: Request) -> str:
    """Without any referrer browsers hide where a form comes from even from ourselves. Other sites learn
    nothing from it, and where the path is a secret nobody learns that."""
    return "strict-origin" if "token" in request.path_params else "same-origin"


def form_target(address: str) -> str:
    """What a policy calls the place: its origin, or its scheme where it is no website of a plain name."""
    place = urlsplit(address)
    if place.scheme in ("http", "https") and PLAIN_HOST.fullmatch(place.netloc):
        return f"{place.scheme}://{place.netloc}"
    if SCHEME.fullmatch(place.scheme):
        return f"{place.scheme}:"
    raise ValueError("A form leads to an address that has no scheme.")
