"""The verifier of addresses that the settings ask for; a part of the wiring."""

from datetime import timedelta

from quillpost.adapters.verify.http import verifier_at
from quillpost.audience.address_verdicts import Verifying
from quillpost.database import Database
from quillpost.kit.times import Clock
from quillpost.ports.addresses import AddressVerifier
from quillpost.settings import Settings


def verifier_of(settings: Settings) -> AddressVerifier | None:
    """Who is asked, if anybody."""
    if settings.verifier is None:
        return None
    key = settings.verifier_key
    return verifier_at(
        settings.verifier,
        key=key.get_secret_value() if key else None,
        appends=settings.verifier_appends,
    )


def verifying_of(settings: Settings, db: Database, clock: Clock) -> Verifying | None:
    verifier = verifier_of(settings)
    if verifier is None:
        return None
    return Verifying(db, verifier, timedelta(days=settings.verified_days), clock)


def answer_within(settings: Settings) -> timedelta | None:
    """How long due orders wait for its answers; without a verifier, not at all."""
    return None if settings.verifier is None else timedelta(seconds=settings.verify_wait_seconds)
