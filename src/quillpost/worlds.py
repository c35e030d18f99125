"""The outside as each mode sees it: testing mode has a simulated printer and carrier on a fast clock."""

from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quillpost.adapters.carrier.sandbox import SandboxCarrier
from quillpost.adapters.printing.sandbox import SandboxPrinter
from quillpost.carriers import chances, feeds_shown, live_carrier, live_ends, sandbox_ends
from quillpost.composition.studio import Studio
from quillpost.fulfilment.rules import FULL_SERVICE_TYPES, SERVICE_TYPES
from quillpost.kit.errors import NotReady
from quillpost.live_readiness import live_readiness
from quillpost.ports.files import FileStore
from quillpost.ports.worlds import World
from quillpost.print_partner import live_printer, partner_shown
from quillpost.settings import Settings

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
