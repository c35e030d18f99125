"""From settings to the running service."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from quillpost.accounts.users.passwords import Hasher, SignInContext
from quillpost.app import runtime
from quillpost.app.container import Container, Limits
from quillpost.app.environments import (
    build_environments,
    build_giftcard_issuers,
    build_lead_providers,
    read_print_webhook_secrets,
    read_time_zone,
)
from quillpost.app.runtime import build_core_services, get_own_address, now, prepare_database, read_base_url
from quillpost.app.tasks import build_tasks
from quillpost.core.database import Database
from quillpost.core.errors import NotReady
from quillpost.core.exact_json import BodyLimits
from quillpost.core.files import FileStorage
from quillpost.core.jobs import JobRunner, WorkerTiming
from quillpost.core.outbox import Channel
from quillpost.core.settings import Settings, reveal
from quillpost.core.text import Clock
from quillpost.core.tokens import LinkSigner
from quillpost.fulfillment import models as fulfillment_models
from quillpost.fulfillment.models import ProductionContext, ReviewLimits
from quillpost.fulfillment.qr_scans.service import ScanRecorder
from quillpost.fulfillment.qr_scans.tasks import ScanCounter
from quillpost.integrations.address_verification.http import build_http_verifier
from quillpost.integrations.carriers.folder import StoredInbox
from quillpost.integrations.email import smtp
from quillpost.integrations.email.smtp import ConsoleNotifier, SmtpNotifier
from quillpost.integrations.http.client import GuardedFetcher, WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard, PooledResolver
from quillpost.integrations.sms import twilio
from quillpost.integrations.sms.twilio import TwilioNotifier
from quillpost.integrations.storage.objects import FaceFolder
from quillpost.notifications.ports import Notifier
from quillpost.notifications.tasks import MessageSender
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.orders.designs import opt_out_text
from quillpost.privacy import tasks as privacy_tasks
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.verification.ports import AddressVerifier
from quillpost.recipients.verification.service import VerificationContext
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.service import FontSources, Hands
from quillpost.rendering.layout.models import ProductLayout
from quillpost.rendering.layout.templates import InvalidProductTemplate, load_shipped_products
from quillpost.rendering.pdf.color import SRGB, OutputIntent, read_output_intent
from quillpost.rendering.service import Renderer

HOST_PATTERN = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]")


def build_outbound_guard(settings: Settings) -> OutboundGuard:
    """Guards every address but our own receiver page and those that the operator lists."""
    receiver_addresses = read_receiver_addresses(settings)
    return OutboundGuard(
        allow_private=settings.allow_private_urls,
        allow=frozenset(receiver_addresses | read_allowed_addresses(settings)),
    )


def read_receiver_addresses(settings: Settings) -> set[tuple[str, int]]:
    """Ours, or the one that a `serve --welcome` beside us has written down."""
    if settings.receiver:
        return {get_own_address(settings)}
    try:
        host, port = _get_receiver_file(settings).read_text().split()
        return {(host, int(port))}
    except (OSError, ValueError):
        return set()


def publish_receiver_address(settings: Settings) -> None:
    """For processes that deliver; removed where no receiver is served."""
    file = _get_receiver_file(settings)
    if not settings.receiver:
        with suppress(OSError):  # an unusable home is reported where it is needed
            file.unlink(missing_ok=True)
        return
    host, port = get_own_address(settings)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{host} {port}\n")
    except OSError as error:
        raise NotReady(f"The home folder {file.parent} cannot be used: {error.strerror}.") from None


def _get_receiver_file(settings: Settings) -> Path:
    return settings.home.absolute() / "receiver-place"


def read_allowed_addresses(settings: Settings) -> set[tuple[str, int]]:
    addresses = set()
    for text in filter(None, map(str.strip, (settings.allowed_hosts or "").split(","))):
        host, _, port = text.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536
        if not HOST_PATTERN.fullmatch(host) or not is_port:
            raise NotReady(
                f"QUILLPOST_ALLOWED_HOSTS names no host and port: {text}. "
                "Write each as localhost:3000, without http:// and without a path."
            )
        addresses.add((host.strip("[]").lower(), int(port)))
    return addresses


def build_verifier(settings: Settings) -> AddressVerifier | None:
    if settings.verifier is None:
        return None
    key = reveal(settings.verifier_key)
    return build_http_verifier(settings.verifier, key=key, can_append=settings.verifier_appends)


def build_verification(settings: Settings, db: Database, clock: Clock) -> VerificationContext | None:
    verifier = build_verifier(settings)
    if verifier is None:
        return None
    return VerificationContext(db, verifier, timedelta(days=settings.verified_days), clock)


SMS_TIMEOUT_SECONDS = 20.0


def build_notifiers(settings: Settings) -> dict[Channel, Notifier]:
    """Raises `NotReady`. Without a server, messages are written to the standard output."""
    return {
        "mail": build_smtp_notifier(settings) or ConsoleNotifier("E-mail", smtp.SMTP_SETTING),
        "text": build_sms_notifier(settings) or ConsoleNotifier("Text message", twilio.SETTING),
    }


def build_smtp_notifier(settings: Settings) -> SmtpNotifier | None:
    if settings.smtp is None:
        return None
    password = reveal(settings.smtp_password)
    server = smtp.parse_mail_server(settings.smtp, password=password, ca_file=settings.smtp_ca)
    name, sender = smtp.parse_mail_from(settings.mail_from)
    return SmtpNotifier(server, sender_name=name, sender=sender)


def build_sms_notifier(settings: Settings) -> TwilioNotifier | None:
    if settings.sms is None:
        return None
    service = twilio.parse_sms_service(settings.sms, token=reveal(settings.sms_token), sender=settings.sms_from)
    # The address is the operator's own setting, not a caller's: it may well be on a private network.
    guard = OutboundGuard(allow_private=True)
    return TwilioNotifier(service, WebhookPoster(guard, seconds=SMS_TIMEOUT_SECONDS, resolver=PooledResolver()))


# The folder that the source lies in, where it was installed from a checkout.
CHECKOUT_FOLDER = Path(__file__).parents[3]
BUNDLED_NPM_FOLDER = Path(__file__).parents[1] / "node_modules"  # only a wheel has it; see `tools/wheel_contents.py`


def build_container(settings: Settings, conninfo: str, *, clock: Clock = now) -> Container:
    """The database must be ready."""
    core = build_core_services(settings, conninfo, clock=clock)
    db, store, encryptor = core.db, core.store, core.encryptor
    storage = FileStorage(store, LinkSigner(partial(encryptor.derive_keys, "links")))
    renderer = build_renderer(settings)
    base_url = read_base_url(settings)
    environments = build_environments(settings, store, renderer)
    guard = build_outbound_guard(settings)
    build_notifiers(settings)  # wrong settings are reported before anything starts
    return Container(
        db=db,
        renderer=renderer,
        storage=storage,
        production=ProductionContext(
            db,
            renderer,
            storage,
            environments,
            qr_base=base_url,
            encryptor=encryptor,
            giftcard_issuers=build_giftcard_issuers(settings, db, encryptor, clock),
            review_limits=build_review_limits(settings),
            verification_timeout=None if settings.verifier is None else timedelta(seconds=settings.verify_wait_seconds),
            opt_out=opt_out_text(base_url) if settings.opt_out_line else None,
        ),
        environments=environments,
        fetcher=GuardedFetcher(guard),
        encryptor=encryptor,
        sign_in_context=SignInContext(db, Hasher(), encryptor),
        check_url=guard.check_url,
        clock=clock,
        limits=build_limits(settings),
        base_url=base_url,
        has_mail_server=settings.smtp is not None,
        metrics_token=reveal(settings.metrics_token),
        has_embedded_database=settings.database_url is None,
        has_receiver=settings.receiver,
        job_stall_seconds=settings.job_stall_seconds,
        print_partner_secrets=read_print_webhook_secrets(settings),
        carrier_inbox=StoredInbox(store),
        carrier_token=reveal(settings.carrier_token),
        import_retention=timedelta(days=settings.keep_imports_days),
        retention_days=privacy_tasks.read_retention_days(settings),
        npm_packages=find_npm_packages(settings),
        scan_recorder=ScanRecorder(
            db,
            clock,
            code_lifetime=None if settings.qr_valid_days is None else timedelta(days=settings.qr_valid_days),
            max_per_minute=settings.scans_a_minute,
        ),
        verification=build_verification(settings, db, clock),
        lead_providers=build_lead_providers(settings, db, clock),
    )


def build_limits(settings: Settings) -> Limits:
    names = {field.name for field in fields(Limits)} - {"bounds"}
    bounds = BodyLimits(
        max_nodes=settings.body_nodes,
        max_keys=settings.body_keys,
        max_object_keys=settings.object_keys,
        max_depth=settings.body_depth,
        max_key_bytes=settings.key_bytes,
        max_text_bytes=settings.text_bytes,
        max_unknown_keys=settings.unknown_keys,
    )
    return Limits(**settings.model_dump(include=names), bounds=bounds)


def build_renderer(settings: Settings) -> Renderer:
    """With the operator's own templates and colors."""
    return Renderer(
        build_hands(settings), load_product_layouts(settings), load_output_intent(settings), sandbox=DecoderSandbox()
    )


def load_product_layouts(settings: Settings) -> Mapping[str, ProductLayout]:
    overrides = _read_operator_file(settings.templates, "QUILLPOST_TEMPLATES")
    try:
        return load_shipped_products(overrides.decode() if overrides is not None else None)
    except (InvalidProductTemplate, UnicodeDecodeError) as error:
        raise NotReady(f"QUILLPOST_TEMPLATES cannot be used. {error}") from None


def load_output_intent(settings: Settings) -> OutputIntent:
    profile = _read_operator_file(settings.output_profile, "QUILLPOST_OUTPUT_PROFILE")
    try:
        return read_output_intent(profile) if profile is not None else SRGB
    except ValueError as error:
        raise NotReady(f"QUILLPOST_OUTPUT_PROFILE cannot be used. {error}") from None


def build_hands(settings: Settings) -> Hands:
    return Hands(FontSources(find_npm_packages(settings)), FaceFolder(get_faces_folder(settings)))


def find_npm_packages(settings: Settings) -> Path:
    """For typefaces and the scripts of pages."""
    if settings.font_packages:
        return settings.font_packages
    return BUNDLED_NPM_FOLDER if BUNDLED_NPM_FOLDER.is_dir() else CHECKOUT_FOLDER / "node_modules"


def get_faces_folder(settings: Settings) -> Path:
    return settings.faces_folder or settings.home.absolute() / "faces"


def _read_operator_file(path: Path | None, setting: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotReady(f"{setting} names {path}, which cannot be read: {error.strerror}.") from None


def build_runner(
    settings: Settings, container: Container, *, concurrency: int | None = None, queues: list[str] | None = None
) -> JobRunner:
    return JobRunner(
        container.db.worker_conninfo,
        build_tasks(container),
        concurrency=concurrency or settings.job_concurrency,
        queues=queues,
        serial_queues=[*fulfillment_models.STEP_QUEUES.values(), import_tasks.IMPORT_QUEUE],
        timing=WorkerTiming(settings.job_heartbeat_seconds, settings.job_stall_seconds),
        finished_job_hours=settings.keep_jobs_days * 24,
    )


class Listener(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


def build_listeners(settings: Settings, container: Container) -> list[Listener]:
    """They count scans and send webhooks and messages, beside the jobs."""
    scan_counter = ScanCounter(container.db, container.encryptor, container.scan_recorder, container.clock)
    return [scan_counter, build_dispatcher(settings, container), build_message_sender(settings, container)]


def build_message_sender(settings: Settings, container: Container) -> MessageSender:
    return MessageSender(
        container.db,
        container.encryptor,
        build_notifiers(settings),
        container.clock,
        base_url=container.base_url,
        window=timedelta(minutes=settings.digest_minutes),
        zone=read_time_zone(settings),
    )


def build_dispatcher(settings: Settings, container: Container) -> Dispatcher:
    poster = WebhookPoster(build_outbound_guard(settings), seconds=settings.webhook_seconds, resolver=PooledResolver())
    timeout = timedelta(seconds=settings.webhook_seconds)
    return Dispatcher(container.db, container.encryptor, poster, container.clock, response_timeout=timeout)


def build_review_limits(settings: Settings) -> ReviewLimits:
    return ReviewLimits(
        min_dpi=settings.review_dpi,
        min_contrast=settings.review_contrast,
        max_unfilled_percent=settings.review_unfilled_percent,
        max_undeliverable_percent=settings.review_undeliverable_percent,
    )


@contextmanager
def open_container() -> Iterator[tuple[Settings, Container]]:
    """For a command, with or without a running server."""
    settings = runtime.load_settings()
    with closing(runtime.open_runtime(settings)) as service_runtime:
        prepare_database(service_runtime.conninfo)
        container = build_container(settings, service_runtime.conninfo)
        with closing(container.db):
            yield settings, container
