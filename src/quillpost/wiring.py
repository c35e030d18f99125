"""The composition root: settings in, the running service's parts out. Only this module knows adapters."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from quillpost.accounts import service as accounts
from quillpost.adapters.carrier.inbox import Inbox
from quillpost.adapters.carrier.sandbox import SandboxCarrier
from quillpost.adapters.files.faces import FaceFolder
from quillpost.adapters.files.objects import folder_store, s3_store
from quillpost.adapters.http.fetcher import GuardedFetcher
from quillpost.adapters.http.guard import OutboundGuard
from quillpost.adapters.http.poster import WebhookPoster
from quillpost.adapters.http.resolver import PooledResolver
from quillpost.adapters.printing.sandbox import SandboxPrinter
from quillpost.api import idempotency
from quillpost.carriers import chances, live_carrier, live_ends, sandbox_ends
from quillpost.composition.hands.collection import Hands
from quillpost.composition.hands.sources import FontSources
from quillpost.composition.pages.sides import Piece
from quillpost.composition.pages.templates import BadTemplate, shipped_pieces
from quillpost.composition.pdf.intent import SRGB, OutputIntent, read_profile
from quillpost.composition.studio import Studio
from quillpost.creative.shelf import Shelf, forget_expired, forget_orphans
from quillpost.database import Database
from quillpost.database.embedded import EmbeddedPostgres
from quillpost.database.engine import require_reachable
from quillpost.fulfilment import pooling, production, review, steps
from quillpost.fulfilment.checks import ReviewLimits
from quillpost.fulfilment.press import Press
from quillpost.fulfilment.rules import FULL_SERVICE_TYPES, SERVICE_TYPES
from quillpost.jobs import Pulse, Runner, Task
from quillpost.kit.errors import NotReady
from quillpost.kit.sealing import Sealer, load_or_create_key
from quillpost.kit.signed_links import LinkSigner
from quillpost.kit.times import Clock
from quillpost.kit.turns import Turn
from quillpost.live_readiness import live_readiness
from quillpost.orders import stored
from quillpost.orders.materialising import MATERIALISE, materialise, materialise_again
from quillpost.orders.service import SWEEP
from quillpost.parts import Limits, Parts
from quillpost.ports import FileStore, World
from quillpost.print_partner import hook_secrets, live_printer, partner_shown
from quillpost.settings import Settings as Settings
from quillpost.tracking import closing
from quillpost.tracking import service as tracking
from quillpost.webhooks.pump import Pump

# The folder that the source lies in, where it was installed from a checkout.
CHECKOUT = Path(__file__).parents[2]

TEST_INDICIA = ("SAMPLE", "NOT MAILED", "QUILLPOST TEST")
TEST_MAILER_ID = "999999"
LIVE_POLL = timedelta(minutes=5)
TEST_POLL = timedelta(seconds=1)


def now() -> datetime:
    return datetime.now(UTC)


def load_settings() -> Settings:
    """The environment's settings, or one sentence that names the one that is wrong."""
    try:
        return Settings()
    except ValidationError as wrong:
        first = wrong.errors()[0]
        name = "QUILLPOST_" + str(first["loc"][0]).upper()
        raise NotReady(f"{name} is not usable: {first['msg']}.") from None


@dataclass(frozen=True, slots=True)
class Ground:
    """The database, and the server that was started for it, if any."""

    conninfo: str
    server: EmbeddedPostgres | None = None
    turn: Turn | None = None

    def close(self) -> None:
        if self.server is not None:
            self.server.stop()
        if self.turn is not None:
            self.turn.end()


def open_ground(settings: Settings, *, stays: bool = False) -> Ground:
    """Start or find PostgreSQL. Call from the main thread: the server dies with the thread's process.

    A command that comes and goes, and had to start the server, keeps its turn until it has stopped it: a
    service that starts meanwhile waits, instead of settling on ground that is about to go.
    """
    if settings.database_url is not None:
        require_reachable(settings.database_url)
        return Ground(settings.database_url)
    home = settings.home.absolute()
    server = EmbeddedPostgres(home, bin_folder=settings.postgres_bin)
    turn = Turn(home / "starting.lock")
    try:
        turn.take()
    except OSError as refused:
        raise NotReady(f"The home folder {home} cannot be used: {refused.strerror}.") from None
    try:
        server.start()
    except BaseException:
        turn.end()
        raise
    if stays or server.is_adopted:
        turn.end()
    return Ground(server.conninfo(), server, turn)


def build(
    settings: Settings,
    conninfo: str,
    *,
    clock: Clock = now,
) -> Parts:
    """All parts of a running service, over a database that is ready."""
    sealer = sealer_of(settings)
    store = file_store(settings)
    shelf = Shelf(store, LinkSigner(sealer.derive("links")))
    drawing = studio(settings)
    # The embedded server knows us by our socket, whichever role we come as.
    db = Database(conninfo, own_logins=settings.database_url is None)
    base_url = public_base(settings)
    worlds = {"test": _test_world(settings, store), "live": _live_world(settings, store, drawing)}
    guard = outbound_guard(settings)
    return Parts(
        db=db,
        studio=drawing,
        shelf=shelf,
        press=Press(db, drawing, shelf, worlds, qr_base=base_url, review=review_limits(settings)),
        worlds=worlds,
        fetcher=GuardedFetcher(guard),
        sealer=sealer,
        check_url=guard.check_url,
        clock=clock,
        limits=Limits(
            calls_a_minute=settings.calls_a_minute,
            body_bytes=settings.body_bytes,
            inline_recipients=settings.inline_recipients,
            message_characters=settings.message_characters,
            metadata_bytes=settings.metadata_bytes,
            items_per_page=settings.items_per_page,
            recipients_per_page=settings.recipients_per_page,
        ),
        base_url=base_url,
        metrics_token=settings.metrics_token.get_secret_value() if settings.metrics_token else None,
        receiver_key=sealer.derive("receiver").hex()[:24] if settings.receiver else None,
        stall_seconds=settings.job_stall_seconds,
        print_secrets=hook_secrets(settings),
        carrier_inbox=Inbox(store),
        carrier_token=settings.carrier_token.get_secret_value() if settings.carrier_token else None,
    )


def studio(settings: Settings) -> Studio:
    """All that it takes to draw, with the operator's own templates and colours."""
    return Studio(hands(settings), pieces_of(settings), intent_of(settings))


def pieces_of(settings: Settings) -> Mapping[str, Piece]:
    overrides = _operators_file(settings.templates, "QUILLPOST_TEMPLATES")
    try:
        return shipped_pieces(overrides.decode() if overrides is not None else None)
    except (BadTemplate, UnicodeDecodeError) as wrong:
        raise NotReady(f"QUILLPOST_TEMPLATES cannot be used. {wrong}") from None


def intent_of(settings: Settings) -> OutputIntent:
    profile = _operators_file(settings.output_profile, "QUILLPOST_OUTPUT_PROFILE")
    try:
        return read_profile(profile) if profile is not None else SRGB
    except ValueError as wrong:
        raise NotReady(f"QUILLPOST_OUTPUT_PROFILE cannot be used. {wrong}") from None


def hands(settings: Settings) -> Hands:
    packages = settings.font_packages or CHECKOUT / "node_modules"
    return Hands(FontSources(packages), FaceFolder(faces_folder(settings)))


def faces_folder(settings: Settings) -> Path:
    """Where prepared hands are kept."""
    return settings.faces_folder or settings.home.absolute() / "faces"


def _operators_file(path: Path | None, setting: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as fault:
        raise NotReady(f"{setting} names {path}, which cannot be read: {fault.strerror}.") from None


def tasks(parts: Parts) -> list[Task]:
    """Everything that workers do."""
    db, press, shelf = parts.db, parts.press, parts.shelf

    def timed(do: Callable[..., object], *known: object) -> Callable[..., None]:
        """The work with the moment at which it runs."""

        def run(**args: int) -> None:
            do(*known, **args, now=parts.clock())

        return run

    modes_that_need_credit = {mode for mode, world in parts.worlds.items() if world.needs_credit}
    sweep = timed(review.sweep, press)
    pool = timed(pooling.pool, press)
    track = timed(tracking.poll, db, parts.worlds)
    close = timed(closing.close, db, parts.worlds)
    return [
        Task(MATERIALISE, timed(partial(materialise, db, needs_credit=modes_that_need_credit))),
        Task(SWEEP, sweep),
        Task(steps.POOL, pool),
        Task(steps.COMPOSE, timed(production.compose, press), queue=steps.COMPOSE_QUEUE),
        Task(steps.HAND_OVER, timed(production.hand_over, press), queue=steps.HAND_OVER_QUEUE),
        Task(steps.FOLLOW, timed(production.follow, press)),
        Task(tracking.POLL, track),
        Task(closing.CLOSE, close),
        # Backstops: whatever a wake-up that was lost should have started.
        Task("audience.materialise_again", partial(materialise_again, db), every="* * * * *"),
        Task("fulfilment.sweep_again", sweep, every="* * * * *"),
        Task("fulfilment.pool_again", pool, every="* * * * *"),
        Task("fulfilment.resume", partial(production.resume, press), every="* * * * *"),
        Task("tracking.poll_again", track, every="* * * * *"),
        Task("tracking.close_again", close, every="11 * * * *"),
        # Housekeeping.
        Task("files.forget_expired", timed(forget_expired, db, shelf), every="23 * * * *"),
        Task("files.forget_orphans", timed(forget_orphans, db, shelf), every="37 3 * * *"),
        Task("idempotency.forget_expired", timed(idempotency.forget_expired, db), every="29 * * * *"),
        Task("stored_sends.forget_expired", timed(stored.forget_expired, db), every="41 * * * *"),
        Task("accounts.forget_windows", partial(accounts.forget_windows, db), every="31 * * * *"),
    ]


def runner(
    settings: Settings, parts: Parts, *, concurrency: int | None = None, queues: list[str] | None = None
) -> Runner:
    return Runner(
        parts.db.worker_conninfo,
        tasks(parts),
        concurrency=concurrency or settings.job_concurrency,
        queues=queues,
        singly=list(steps.QUEUES.values()),
        pulse=Pulse(settings.job_heartbeat_seconds, settings.job_stall_seconds),
    )


def pump(settings: Settings, parts: Parts) -> Pump:
    poster = WebhookPoster(
        outbound_guard(settings), seconds=settings.webhook_seconds, resolver=PooledResolver()
    )
    answer_within = timedelta(seconds=settings.webhook_seconds)
    return Pump(parts.db, parts.sealer, poster, parts.clock, answer_within=answer_within)


def file_store(settings: Settings) -> FileStore:
    if settings.files_bucket is None:
        return folder_store(settings.home.absolute() / "files")
    secret = settings.files_secret_access_key
    return s3_store(
        settings.files_bucket,
        region=settings.files_region,
        endpoint=settings.files_endpoint,
        access_key_id=settings.files_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        path_style=settings.files_endpoint is not None,
        allow_http=(settings.files_endpoint or "").startswith("http://"),
    )


def public_base(settings: Settings) -> str:
    return (settings.base_url or f"http://{_shown(settings.host)}:{settings.port}").rstrip("/")


def outbound_guard(settings: Settings) -> OutboundGuard:
    """Every address that callers name is guarded; the one exception is our own receiver page."""
    own = {(_shown(settings.host), settings.port)} if settings.receiver else set()
    return OutboundGuard(allow_private=settings.allow_private_urls, allow=frozenset(own))


def _shown(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104


def sealer_of(settings: Settings) -> Sealer:
    if settings.secret_key is None:
        return Sealer({"1": load_or_create_key(key_path(settings.home))}, "1")
    try:
        key = base64.b64decode(settings.secret_key.get_secret_value(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 32:
        raise NotReady("QUILLPOST_SECRET_KEY must be 32 bytes as base64.")
    return Sealer({"1": key}, "1")


def key_path(home: Path) -> Path:
    return home.absolute() / "secret.key"


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
        infer_after=ends.infer_after,
        infer_unseen_after=ends.infer_unseen_after,
        reroute_ends=ends.reroute_ends,
        needs_credit=settings.credit_control,
    )


def review_limits(settings: Settings) -> ReviewLimits:
    return ReviewLimits(
        dpi=settings.review_dpi,
        unfilled_percent=settings.review_unfilled_percent,
        undeliverable_percent=settings.review_undeliverable_percent,
    )


def zone_of(settings: Settings) -> tzinfo:
    name = settings.timezone
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of a folder of zones Python tries to read a file
        raise NotReady(f"QUILLPOST_TIMEZONE names no time zone: {name}. Try America/New_York.") from None
