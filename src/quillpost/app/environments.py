"""The outside as each mode sees it: printer, carriers, gift card issuers, sources of leads."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quillpost.app.readiness import live_readiness
from quillpost.client import signatures
from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.encryption import Sealer
from quillpost.core.errors import NotReady
from quillpost.core.ports import FileStore
from quillpost.core.settings import Settings
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.partners import partner_name
from quillpost.fulfillment.ports import PrintPartner
from quillpost.fulfillment.rules import FULL_SERVICE_TYPES, SERVICE_TYPES
from quillpost.fulfillment.tracking.ports import CarrierFeed
from quillpost.integrations.carriers.folder import DropFolder, Inbox, SeveralFeeds
from quillpost.integrations.carriers.sandbox import Chances, SandboxCarrier
from quillpost.integrations.folders.address import place_at
from quillpost.integrations.folders.models import SftpKeys
from quillpost.integrations.giftcards.http import SETTING
from quillpost.integrations.giftcards.stock import SandboxCards, StockCards
from quillpost.integrations.giftcards.tango import TangoCards
from quillpost.integrations.giftcards.tremendous import TremendousCards
from quillpost.integrations.leads.http import HttpLeads
from quillpost.integrations.leads.table import TableLeads
from quillpost.integrations.printing.address import EMBEDDED, partner_at
from quillpost.integrations.printing.models import JobFolders
from quillpost.integrations.printing.sandbox import SandboxPrinter
from quillpost.orders.giftcards.ports import GiftcardIssuer
from quillpost.recipients.leads.ports import LeadsProvider
from quillpost.rendering.renderer import Studio


def live_printer(settings: Settings, store: FileStore) -> PrintPartner:
    """Without a partner nothing is handed over, which is a gap; the embedded one knows what it once got."""
    return partner_at(
        _address(settings),
        store=store,
        folder="print-jobs/live",
        secrets=_secrets(settings),
        keys=sftp_keys(settings),
    )


def reach(settings: Settings, store: FileStore) -> str:
    """Knock at the partner's, where that is possible without a job; what it is called, or `PartnerDown`."""
    partner = live_printer(settings, store)
    if isinstance(partner, JobFolders):
        with partner.visiting():
            return partner.shown
    return _address(settings)


def partner_shown(settings: Settings) -> str:
    """Who it is, for batches to remember: the address without a password."""
    return partner_name(_address(settings))


def hook_secrets(settings: Settings) -> dict[str, list[str]]:
    """Who may call back, and how it is known: nobody without a secret."""
    secrets = _secrets(settings)
    return {settings.print_partner_name: secrets} if settings.print_partner and secrets else {}


def sftp_keys(settings: Settings) -> SftpKeys:
    password = settings.sftp_password
    return SftpKeys(
        settings.sftp_key, password.get_secret_value() if password else None, settings.sftp_known_hosts
    )


def _address(settings: Settings) -> str:
    return EMBEDDED if settings.print_partner is None else settings.print_partner


def _secrets(settings: Settings) -> list[str]:
    given = settings.print_secret.get_secret_value().split() if settings.print_secret else []
    if not all(map(signatures.is_secret, given)):
        raise NotReady("QUILLPOST_PRINT_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return given


def live_carrier(settings: Settings, store: FileStore) -> CarrierFeed:
    """What is pushed to us, and what is dropped into a folder."""
    feeds: dict[str, CarrierFeed] = {"inbox": Inbox(store)}
    if settings.carrier_folder is not None:
        place = place_at(
            settings.carrier_folder, keys=sftp_keys(settings), setting="QUILLPOST_CARRIER_FOLDER"
        )
        feeds["folder"] = DropFolder(place)
    return SeveralFeeds(feeds)


def feeds_shown(settings: Settings) -> tuple[str, ...]:
    """Where scans come from, without a password."""
    pushed = "What the carrier sends to /hooks/carrier/iv-mtr" if settings.carrier_token else None
    folder = settings.carrier_folder
    dropped = None if folder is None else f"Files in {partner_name(str(folder))}"
    return tuple(filter(None, (pushed, dropped)))


def chances(settings: Settings) -> Chances:
    return Chances(settings.test_seed, settings.test_losses)


@dataclass(frozen=True, slots=True)
class Ends:
    """When a world gives up waiting for the carrier."""

    infer_after: timedelta | None
    infer_unseen_after: timedelta | None
    reroute_ends: timedelta


def live_ends(settings: Settings) -> Ends:
    return Ends(
        _days(settings.infer_delivery_days),
        _days(settings.infer_unseen_days),
        timedelta(days=settings.reroute_ends_days),
    )


def sandbox_ends(settings: Settings) -> Ends:
    """Where nothing gets lost every piece ends by itself. Else the last word is waited for as long as a whole
    journey takes."""
    journey = timedelta(seconds=settings.test_journey_seconds)
    if not settings.test_losses:
        return Ends(None, None, timedelta(days=settings.reroute_ends_days))
    return Ends(journey, journey * 1.25, journey * 1.5)


def _days(days: int | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


TEST_INDICIA = ("SAMPLE", "NOT MAILED", "QUILLPOST TEST")
TEST_MAILER_ID = "999999"
LIVE_POLL = timedelta(minutes=5)
TEST_POLL = timedelta(seconds=1)


def both_worlds(settings: Settings, store: FileStore, drawing: Studio) -> Mapping[str, World]:
    """Each by its mode."""
    return {"test": _test_world(settings, store), "live": _live_world(settings, store, drawing)}


def _test_world(settings: Settings, store: FileStore) -> World:
    journey = timedelta(seconds=settings.test_journey_seconds)
    ends = sandbox_ends(settings)
    return World(
        mode="test",
        printer=SandboxPrinter(store, "print-jobs/test", journey=journey, chances=chances(settings)),
        carrier=SandboxCarrier(store),
        review=timedelta(seconds=settings.test_review_seconds),
        poll_every=TEST_POLL,
        mailer_id=TEST_MAILER_ID,
        indicia={"first": TEST_INDICIA, "standard": TEST_INDICIA},
        service_types=SERVICE_TYPES,
        partner="sandbox",
        feeds=("The simulated mail",),
        infer_after=ends.infer_after,
        infer_unseen_after=ends.infer_unseen_after,
        reroute_ends=ends.reroute_ends,
    )


def _live_world(settings: Settings, store: FileStore, drawing: Studio) -> World:
    ready, ends = live_readiness(settings, drawing), live_ends(settings)
    return World(
        mode="live",
        printer=live_printer(settings, store),
        carrier=live_carrier(settings, store),
        review=timedelta(seconds=settings.review_seconds),
        poll_every=LIVE_POLL,
        mailer_id=settings.mailer_id or "",
        indicia=ready.indicia,
        service_types=FULL_SERVICE_TYPES if settings.full_service else SERVICE_TYPES,
        partner=partner_shown(settings),
        cutoff=settings.print_cutoff,
        zone=zone_of(settings),
        gaps=ready.gaps,
        missing=ready.missing,
        infer_after=ends.infer_after,
        infer_unseen_after=ends.infer_unseen_after,
        reroute_ends=ends.reroute_ends,
        needs_credit=settings.credit_control,
        feeds=feeds_shown(settings),
    )


def zone_of(settings: Settings) -> tzinfo:
    name = settings.timezone
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of a folder of zones Python tries to read a file
        raise NotReady(f"QUILLPOST_TIMEZONE names no time zone: {name}. Try America/New_York.") from None


House = TremendousCards | TangoCards


def giftcard_issuers(
    settings: Settings, db: Database, sealer: Sealer, clock: Clock
) -> Mapping[str, GiftcardIssuer]:
    """Testing mode makes up its cards: nothing is bought there."""
    live = house_of(settings) or StockCards(db, sealer, clock=clock)
    return {"test": SandboxCards(db, sealer, clock=clock), "live": live}


def house_of(settings: Settings) -> House | None:
    """Who is asked for live cards, where it is not our own stock. Nobody is called yet."""
    if settings.giftcards is None:
        return None
    kind, _, address = settings.giftcards.partition(":")
    key = settings.giftcards_key.get_secret_value() if settings.giftcards_key else ""
    if kind not in ("tremendous", "tango"):
        raise NotReady(f"{SETTING} must be tremendous:https://host or tango:https://host.")
    if not key or not key.isprintable() or not key.isascii():
        raise NotReady(f"{SETTING} is set: {SETTING}_KEY must be set too, to be let in with.")
    if kind == "tremendous":
        return TremendousCards(address, key=key, funding_source=settings.giftcards_account)
    return TangoCards(address, key=key, account=settings.giftcards_account)


def lead_sources(settings: Settings, db: Database, clock: Clock) -> Mapping[str, LeadsProvider]:
    """Testing mode has the sample alone: what is bought there is not paid for."""
    return {"test": TableLeads(db, samples=True, clock=clock), "live": _live(settings, db, clock)}


def _live(settings: Settings, db: Database, clock: Clock) -> LeadsProvider:
    if settings.leads is None:
        return TableLeads(db, samples=False, clock=clock)
    given = settings.leads_secret.get_secret_value().split() if settings.leads_secret else []
    if not all(map(signatures.is_secret, given)):
        raise NotReady("QUILLPOST_LEADS_SECRET must be whsec_ and 24 to 64 bytes as base64.")
    return HttpLeads(settings.leads, secrets=given, clock=clock)
