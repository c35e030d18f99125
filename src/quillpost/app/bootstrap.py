"""From settings to the running service."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from quillpost.accounts.users.passwords import Hasher
from quillpost.accounts.users.sign_in import Means
from quillpost.app.container import Limits, Parts
from quillpost.app.environments import both_worlds, giftcard_issuers, hook_secrets, lead_sources, zone_of
from quillpost.app.outbound import outbound_guard
from quillpost.app.runtime import now, public_base, stand
from quillpost.app.tasks import tasks
from quillpost.core.body_limits import Bounds
from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.errors import NotReady
from quillpost.core.jobs import Pulse, Runner
from quillpost.core.outbox import Channel
from quillpost.core.settings import Settings
from quillpost.core.stored_files import Shelf
from quillpost.core.tokens import LinkSigner
from quillpost.fulfillment import models as fulfillment_models
from quillpost.fulfillment.checks import ReviewLimits
from quillpost.fulfillment.models import Press
from quillpost.fulfillment.qr_scans.service import Desk
from quillpost.fulfillment.qr_scans.tasks import Tally
from quillpost.integrations.address_verification.http import verifier_at
from quillpost.integrations.carriers.folder import Inbox
from quillpost.integrations.email import address
from quillpost.integrations.email.console import ConsoleNotifier
from quillpost.integrations.email.smtp import SmtpNotifier
from quillpost.integrations.http.client import GuardedFetcher, WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard, PooledResolver
from quillpost.integrations.sms.twilio import TwilioNotifier
from quillpost.integrations.storage.fonts import FaceFolder
from quillpost.notifications.ports import Notifier
from quillpost.notifications.sender import Courier
from quillpost.notifications.webhooks.dispatcher import Pump
from quillpost.orders.designs import opt_out_words
from quillpost.privacy import retention
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.verification.ports import AddressVerifier
from quillpost.recipients.verification.service import Verifying
from quillpost.rendering.decoder.sandbox import LimitedSandbox
from quillpost.rendering.handwriting.collection import Hands
from quillpost.rendering.handwriting.sources import FontSources
from quillpost.rendering.layout.products import Piece
from quillpost.rendering.layout.templates import BadTemplate, shipped_pieces
from quillpost.rendering.pdf.color import SRGB, OutputIntent, read_profile
from quillpost.rendering.renderer import Studio


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


TEXT_SECONDS = 20.0


def notifiers(settings: Settings) -> dict[Channel, Notifier]:
    """One for each channel, or `NotReady`. Without a server, messages are written to the standard output."""
    return {
        "mail": smtp(settings) or ConsoleNotifier("E-mail", address.SMTP),
        "text": texts(settings) or ConsoleNotifier("Text message", address.SMS),
    }


def smtp(settings: Settings) -> SmtpNotifier | None:
    if settings.smtp is None:
        return None
    password = settings.smtp_password
    server = address.mail_server(
        settings.smtp,
        password=password.get_secret_value() if password else None,
        authorities=settings.smtp_ca,
    )
    name, sender = address.mail_from(settings.mail_from)
    return SmtpNotifier(server, sender_name=name, sender=sender)


def texts(settings: Settings) -> TwilioNotifier | None:
    if settings.sms is None:
        return None
    token = settings.sms_token
    service = address.text_service(
        settings.sms,
        token=token.get_secret_value() if token else None,
        sender=settings.sms_from,
    )
    # The address is the operator's own setting, not a caller's: it may well be on a private network.
    guard = OutboundGuard(allow_private=True)
    return TwilioNotifier(service, WebhookPoster(guard, seconds=TEXT_SECONDS, resolver=PooledResolver()))


# The folder that the source lies in, where it was installed from a checkout.
CHECKOUT = Path(__file__).parents[3]
BUNDLED_PACKAGES = Path(__file__).parents[1] / "node_modules"
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
        singly=[*fulfillment_models.QUEUES.values(), import_tasks.QUEUE],
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
