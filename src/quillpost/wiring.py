"""The composition root: settings in, the running service's parts out. Only this module knows adapters."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from quillpost.adapters.carrier.inbox import Inbox
from quillpost.adapters.files.faces import FaceFolder
from quillpost.adapters.files.objects import folder_store, s3_store
from quillpost.adapters.http.fetcher import GuardedFetcher
from quillpost.adapters.http.poster import WebhookPoster
from quillpost.adapters.http.resolver import PooledResolver
from quillpost.audience.importing import filling
from quillpost.composition.hands.collection import Hands
from quillpost.composition.hands.sources import FontSources
from quillpost.composition.pages.sides import Piece
from quillpost.composition.pages.templates import BadTemplate, shipped_pieces
from quillpost.composition.pdf.intent import SRGB, OutputIntent, read_profile
from quillpost.composition.studio import Studio
from quillpost.creative.shelf import Shelf
from quillpost.database import Database
from quillpost.database.embedded import EmbeddedPostgres
from quillpost.database.engine import require_reachable
from quillpost.duties import automation_means as automation_means
from quillpost.duties import tasks as tasks
from quillpost.fulfilment import steps
from quillpost.fulfilment.checks import ReviewLimits
from quillpost.fulfilment.press import Press
from quillpost.jobs import Pulse, Runner
from quillpost.kit.errors import NotReady
from quillpost.kit.sealing import Sealer, load_or_create_key
from quillpost.kit.signed_links import LinkSigner
from quillpost.kit.times import Clock
from quillpost.kit.turns import Turn
from quillpost.lead_source import lead_sources
from quillpost.notices.courier import Courier
from quillpost.notifiers import notifiers
from quillpost.orders.look import opt_out_words
from quillpost.outbound import outbound_guard, public_base
from quillpost.parts import Limits, Parts
from quillpost.ports import FileStore
from quillpost.print_partner import hook_secrets
from quillpost.privacy import retention
from quillpost.scans.desk import Desk
from quillpost.scans.tally import Tally
from quillpost.settings import Settings as Settings
from quillpost.verifiers import answer_within, verifying_of
from quillpost.webhooks.pump import Pump
from quillpost.worlds import both_worlds, zone_of

# The folder that the source lies in, where it was installed from a checkout.
CHECKOUT = Path(__file__).parents[2]


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
    worlds = both_worlds(settings, store, drawing)
    guard = outbound_guard(settings)
    notifiers(settings)  # what is set wrongly is told before anything starts
    return Parts(
        db=db,
        studio=drawing,
        shelf=shelf,
        press=Press(
            db,
            drawing,
            shelf,
            worlds,
            qr_base=base_url,
            review=review_limits(settings),
            answer_within=answer_within(settings),
            opt_out=opt_out_words(base_url) if settings.opt_out_line else None,
        ),
        worlds=worlds,
        fetcher=GuardedFetcher(guard),
        sealer=sealer,
        check_url=guard.check_url,
        clock=clock,
        limits=Limits(
            calls_a_minute=settings.calls_a_minute,
            hook_calls_a_minute=settings.hook_calls_a_minute,
            webhooks=settings.webhooks,
            body_bytes=settings.body_bytes,
            import_bytes=settings.import_bytes,
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
        keep_imports=timedelta(days=settings.keep_imports_days),
        retention={rule.setting: getattr(settings, rule.setting) for rule in retention.RULES},
        scans=Desk(db, clock, valid=qr_valid(settings), most_a_minute=settings.scans_a_minute),
        verifying=verifying_of(settings, db, clock),
        leads=lead_sources(settings, db, clock),
    )


def qr_valid(settings: Settings) -> timedelta | None:
    """How long codes lead somewhere; nothing: as long as we do."""
    return None if settings.qr_valid_days is None else timedelta(days=settings.qr_valid_days)


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


def runner(
    settings: Settings, parts: Parts, *, concurrency: int | None = None, queues: list[str] | None = None
) -> Runner:
    return Runner(
        parts.db.worker_conninfo,
        tasks(parts),
        concurrency=concurrency or settings.job_concurrency,
        queues=queues,
        singly=[*steps.QUEUES.values(), filling.QUEUE],
        pulse=Pulse(settings.job_heartbeat_seconds, settings.job_stall_seconds),
        kept_hours=settings.keep_jobs_days * 24,
    )


class Listener(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


def listeners(settings: Settings, parts: Parts) -> list[Listener]:
    """Those that count and tell what happened, beside the jobs: each runs until it is stopped."""
    tally = Tally(parts.db, parts.sealer, parts.scans, parts.clock)
    return [tally, pump(settings, parts), courier(settings, parts)]


def courier(settings: Settings, parts: Parts) -> Courier:
    return Courier(
        parts.db,
        parts.sealer,
        notifiers(settings),
        parts.clock,
        base_url=parts.base_url,
        window=timedelta(minutes=settings.digest_minutes),
        zone=zone_of(settings),
    )


def pump(settings: Settings, parts: Parts) -> Pump:
    poster = WebhookPoster(
        outbound_guard(settings), seconds=settings.webhook_seconds, resolver=PooledResolver()
    )
    patience = timedelta(seconds=settings.webhook_seconds)
    return Pump(parts.db, parts.sealer, poster, parts.clock, answer_within=patience)


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


def review_limits(settings: Settings) -> ReviewLimits:
    return ReviewLimits(
        dpi=settings.review_dpi,
        unfilled_percent=settings.review_unfilled_percent,
        undeliverable_percent=settings.review_undeliverable_percent,
    )
