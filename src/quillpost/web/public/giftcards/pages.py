"""Gift cards for those who hold a printed code."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from ipaddress import ip_network
from threading import Lock
from typing import Annotated, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import structlog
from cachetools import LRUCache, TLRUCache
from fastapi import APIRouter, Depends, Request, Response

from quillpost.accounts.billing.rules import format_dollars
from quillpost.accounts.models import get_network
from quillpost.accounts.rate_limits.service import count_public_call
from quillpost.app.container import Container
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import DecryptionFailed
from quillpost.fulfillment.qr_scans.rules import HINT_HEADERS, classify_visitor
from quillpost.fulfillment.qr_scans.service import URL_SAFE_CHARS
from quillpost.notifications import service as notification_service
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.ports import CardSecret
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, claim_digest, format_claim, parse_claim
from quillpost.orders.giftcards.service import REPORT_REASONS, CardReport, ClaimState, ClaimView, RevealedCard
from quillpost.web.dependencies import Services, get_container
from quillpost.web.public.dependencies import limit_body, render_public_page
from quillpost.web.sessions import get_client_address

RATE_LIMIT_NAME = "gift"
MAX_PER_NETWORK = 30
MAX_TOTAL = 3_000  # wrong claims in a minute

IPV6_PREFIX_BITS = 48  # of an IPv6 address: one network of 64 bits has tens of thousands of neighbors

EXTRA_LOOKUPS_PER_SECOND = 50  # for all who are beyond a limit together

MAX_SAVED_SECONDS = 1.0

RETRY_SECONDS = 2

MAX_REMEMBERED = 10_000  # networks, and valid claims


class ClaimRateLimit:
    """Limits wrong claims by network and in all. Guessing 128 bits is in vain; this keeps it from being a burden.
    Beyond a limit, callers share a few look-ups a second: holders get in after a few tries even if a neighbor guesses
    all day. Everything else is refused before the database is asked."""

    def __init__(self, db: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._db, self._monotonic = db, monotonic
        # By network, and with None for all of them: until when they are limited.
        self._limited_until: TLRUCache[str | None, float] = TLRUCache(
            MAX_REMEMBERED, ttu=lambda _network, until, _now: until, timer=monotonic
        )
        self._lookups_spent_until = 0.0
        self._valid_digests: LRUCache[bytes, None] = LRUCache(MAX_REMEMBERED)
        self._lock = Lock()

    def seconds_to_wait(self, claim: str, address: str) -> int:
        """0: look it up now."""
        now = self._monotonic()
        with self._lock:
            if claim_digest(claim) in self._valid_digests or not self._is_limited(address):
                return 0
            spent_until = max(self._lookups_spent_until, now - MAX_SAVED_SECONDS) + 1 / EXTRA_LOOKUPS_PER_SECOND
            if spent_until > now:
                return RETRY_SECONDS
            self._lookups_spent_until = spent_until
            return 0

    def record_valid(self, claim: str) -> None:
        """Its holder does not wait again."""
        with self._lock:
            self._valid_digests[claim_digest(claim)] = None

    def record_invalid(self, claim: str, address: str) -> None:
        """Not counted beyond a limit."""
        with self._lock:
            self._valid_digests.pop(claim_digest(claim), None)
            if self._is_limited(address):
                return
        for network, limit in ((_network_key(address), MAX_PER_NETWORK), (None, MAX_TOTAL)):
            allowance = count_public_call(self._db, RATE_LIMIT_NAME, network, limit=limit)
            if allowance.is_exceeded:
                with self._lock:
                    self._limited_until[network] = self._monotonic() + allowance.resets_in

    def _is_limited(self, address: str) -> bool:
        return any(self._limited_until.get(network) for network in (_network_key(address), None))


@lru_cache(maxsize=1_000)
def _network_key(address: str) -> str:
    network = get_network(address)
    with suppress(ValueError):  # what is no address stands for itself
        parsed = ip_network(network)
        if parsed.version == 6:
            return str(parsed.supernet(new_prefix=IPV6_PREFIX_BITS))
    return network


log = structlog.get_logger(__name__)
router = APIRouter(include_in_schema=False)

MAX_BODY_BYTES = 2_000
MAX_FIELDS = 10
WEB_SCHEMES = ("https://", "http://")
REPORTABLE_STATES = (ClaimState.VISIT_FIRST, ClaimState.READY, ClaimState.CLAIMED)
BRIGHT_LUMINANCE = 0.2  # from here on dark text reads better than white

Result = TypeVar("Result")
PostedBody = Annotated[bytes, Depends(limit_body(MAX_BODY_BYTES))]


@router.get("/gift")
def show_code_form(request: Request) -> Response:
    """The query is not read: URLs are kept in too many places."""
    return render_public_page(request, "public/giftcard_code.html", step="ask", entered_code="")


@router.post("/gift")
def submit_code(request: Request, body: PostedBody) -> Response:
    typed = _read_field(body, "code")
    if (claim := parse_claim("".join(typed.split()))) is None:
        return render_public_page(
            request, "public/giftcard_code.html", step="wrong", entered_code=typed[:60], status=422
        )
    return _redirect(f"/gift/{claim}")


@router.head("/gift/{code}")
@router.get("/gift/{code}")
def show_card(request: Request, code: str, container: Services) -> Response:
    """Records the first opening. A holder who comes from here (`from=here`) without having visited the sender's page
    reads so."""
    is_person, is_continuing = _is_person(request), request.query_params.get("from") == "here"
    look_up = partial(giftcard_service.open_claim_page, records_opening=is_person, now=container.clock())

    def respond(claim: str, held: ClaimView) -> Response:
        status = 410 if held.state is ClaimState.VOID else 200
        return _card_page(request, claim, held, is_early=is_continuing, status=status)

    return _act_on_card(request, code, look_up, respond)


@router.head("/gift/{code}/visit")
@router.get("/gift/{code}/visit")
def visit_landing_page(request: Request, code: str, container: Services) -> Response:
    """The sender's page does not learn the code. Programs are sent back."""

    def look_up(tx: Tx, claim: str) -> ClaimView | None:
        if _is_person(request):
            return giftcard_service.visit_landing_page(tx, claim, now=container.clock())
        return giftcard_service.open_claim_page(tx, claim, records_opening=False, now=container.clock())

    def redirect(claim: str, held: ClaimView) -> Response:
        if held.state not in REPORTABLE_STATES or not _is_person(request) or not _is_web_url(held.landing_page_url):
            return _redirect(f"/gift/{claim}")
        assert held.landing_page_url is not None
        return _redirect(quote(held.landing_page_url, safe=URL_SAFE_CHARS))

    return _act_on_card(request, code, look_up, redirect)


@router.post("/gift/{code}/claim")
def reveal_code(request: Request, code: str, container: Services) -> Response:
    """From the first time on, the card cannot be voided."""

    def claim_card(tx: Tx, claim: str) -> RevealedCard | None:
        return giftcard_service.claim_card(tx, container.encryptor, claim, now=container.clock())

    def respond(claim: str, claimed: RevealedCard) -> Response:
        if claimed.card is None:
            return _card_page(request, claim, claimed.view, is_early=True, status=409)
        return _card_page(request, claim, claimed.view, card=claimed.card)

    return _act_on_card(request, code, claim_card, respond)


@router.head("/gift/{code}/claim")
@router.get("/gift/{code}/claim")
def return_to_card(code: str) -> Response:
    """A phone that reopens its pages asks for this one without the button."""
    return _redirect(f"/gift/{quote(code, safe='')}")


@router.get("/gift/{code}/report")
def show_report_form(request: Request, code: str, container: Services) -> Response:
    return _report_form_page(request, code, container, status=200)


@router.post("/gift/{code}/report")
def submit_report(request: Request, code: str, container: Services, body: PostedBody) -> Response:
    """Notifies the sender in the same transaction, once."""
    if (problem := _read_field(body, "what")) not in REPORT_REASONS:
        return _report_form_page(request, code, container, status=422)

    def report(tx: Tx, claim: str) -> CardReport | None:
        reported = giftcard_service.report_card(tx, claim, problem, now=container.clock())
        if reported is not None and reported.is_new:
            notification_service.notify_of_giftcard_report(tx, reported.view, now=container.clock())
        return reported

    return _act_on_card(request, code, report, lambda claim, _reported: _redirect(f"/gift/{claim}"))


def _report_form_page(request: Request, code: str, container: Container, *, status: int) -> Response:
    look_up = partial(giftcard_service.open_claim_page, records_opening=False, now=container.clock())

    def respond(claim: str, held: ClaimView) -> Response:
        if held.state not in REPORTABLE_STATES or held.report is not None:
            return _redirect(f"/gift/{claim}")
        return render_public_page(
            request,
            "public/giftcard_report.html",
            path=f"/gift/{claim}",
            giftcard=held,
            amount=_format_short_dollars(held.cents),
            report_reasons=REPORT_REASONS,
            is_invalid=status != 200,
            status=status,
        )

    return _act_on_card(request, code, look_up, respond)


def _act_on_card(
    request: Request, code: str, action: Callable[[Tx, str], Result | None], respond: Callable[[str, Result], Response]
) -> Response:
    """Act on the card of this code and show the result, or why there is no card."""
    claim = parse_claim(code)
    if claim is None:
        return render_public_page(request, "public/giftcard_code.html", step="unknown", entered_code="", status=404)
    if claim == SPECIMEN_CLAIM:
        return render_public_page(request, "public/giftcard_code.html", step="specimen")
    rate_limit: ClaimRateLimit = request.app.state.claim_rate_limit
    address = get_client_address(request)
    if wait := rate_limit.seconds_to_wait(claim, address):
        return _too_many_page(request, claim, wait)
    try:
        with get_container(request).db.system_transaction() as tx:
            result = action(tx, claim)
    except DecryptionFailed as error:
        log.error("giftcards.claim_unreadable", error=str(error))
        return render_public_page(
            request, "public/giftcard_code.html", step="sealed", path=f"/gift/{claim}", status=500
        )
    if result is not None:
        rate_limit.record_valid(claim)
        return respond(claim, result)
    rate_limit.record_invalid(claim, address)
    return render_public_page(
        request, "public/giftcard_code.html", step="unknown", entered_code=format_claim(claim), status=404
    )


def _card_page(
    request: Request,
    claim: str,
    held: ClaimView,
    *,
    card: CardSecret | None = None,
    is_early: bool = False,
    status: int = 200,
) -> Response:
    return render_public_page(
        request,
        "public/giftcard.html",
        path=f"/gift/{claim}",
        giftcard=held,
        step="shown" if card else held.state.value,
        amount=_format_short_dollars(held.cents),
        is_bright=_luminance(held.accent) > BRIGHT_LUMINANCE,
        host=_host(held.landing_page_url),
        is_early=is_early,
        card_secret=card,
        redeem_url=card.url if card and _is_web_url(card.url) else None,
        status=status,
    )


def _too_many_page(request: Request, claim: str, wait: int) -> Response:
    headers = {"Retry-After": str(wait)}
    return render_public_page(
        request, "public/giftcard_code.html", step="throttled", path=f"/gift/{claim}", status=429, headers=headers
    )


def _redirect(location: str) -> Response:
    return Response(status_code=303, headers={"Location": location})


def _read_field(body: bytes, name: str) -> str:
    try:
        fields = parse_qs(body.decode("utf-8", errors="replace"), max_num_fields=MAX_FIELDS)
    except ValueError:
        return ""
    return next(iter(fields.get(name, ())), "").strip()


def _is_person(request: Request) -> bool:
    """A person, not a program that looks ahead for one."""
    agent = request.headers.get("user-agent", "")
    hints = {name: request.headers[name] for name in HINT_HEADERS if name in request.headers}
    return request.method != "HEAD" and classify_visitor(agent, hints) == "person"


def _is_web_url(url: str | None) -> bool:
    return url is not None and url.lower().startswith(WEB_SCHEMES)


def _host(url: str | None) -> str:
    try:
        return urlsplit(url or "").hostname or ""
    except ValueError:
        return ""


def _format_short_dollars(cents: int) -> str:
    return format_dollars(cents).removesuffix(".00")


def _luminance(accent: str) -> float:
    """WCAG's relative luminance, from 0 to 1."""
    parts = (int(accent[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
