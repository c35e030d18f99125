"""Whether the settings let live mail reach paper; a part of the wiring."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from quillpost.core.settings import Settings
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.environments import Gap
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.orders.designs import opt_out_words
from quillpost.rendering.renderer import Studio

_NOT_PUBLIC = "QUILLPOST_BASE_URL is not a public https address, which QR codes need."


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing, and the postage mark by class of mail.

    A mark that does not fit is a gap and is then as good as none: no sender can mend it, so no send is
    refused and no piece fails because of it.
    """

    missing: tuple[Gap, ...]
    indicia: Mapping[str, tuple[str, ...]]

    @property
    def gaps(self) -> tuple[str, ...]:
        """The sentences for whoever runs the service."""
        return tuple(gap.for_operator for gap in self.missing)


FOR_SENDERS: Mapping[str, str] = {
    "public_url": "There is no public web address for QR codes.",
    "permit_first": "There is no postage permit for first-class mail.",
    "permit_standard": "There is no postage permit for standard mail.",
    "mailer_id": "There is no mailer ID for tracking barcodes.",
    "opt_out_line": "The opt-out line does not fit on every piece.",
    "print_partner": "No print partner is connected.",
}
"""What each check is about, for people who cannot change a setting."""


def live_readiness(settings: Settings, studio: Studio) -> Readiness:
    """What is missing before anything may reach paper, on the pieces as this studio draws them."""
    permits = {"first": settings.permit_first or "", "standard": settings.permit_standard or ""}
    marks = {
        "first": _permit_gap("QUILLPOST_PERMIT_FIRST", "first class", permits["first"], studio),
        "standard": _permit_gap("QUILLPOST_PERMIT_STANDARD", "standard mail", permits["standard"], studio),
    }
    no_barcode = "QUILLPOST_MAILER_ID is not set: no barcode can be printed."
    no_partner = "QUILLPOST_PRINT_PARTNER is not set: nobody prints."
    found = {
        "public_url": None if _is_public(settings.base_url or "") else _NOT_PUBLIC,
        "permit_first": marks["first"],
        "permit_standard": marks["standard"],
        "mailer_id": None if settings.mailer_id else no_barcode,
        "opt_out_line": _opt_out_gap(settings, studio) if settings.opt_out_line else None,
        "print_partner": None if settings.print_partner else no_partner,
    }
    return Readiness(
        missing=tuple(Gap(name, told, FOR_SENDERS[name]) for name, told in found.items() if told),
        indicia={kind: _lines("" if marks[kind] else text) for kind, text in permits.items()},
    )


def _is_public(base_url: str) -> bool:
    """Whether a phone anywhere can follow what is printed: this address, and a path after it."""
    if not base_url.startswith("https://") or OutboundGuard().check_url(base_url) is not None:
        return False
    host = urlsplit(base_url).hostname or ""
    is_known_abroad = "." in host.strip(".") or ":" in host
    return is_known_abroad and "?" not in base_url and "#" not in base_url


def _permit_gap(setting: str, mail: str, text: str, studio: Studio) -> str | None:
    if not text.replace("|", "").strip():
        return f"{setting} is not set: no postage mark for {mail}."
    if cramped := studio.too_small_for(_lines(text)):
        return f"{setting} is too long for its place on {', '.join(cramped)}: shorten its lines."
    return None


def _opt_out_gap(settings: Settings, studio: Studio) -> str | None:
    """The widest of codes must have room on every piece."""
    line = opt_out_words(settings.base_url or "") + "W" * SHORT_CODE_LENGTH
    if cramped := studio.too_small_for_opt_out(line):
        return (
            f"QUILLPOST_BASE_URL is too long for the opt-out line on {', '.join(cramped)}: use a shorter one,"
            " or set QUILLPOST_OPT_OUT_LINE to false."
        )
    return None


def _lines(permit: str) -> tuple[str, ...]:
    return tuple(permit.split("|"))
