"""Where whoever holds a piece has its gift card: the code on the piece is all that they show.

Looking shows no secret; a button does. Pages are for people, and there is no other form of them: what a card
is redeemed with is in no answer that programs read.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import structlog
from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.billing.rules import dollars
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.encryption import SealBroken
from quillpost.fulfillment.qr_scans.rules import HINTS, kind_of
from quillpost.fulfillment.qr_scans.service import URL_SIGNS
from quillpost.notifications import emails
from quillpost.orders.giftcards import claims
from quillpost.orders.giftcards.claims import REPORTS, Held, Reported, Shown, State
from quillpost.orders.giftcards.ports import GiftCard
from quillpost.orders.giftcards.rules import SPECIMEN, read_claim, spelled
from quillpost.web import rendering as pages
from quillpost.web.api.dependencies import parts_of
from quillpost.web.public.claim_limits import Guesses
from quillpost.web.public.partner_webhooks import at_most

log = structlog.get_logger(__name__)
router = APIRouter(include_in_schema=False)

LARGEST_BODY = 2_000
MOST_FIELDS = 10
WEB = ("https://", "http://")
REPORTABLE = (State.VISIT_FIRST, State.READY, State.CLAIMED)
BRIGHT = 0.2
"""From this share of white's light on, dark letters are read more easily than white ones."""

Found = TypeVar("Found")
OurParts = Annotated[Parts, Depends(parts_of)]
Body = Annotated[bytes, Depends(at_most(LARGEST_BODY))]


@router.get("/gift")
def ask_for_code(request: Request) -> Response:
    """One field. What stands behind a `?` is not read: addresses are kept in too many places."""
    return _page(request, "doors/gift.html", step="ask", typed="")


@router.post("/gift")
def take_code(request: Request, body: Body) -> Response:
    """From a code, however it was typed, to its page."""
    typed = _field(body, "code")
    if (claim := read_claim("".join(typed.split()))) is None:
        return _page(request, "doors/gift.html", step="wrong", typed=typed[:60], status=422)
    return _led_to(f"/gift/{claim}")


@router.head("/gift/{code}")
@router.get("/gift/{code}")
def show_card(request: Request, code: str, parts: OurParts) -> Response:
    """What the piece brings, and from whom; the first time is noted. Whoever goes on from here (`from=here`)
    without having been at the sender's page is told so."""
    notes, goes_on = _is_somebody(request), request.query_params.get("from") == "here"

    def act(tx: Tx, claim: str) -> Held | None:
        return claims.look(tx, claim, notes=notes, now=parts.clock())

    def show(request: Request, claim: str, held: Held) -> Response:
        return _card_page(
            request, claim, held, is_early=goes_on, status=410 if held.state is State.VOID else 200
        )

    return _done(request, code, act, show)


@router.head("/gift/{code}/visit")
@router.get("/gift/{code}/visit")
def visit(request: Request, code: str, parts: OurParts) -> Response:
    """On to the sender's page, which does not learn the code. Programs are led back."""

    def act(tx: Tx, claim: str) -> Held | None:
        if _is_somebody(request):
            return claims.visit(tx, claim, now=parts.clock())
        return claims.look(tx, claim, notes=False, now=parts.clock())

    def lead(request: Request, claim: str, held: Held) -> Response:
        if held.state not in REPORTABLE or not _is_somebody(request) or not _is_web(held.landing_page_url):
            return _led_to(f"/gift/{claim}")
        assert held.landing_page_url is not None
        return _led_to(quote(held.landing_page_url, safe=URL_SIGNS))

    return _done(request, code, act, lead)


@router.post("/gift/{code}/claim")
def show_code(request: Request, code: str, parts: OurParts) -> Response:
    """What the card is redeemed with: from the first time on it cannot be taken back."""

    def act(tx: Tx, claim: str) -> Shown | None:
        return claims.claim_card(tx, parts.sealer, claim, now=parts.clock())

    def show(request: Request, claim: str, shown: Shown) -> Response:
        if shown.card is None:
            return _card_page(request, claim, shown.held, is_early=True, status=409)
        return _card_page(request, claim, shown.held, card=shown.card)

    return _done(request, code, act, show)


@router.head("/gift/{code}/claim")
@router.get("/gift/{code}/claim")
def return_to_card(code: str) -> Response:
    """A phone that opens its pages again asks for this one without the button: it shows the card's."""
    return _led_to(f"/gift/{quote(code, safe='')}")


@router.get("/gift/{code}/report")
def ask_what_is_wrong(request: Request, code: str, parts: OurParts) -> Response:
    return _ask_what_is_wrong(request, code, parts, status=200)


@router.post("/gift/{code}/report")
def take_report(request: Request, code: str, parts: OurParts, body: Body) -> Response:
    """The sender is told in the same transaction, once."""
    if (said := _field(body, "what")) not in REPORTS:
        return _ask_what_is_wrong(request, code, parts, status=422)

    def act(tx: Tx, claim: str) -> Reported | None:
        found = claims.report(tx, claim, said, now=parts.clock())
        if found is not None and found.is_news:
            emails.tell(tx, found.held, now=parts.clock())
        return found

    def show(request: Request, claim: str, found: Reported) -> Response:
        del request, found
        return _led_to(f"/gift/{claim}")

    return _done(request, code, act, show)


def _ask_what_is_wrong(request: Request, code: str, parts: Parts, *, status: int) -> Response:
    def act(tx: Tx, claim: str) -> Held | None:
        return claims.look(tx, claim, notes=False, now=parts.clock())

    def show(request: Request, claim: str, held: Held) -> Response:
        if held.state not in REPORTABLE or held.report is not None:
            return _led_to(f"/gift/{claim}")
        return _page(
            request,
            "doors/gift_report.html",
            path=f"/gift/{claim}",
            held=held,
            amount=_short_dollars(held.cents),
            choices=REPORTS,
            is_wrong=status != 200,
            status=status,
        )

    return _done(request, code, act, show)


def _done(
    request: Request,
    code: str,
    act: Callable[[Tx, str], Found | None],
    show: Callable[[Request, str, Found], Response],
) -> Response:
    """Act on the card that the code is of, and show what came of it; or say why there is none."""
    claim = read_claim(code)
    if claim is None:
        return _page(request, "doors/gift.html", step="unknown", typed="", status=404)
    if claim == SPECIMEN:
        return _page(request, "doors/gift.html", step="specimen")
    guesses: Guesses = request.app.state.gift_guesses
    address = request.client.host if request.client else "unknown"
    if wait := guesses.wait(claim, address):
        return _too_many(request, claim, wait)
    try:
        with parts_of(request).db.work() as tx:
            found = act(tx, claim)
    except SealBroken as broken:
        log.error("gift.does_not_open", why=str(broken))
        return _page(request, "doors/gift.html", step="sealed", path=f"/gift/{claim}", status=500)
    if found is not None:
        guesses.note_right(claim)
        return show(request, claim, found)
    guesses.note_wrong(claim, address)
    return _page(request, "doors/gift.html", step="unknown", typed=spelled(claim), status=404)


def _card_page(
    request: Request,
    claim: str,
    held: Held,
    *,
    card: GiftCard | None = None,
    is_early: bool = False,
    status: int = 200,
) -> Response:
    return _page(
        request,
        "doors/gift_card.html",
        path=f"/gift/{claim}",
        held=held,
        step="shown" if card else held.state.value,
        amount=_short_dollars(held.cents),
        is_bright=_light(held.accent) > BRIGHT,
        host=_host(held.landing_page_url),
        is_early=is_early,
        card=card,
        issuers_page=card.url if card and _is_web(card.url) else None,
        status=status,
    )


def _too_many(request: Request, claim: str, wait: int) -> Response:
    shown = _page(request, "doors/gift.html", step="throttled", path=f"/gift/{claim}", status=429)
    shown.headers["Retry-After"] = str(wait)
    return shown


def _page(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    return pages.page(pages.text_of(template, release=request.app.state.release, **values), status=status)


def _led_to(place: str) -> Response:
    return Response(status_code=303, headers={"Location": place})


def _field(body: bytes, name: str) -> str:
    try:
        fields = parse_qs(body.decode("utf-8", errors="replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        return ""
    return next(iter(fields.get(name, ())), "").strip()


def _is_somebody(request: Request) -> bool:
    """Whether a person comes here now, and not a program, for one who may come or for nobody."""
    agent = request.headers.get("user-agent", "")
    hints = {name: request.headers[name] for name in HINTS if name in request.headers}
    return request.method != "HEAD" and kind_of(agent, hints) == "person"


def _is_web(url: str | None) -> bool:
    return url is not None and url.lower().startswith(WEB)


def _host(url: str | None) -> str:
    try:
        return urlsplit(url or "").hostname or ""
    except ValueError:
        return ""


def _short_dollars(cents: int) -> str:
    return dollars(cents).removesuffix(".00")


def _light(accent: str) -> float:
    """How much of white's light a colour has to the eye, from 0 to 1 (WCAG's relative luminance)."""
    parts = (int(accent[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
