"""From a template to the page of somebody: never kept by a browser, with what every page of theirs shows."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request, Response

from quillpost.api.leaks import without_secrets
from quillpost.kit.tokens import hide_secrets
from quillpost.pages import render as pages
from quillpost.pages.assets import asset
from quillpost.people.sessions import SignedIn
from quillpost.reception.cookies import VISITOR, set_cookie
from quillpost.reception.csrf import csrf_token
from quillpost.reception.once import new_key
from quillpost.reception.said import SAID
from quillpost.reception.zones import COOKIE, zone_of

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
    text = pages.text_of(template, **common | values | covered)
    shown = pages.page(text, status=status)
    shown.headers["Cache-Control"] = "no-store"
    shown.headers["Referrer-Policy"] = _referrer_policy(request)
    if request.url.path.startswith(IN_POP_UPS):
        del shown.headers["Cross-Origin-Opener-Policy"]
    policy = pages.POLICY
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
    bar = pages.text_of("bar.html", who=who, csrf=csrf, path=request.url.path)
    text = text.replace("</head>", f'<link rel="stylesheet" href="{asset("dashboard.css")}">\n</head>', 1)
    shown = pages.page(text.replace(pages.text_of("bar.html", who=None), bar, 1))
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
