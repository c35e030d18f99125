"""What test and live mode use, and whether the settings let live mail reach paper."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quillpost.client import signatures
from quillpost.core.database import Database
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Message, NotReady
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings, reveal
from quillpost.core.text import Clock
from quillpost.core.tokens import SHORT_CODE_LENGTH
from quillpost.fulfillment.batches.rules import FULL_SERVICE_TYPES, SERVICE_TYPES
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.ports import CarrierFeed, PrintPartner
from quillpost.fulfillment.print_room.reports import partner_name
from quillpost.integrations.carriers.folder import CombinedFeed, DropFolder, StoredInbox
from quillpost.integrations.carriers.sandbox import MailSimulation, SandboxCarrier
from quillpost.integrations.folders.local import build_folder
from quillpost.integrations.folders.models import SftpCredentials
from quillpost.integrations.giftcards.http import SETTING
from quillpost.integrations.giftcards.stock import SandboxCards, StockCards
from quillpost.integrations.giftcards.tango import TangoCards
from quillpost.integrations.giftcards.tremendous import TremendousCards
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.integrations.leads.http import HttpLeadProvider
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.integrations.printing.http import EMBEDDED_PARTNER, build_partner
from quillpost.integrations.printing.models import JobFolders
from quillpost.integrations.printing.sandbox import SandboxPrinter
from quillpost.orders.designs import opt_out_text
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.recipients.leads.ports import LeadProvider
from quillpost.rendering.service import Renderer

_NOT_PUBLIC = "QUILLPOST_BASE_URL is not a public https address, which QR codes need."


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is missing, and the postage mark by mail class. A mark that does not fit is a gap and left out: no sender
    can fix it, so no send is refused and no item fails because of it."""

    gaps: tuple[Message, ...]
    indicia: Mapping[str, tuple[str, ...]]


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
        gaps=tuple(Message(code, text, for_sender=SENDER_MESSAGES[code]) for code, text in messages.items() if text),
        indicia={kind: _split_lines("" if permit_gaps[kind] else text) for kind, text in permits.items()},
    )


def _is_public(base_url: str) -> bool:
    """Whether any phone can follow a path below this address."""
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
    """The widest code must fit on every product."""
    text = opt_out_text(settings.base_url or "") + "W" * SHORT_CODE_LENGTH
    if cramped_products := renderer.products_too_small_for_opt_out(text):
        return (
            f"QUILLPOST_BASE_URL is too long for the opt-out line on {', '.join(cramped_products)}: use a shorter one,"
            " or set QUILLPOST_OPT_OUT_LINE to false."
        )
    return None


def _split_lines(permit: str) -> tuple[str, ...]:
    return tuple(permit.split("|"))


def build_live_printer(settings: Settings, store: FileStore) -> PrintPartner:
    """Without a partner nothing is handed over, which is a gap; the embedded one remembers its jobs."""
    return build_partner(
        _read_partner_address(settings),
        store=store,
        folder="print-jobs/live",
        secrets=_read_partner_secrets(settings),
        credentials=build_sftp_keys(settings),
    )


def ping_print_partner(settings: Settings, store: FileStore) -> str:
    """Without a job, where possible; its name, or `PartnerDown`."""
    partner = build_live_printer(settings, store)
    if isinstance(partner, JobFolders):
        with partner.open_folder():
            return partner.label
    return _read_partner_address(settings)


def read_partner_name(settings: Settings) -> str:
    """The address without a password."""
    return partner_name(_read_partner_address(settings))


def read_print_webhook_secrets(settings: Settings) -> dict[str, list[str]]:
    """Without a secret no partner may call back."""
    secrets = _read_partner_secrets(settings)
    return {settings.print_partner_name: secrets} if settings.print_partner and secrets else {}


def build_sftp_keys(settings: Settings) -> SftpCredentials:
    return SftpCredentials(settings.sftp_key, reveal(settings.sftp_password), settings.sftp_known_hosts)


def _read_partner_address(settings: Settings) -> str:
    return EMBEDDED_PARTNER if settings.print_partner is None else settings.print_partner


def _read_partner_secrets(settings: Settings) -> list[str]:
    secrets = (reveal(settings.print_secret) or "").split()
    if not all(map(signatures.is_secret, secrets)):
        raise NotReady("QUILLPOST_PRINT_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return secrets


def build_live_carrier(settings: Settings, store: FileStore) -> CarrierFeed:
    feeds: dict[str, CarrierFeed] = {"inbox": StoredInbox(store)}
    if settings.carrier_folder is not None:
        folder = build_folder(
            settings.carrier_folder, credentials=build_sftp_keys(settings), setting="QUILLPOST_CARRIER_FOLDER"
        )
        feeds["folder"] = DropFolder(folder)
    return CombinedFeed(feeds)


def describe_feeds(settings: Settings) -> tuple[str, ...]:
    """Without a password."""
    pushed = "What the carrier sends to /hooks/carrier/iv-mtr" if settings.carrier_token else None
    folder = settings.carrier_folder
    dropped = None if folder is None else f"Files in {partner_name(str(folder))}"
    return tuple(filter(None, (pushed, dropped)))


TEST_INDICIA = ("SAMPLE", "NOT MAILED", "QUILLPOST TEST")
TEST_MAILER_ID = "999999"
LIVE_POLL_INTERVAL = timedelta(minutes=5)
TEST_POLL_INTERVAL = timedelta(seconds=1)


def build_environments(settings: Settings, store: FileStore, renderer: Renderer) -> Mapping[str, Environment]:
    """By mode."""
    return {
        "test": _build_test_environment(settings, store),
        "live": _build_live_environment(settings, store, renderer),
    }


def _build_test_environment(settings: Settings, store: FileStore) -> Environment:
    journey = timedelta(seconds=settings.test_journey_seconds)
    # Where nothing gets lost every item ends by itself. Otherwise the last scan is waited for as long as a journey
    # takes.
    has_losses = settings.test_losses > 0
    return Environment(
        mode="test",
        printer=SandboxPrinter(
            store,
            "print-jobs/test",
            journey=journey,
            simulation=MailSimulation(settings.test_seed, settings.test_losses),
        ),
        carrier=SandboxCarrier(store),
        review_period=timedelta(seconds=settings.test_review_seconds),
        poll_interval=TEST_POLL_INTERVAL,
        mailer_id=TEST_MAILER_ID,
        indicia={"first": TEST_INDICIA, "standard": TEST_INDICIA},
        service_types=SERVICE_TYPES,
        partner="sandbox",
        feeds=("The simulated mail",),
        infer_delivery_after=journey if has_losses else None,
        infer_unseen_delivery_after=journey * 1.25 if has_losses else None,
        reroute_timeout=journey * 1.5 if has_losses else timedelta(days=settings.reroute_ends_days),
    )


def _build_live_environment(settings: Settings, store: FileStore, renderer: Renderer) -> Environment:
    readiness = check_live_readiness(settings, renderer)
    return Environment(
        mode="live",
        printer=build_live_printer(settings, store),
        carrier=build_live_carrier(settings, store),
        review_period=timedelta(seconds=settings.review_seconds),
        poll_interval=LIVE_POLL_INTERVAL,
        mailer_id=settings.mailer_id or "",
        indicia=readiness.indicia,
        service_types=FULL_SERVICE_TYPES if settings.full_service else SERVICE_TYPES,
        partner=read_partner_name(settings),
        cutoff=settings.print_cutoff,
        zone=read_time_zone(settings),
        gaps=readiness.gaps,
        infer_delivery_after=_to_timedelta(settings.infer_delivery_days),
        infer_unseen_delivery_after=_to_timedelta(settings.infer_unseen_days),
        reroute_timeout=timedelta(days=settings.reroute_ends_days),
        needs_credit=settings.credit_control,
        feeds=describe_feeds(settings),
    )


def _to_timedelta(days: int | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def read_time_zone(settings: Settings) -> tzinfo:
    name = settings.timezone
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of a folder of zones Python tries to read a file
        raise NotReady(f"QUILLPOST_TIMEZONE names no time zone: {name}. Try America/New_York.") from None


LiveGiftcardIssuer = TremendousCards | TangoCards


def build_giftcard_issuers(
    settings: Settings, db: Database, encryptor: Encryptor, clock: Clock
) -> Mapping[str, GiftcardIssuer]:
    """Testing mode makes up its cards: nothing is bought."""
    live = build_live_giftcard_issuer(settings) or StockCards(db, encryptor, clock=clock)
    return {"test": SandboxCards(db, encryptor, clock=clock), "live": live}


def build_live_giftcard_issuer(settings: Settings) -> LiveGiftcardIssuer | None:
    """None: our own stock. No request is made yet."""
    if settings.giftcards is None:
        return None
    kind, _, address = settings.giftcards.partition(":")
    key = reveal(settings.giftcards_key) or ""
    if kind not in ("tremendous", "tango"):
        raise NotReady(f"{SETTING} must be tremendous:https://host or tango:https://host.")
    if not key or not key.isprintable() or not key.isascii():
        raise NotReady(f"{SETTING} is set: {SETTING}_KEY must be set too, to be let in with.")
    if kind == "tremendous":
        return TremendousCards(address, key=key, funding_source=settings.giftcards_account)
    return TangoCards(address, key=key, account=settings.giftcards_account)


def build_lead_providers(settings: Settings, db: Database, clock: Clock) -> Mapping[str, LeadProvider]:
    """Testing mode has the sample: what is bought there is not paid for."""
    return {
        "test": TableLeadProvider(db, use_samples=True, clock=clock),
        "live": _build_live_lead_provider(settings, db, clock),
    }


def _build_live_lead_provider(settings: Settings, db: Database, clock: Clock) -> LeadProvider:
    if settings.leads is None:
        return TableLeadProvider(db, use_samples=False, clock=clock)
    secrets = (reveal(settings.leads_secret) or "").split()
    if not all(map(signatures.is_secret, secrets)):
        raise NotReady("QUILLPOST_LEADS_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return HttpLeadProvider(settings.leads, secrets=secrets, clock=clock)
