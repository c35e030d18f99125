"""The carriers that the settings ask for; a part of the wiring."""

from dataclasses import dataclass
from datetime import timedelta

from quillpost.adapters.carrier.drop_folder import DropFolder
from quillpost.adapters.carrier.inbox import Inbox
from quillpost.adapters.carrier.journeys import Chances
from quillpost.adapters.carrier.several import SeveralFeeds
from quillpost.adapters.places.address import place_at
from quillpost.fulfilment.partner_names import partner_name
from quillpost.ports.carriers import CarrierFeed
from quillpost.ports.files import FileStore
from quillpost.print_partner import sftp_keys
from quillpost.settings import Settings


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
