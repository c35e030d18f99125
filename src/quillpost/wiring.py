"""The composition root: settings in, the running service's parts out. Only this module knows adapters."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from quillpost.adapters.carrier.inbox import Inbox
from quillpost.adapters.files.faces import FaceFolder
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
from quillpost.creative.sandbox import LimitedSandbox
from quillpost.creative.shelf import Shelf
from quillpost.duties import automation_means as automation_means
from quillpost.duties import tasks as tasks
from quillpost.footing import Ground as Ground
from quillpost.footing import Settings as Settings
from quillpost.footing import file_store as file_store
from quillpost.footing import key_path as key_path
from quillpost.footing import load_settings as load_settings
from quillpost.footing import now as now
from quillpost.footing import open_ground as open_ground
from quillpost.footing import sealer_of as sealer_of
from quillpost.footing import stand
from quillpost.footing import warn_of_open_key as warn_of_open_key
from quillpost.fulfilment import steps
from quillpost.fulfilment.checks import ReviewLimits
from quillpost.fulfilment.press import Press
from quillpost.giftcard_issuers import giftcard_issuers
from quillpost.jobs import Pulse, Runner
from quillpost.kit.bounds import Bounds
from quillpost.kit.errors import NotReady
from quillpost.kit.signed_links import LinkSigner
from quillpost.kit.times import Clock
from quillpost.lead_source import lead_sources
from quillpost.notices.courier import Courier
from quillpost.notifiers import notifiers
from quillpost.orders.look import opt_out_words
from quillpost.outbound import outbound_guard
from quillpost.parts import Limits, Parts
from quillpost.people.passwords import Hasher
from quillpost.people.signing_in import Means
from quillpost.print_partner import hook_secrets
from quillpost.privacy import retention
from quillpost.scans.desk import Desk
from quillpost.scans.tally import Tally
from quillpost.verifiers import answer_within, verifying_of
from quillpost.webhooks.pump import Pump
from quillpost.whereabouts import public_base
from quillpost.worlds import both_worlds, zone_of

# The folder that the source lies in, where it was installed from a checkout.
CHECKOUT = Path(__file__).parents[2]
BUNDLED_PACKAGES = Path(__file__).parent / "node_modules"
"""Only a wheel has it; see `tools/wheel_contents.py`."""


def build(
    settings: Settings,
    conninfo: str,
    *,
    clock: Clock = now,
) -> Parts:
    """All parts of a running service, over a database that is ready."""
    footing = stand(settings, conninfo, clock=clock)
    db, store, sealer = footing.db, footing.store, footing.sealer
    shelf = Shelf(store, LinkSigner(partial(sealer.derive_all, "links")))
    drawing = studio(settings)
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
            sealer=sealer,
            issuers=giftcard_issuers(settings, db, sealer, clock),
            review=review_limits(settings),
            answer_within=answer_within(settings),
            opt_out=opt_out_words(base_url) if settings.opt_out_line else None,
        ),
        worlds=worlds,
        fetcher=GuardedFetcher(guard),
        sealer=sealer,
        people=Means(db, Hasher(), sealer),
        check_url=guard.check_url,
        clock=clock,
        limits=Limits(
            calls_a_minute=settings.calls_a_minute,
            calls_at_once=settings.calls_at_once,
            wait_seconds=settings.wait_seconds,
            hook_calls_a_minute=settings.hook_calls_a_minute,
            webhooks=settings.webhooks,
            body_bytes=settings.body_bytes,
            bounds=Bounds(
                nodes=settings.body_nodes,
                keys=settings.body_keys,
                object_keys=settings.object_keys,
                depth=settings.body_depth,
                key_bytes=settings.key_bytes,
                text_bytes=settings.text_bytes,
                unknown_keys=settings.unknown_keys,
            ),
            import_bytes=settings.import_bytes,
            inline_recipients=settings.inline_recipients,
            message_characters=settings.message_characters,
            metadata_bytes=settings.metadata_bytes,
            items_per_page=settings.items_per_page,
            recipients_per_page=settings.recipients_per_page,
            code_seconds=settings.code_seconds,
            access_token_days=settings.access_token_days,
            refresh_token_days=settings.refresh_token_days,
            legacy_fields=settings.legacy_fields,
        ),
        base_url=base_url,
        sends_mail=settings.smtp is not None,
        metrics_token=settings.metrics_token.get_secret_value() if settings.metrics_token else None,
        has_own_database=settings.database_url is None,
        has_receiver=settings.receiver,
        stall_seconds=settings.job_stall_seconds,
        print_secrets=hook_secrets(settings),
        carrier_inbox=Inbox(store),
        carrier_token=settings.carrier_token.get_secret_value() if settings.carrier_token else None,
        keep_imports=timedelta(days=settings.keep_imports_days),
        retention=retention.days_of(settings),
        npm_packages=npm_packages(settings),
        scans=Desk(db, clock, valid=qr_valid(settings), most_a_minute=settings.scans_a_minute),
        verifying=verifying_of(settings, db, clock),
        leads=lead_sources(settings, db, clock),
    )


def qr_valid(settings: Settings) -> timedelta | None:
    """How long codes lead somewhere; nothing: as long as we do."""
    return None if settings.qr_valid_days is None else timedelta(days=settings.qr_valid_days)


def studio(settings: Settings) -> Studio:
    """All that it takes to draw, with the operator's own templates and colours."""
    return Studio(hands(settings), pieces_of(settings), intent_of(settings), sandbox=LimitedSandbox())


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
    return Hands(FontSources(npm_packages(settings)), FaceFolder(faces_folder(settings)))


def npm_packages(settings: Settings) -> Path:
    """The `node_modules` folder that typefaces and scripts of pages come from."""
    if settings.font_packages:
        return settings.font_packages
    return BUNDLED_PACKAGES if BUNDLED_PACKAGES.is_dir() else CHECKOUT / "node_modules"


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


def review_limits(settings: Settings) -> ReviewLimits:
    return ReviewLimits(
        dpi=settings.review_dpi,
        contrast=settings.review_contrast,
        unfilled_percent=settings.review_unfilled_percent,
        undeliverable_percent=settings.review_undeliverable_percent,
    )
