"""Whether the settings let live mail reach paper; a part of the wiring."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from quillpost.core.settings import Settings
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.models import ReadinessGap
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.orders.designs import opt_out_text
from quillpost.rendering.renderer import Renderer

_NOT_PUBLIC = "QUILLPOST_BASE_URL is not a public https address, which QR codes need."


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing, and the postage mark by class of mail.

    A mark that does not fit is a gap and is then as good as none: no sender can mend it, so no send is
    refused and no piece fails because of it.
    """

    missing: tuple[ReadinessGap, ...]
    indicia: Mapping[str, tuple[str, ...]]

    @property
    def gaps(self) -> tuple[str, ...]:
        """The sentences for whoever runs the service."""
        return tuple(gap.for_operator for gap in self.missing)


SENDER_MESSAGES: Mapping[str, str] = {
    "public_url": "There is no public web address for QR codes.",
    "permit_first": "There is no postage permit for first-class mail.",
    "permit_standard": "There is no postage permit for standard mail.",
    "mailer_id": "There is no mailer ID for tracking barcodes.",
    "opt_out_line": "The opt-out line does not fit on every piece.",
    "print_partner": "No print partner is connected.",
}
"""What each check is about, for people who cannot change a setting."""


def check_live_readiness(settings: Settings, renderer: Renderer) -> Readiness:
    """What is missing before anything may reach paper, on the pieces as this studio draws them."""
    permits = {"first": settings.permit_first or "", "standard": settings.permit_standard or ""}
    permit_gaps = {
        "first": _find_permit_gap("QUILLPOST_PERMIT_FIRST", "first class", permits["first"], renderer),
        "standard": _find_permit_gap("QUILLPOST_PERMIT_STANDARD", "standard mail", permits["standard"], renderer),
    }
    no_barcode = "QUILLPOST_MAILER_ID is not set: no barcode can be printed."
    no_partner = "QUILLPOST_PRINT_PARTNER is not set: nobody prints."
    messages = {
        "public_url": None if _is_public(settings.base_url or "") else _NOT_PUBLIC,
        "permit_first": permit_gaps["first"],
        "permit_standard": permit_gaps["standard"],
        "mailer_id": None if settings.mailer_id else no_barcode,
        "opt_out_line": _find_opt_out_gap(settings, renderer) if settings.opt_out_line else None,
        "print_partner": None if settings.print_partner else no_partner,
    }
    return Readiness(
        missing=tuple(
            ReadinessGap(name, message, SENDER_MESSAGES[name]) for name, message in messages.items() if message
        ),
        indicia={kind: _split_lines("" if permit_gaps[kind] else text) for kind, text in permits.items()},
    )


def _is_public(base_url: str) -> bool:
    """Whether a phone anywhere can follow what is printed: this address, and a path after it."""
    if not base_url.startswith("https://") or OutboundGuard().check_url(base_url) is not None:
        return False
    host = urlsplit(base_url).hostname or ""
    is_public_host = "." in host.strip(".") or ":" in host
    return is_public_host and "?" not in base_url and "#" not in base_url


def _find_permit_gap(setting: str, mail_class: str, text: str, renderer: Renderer) -> str | None:
    if not text.replace("|", "").strip():
        return f"{setting} is not set: no postage mark for {mail_class}."
    if cramped_products := renderer.products_too_small_for_indicia(_split_lines(text)):
        return f"{setting} is too long for its place on {', '.join(cramped_products)}: shorten its lines."
    return None


def _find_opt_out_gap(settings: Settings, renderer: Renderer) -> str | None:
    """The widest of codes must have room on every piece."""
    text = opt_out_text(settings.base_url or "") + "W" * SHORT_CODE_LENGTH
    if cramped_products := renderer.products_too_small_for_opt_out(text):
        return (
            f"QUILLPOST_BASE_URL is too long for the opt-out line on {', '.join(cramped_products)}: use a shorter one,"
            " or set QUILLPOST_OPT_OUT_LINE to false."
        )
    return None


def _split_lines(permit: str) -> tuple[str, ...]:
    return tuple(permit.split("|"))
