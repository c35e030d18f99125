"""The running service's parts, as the edges are handed them. `wiring.py` puts them together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from quillpost.audience.address_verdicts import Verifying
from quillpost.composition.studio import Studio
from quillpost.creative.shelf import Shelf
from quillpost.database import Database
from quillpost.fulfilment.press import Press
from quillpost.kit.bounds import BOUNDS, Bounds
from quillpost.kit.sealing import Sealer
from quillpost.kit.times import Clock
from quillpost.people.signing_in import Means
from quillpost.ports.carriers import CarrierInbox
from quillpost.ports.files import Fetcher
from quillpost.ports.leads import LeadsProvider
from quillpost.ports.worlds import World
from quillpost.scans.desk import Desk

RECEIVER_DIGITS = 24


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may ask for at most, and in which words; each is a setting."""

    calls_a_minute: int = 120
    calls_at_once: int = 4
    wait_seconds: float = 2
    hook_calls_a_minute: int = 600
    webhooks: int = 100
    body_bytes: int = 20_000_000
    bounds: Bounds = BOUNDS
    """What a body may hold."""
    import_bytes: int = 500_000_000
    inline_recipients: int = 5_000
    message_characters: int = 5_000
    metadata_bytes: int = 8_192
    items_per_page: int = 100
    recipients_per_page: int = 10_000
    code_seconds: int = 60
    access_token_days: int = 30
    refresh_token_days: int = 365
    legacy_fields: bool = False
    """Fields of earlier versions are taken."""


@dataclass(frozen=True, slots=True)
class Parts:
    db: Database
    studio: Studio
    shelf: Shelf
    press: Press
    worlds: Mapping[str, World]
    fetcher: Fetcher
    sealer: Sealer
    people: Means
    """All that signing in takes."""
    check_url: Callable[[str], str | None]
    clock: Clock
    limits: Limits
    base_url: str
    sends_mail: bool
    """Whether mails reach people: without a mail server they are written to the standard output."""
    metrics_token: str | None
    has_own_database: bool
    """Whether the database is the embedded one, which this service starts and looks after."""
    has_receiver: bool
    stall_seconds: float
    print_secrets: Mapping[str, Sequence[str]]
    """By the print partner's name, what it signs its calls with."""
    keep_imports: timedelta
    """How long the file of an import is kept."""
    carrier_inbox: CarrierInbox
    carrier_token: str | None
    npm_packages: Path
    """Where the scripts lie that pages have from others."""
    scans: Desk
    verifying: Verifying | None
    """How addresses are verified; without a verifier, not at all."""
    retention: Mapping[str, int | None]
    """By the name of a setting, for how many days something is kept; None: for ever."""
    leads: Mapping[str, LeadsProvider]
    """By mode, where addresses for radius searches come from."""

    @property
    def receiver_keys(self) -> Sequence[str]:
        """What lets in at the built-in receiver, the present one first: addresses that were subscribed before
        the secret key was changed are good, too. Nothing: there is no receiver."""
        keys = self.sealer.derive_all("receiver") if self.has_receiver else ()
        return [key.hex()[:RECEIVER_DIGITS] for key in keys]

    @property
    def receiver_key(self) -> str | None:
        """The present one."""
        return next(iter(self.receiver_keys), None)
