"""The running service's parts, as the edges are handed them. `app/bootstrap.py` puts them together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

from quillpost.accounts.users.passwords import SignInContext
from quillpost.core.database import Database
from quillpost.core.encryption import Encryptor
from quillpost.core.exact_json import DEFAULT_BODY_LIMITS, BodyLimits
from quillpost.core.files import FileStorage
from quillpost.core.ports import Fetcher
from quillpost.core.text import Clock
from quillpost.fulfillment.batches.giftcards import count_available_cards
from quillpost.fulfillment.models import Environment, ProductionContext
from quillpost.fulfillment.ports import CarrierInbox
from quillpost.fulfillment.qr_scans.service import ScanRecorder
from quillpost.fulfillment.review.service import list_pause_warnings
from quillpost.orders.ports import OrderContext
from quillpost.recipients.leads.ports import LeadProvider
from quillpost.recipients.verification.service import VerificationContext
from quillpost.rendering.service import Renderer

RECEIVER_KEY_DIGITS = 24


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is the setting of its name, but for `bounds`."""

    calls_a_minute: int = 120
    calls_at_once: int = 4
    wait_seconds: float = 2
    hook_calls_a_minute: int = 600
    webhooks: int = 100
    body_bytes: int = 20_000_000
    bounds: BodyLimits = DEFAULT_BODY_LIMITS  # what a body may hold
    import_bytes: int = 500_000_000
    inline_recipients: int = 5_000
    message_characters: int = 5_000
    metadata_bytes: int = 8_192
    items_per_page: int = 100
    recipients_per_page: int = 10_000
    code_seconds: int = 60
    access_token_days: int = 30
    refresh_token_days: int = 365
    legacy_fields: bool = False  # fields of earlier versions are taken


@dataclass(frozen=True, slots=True)
class Container:
    db: Database
    renderer: Renderer
    storage: FileStorage
    production: ProductionContext
    environments: Mapping[str, Environment]
    fetcher: Fetcher
    encryptor: Encryptor
    sign_in_context: SignInContext  # all that signing in takes
    check_url: Callable[[str], str | None]
    clock: Clock
    limits: Limits
    base_url: str
    has_mail_server: bool  # whether mails reach people: without a mail server they are written to the standard output
    metrics_token: str | None
    has_embedded_database: bool  # whether the database is the embedded one, which this service starts and looks after
    has_receiver: bool
    job_stall_seconds: float
    print_partner_secrets: Mapping[str, Sequence[str]]  # by the print partner's name, what it signs its calls with
    import_retention: timedelta  # how long the file of an import is kept
    carrier_inbox: CarrierInbox
    carrier_token: str | None
    npm_packages: Path  # where the scripts lie that pages have from others
    scan_recorder: ScanRecorder
    verification: VerificationContext | None  # how addresses are verified; without a verifier, not at all
    retention_days: Mapping[str, int | None]
    """By the name of a setting, for how many days something is kept; None: for ever."""
    lead_providers: Mapping[str, LeadProvider]  # by mode, where addresses for radius searches come from
    orders: OrderContext = field(init=False)

    def __post_init__(self) -> None:
        order_context = OrderContext(
            db=self.db,
            renderer=self.renderer,
            storage=self.storage,
            fetcher=self.fetcher,
            encryptor=self.encryptor,
            environments=self.environments,
            lead_providers=self.lead_providers,
            check_url=self.check_url,
            qr_base=self.production.qr_base,
            opt_out=self.production.opt_out,
            clock=self.clock,
            count_available_cards=partial(count_available_cards, self.production),
            list_pause_warnings=partial(list_pause_warnings, self.db, self.environments, self.clock),
        )
        object.__setattr__(self, "orders", order_context)

    @property
    def receiver_keys(self) -> Sequence[str]:
        """Keys of the built-in receiver, the current one first: addresses from before a change of the secret key stay
        valid."""
        keys = self.encryptor.derive_keys("receiver") if self.has_receiver else ()
        return [key.hex()[:RECEIVER_KEY_DIGITS] for key in keys]

    @property
    def receiver_key(self) -> str | None:
        return next(iter(self.receiver_keys), None)
