"""Checks of the installation and its settings. A check never raises and never shows a secret: it returns findings."""

import asyncio
import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from quillpost.app import bootstrap, runtime
from quillpost.app.bootstrap import build_sms_notifier, build_smtp_notifier, build_verifier, read_allowed_addresses
from quillpost.app.environments import (
    build_live_carrier,
    build_live_giftcard_issuer,
    check_live_readiness,
    ping_print_partner,
    read_print_webhook_secrets,
    read_time_zone,
)
from quillpost.app.runtime import read_base_url
from quillpost.cli.console import DIRECT_OPENER
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.settings import Settings
from quillpost.core.text import is_loopback_host
from quillpost.fulfillment.ports import CarrierDown, PartnerDown
from quillpost.notifications.ports import NotifierDown
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.rendering.service import Renderer
from quillpost.web.assets import missing_packages

GIGABYTE = 10**9

LOW_DISK_BYTES, MIN_DISK_BYTES = 2 * GIGABYTE, GIGABYTE // 5

MAX_NAMED = 5

HTTP_SECONDS = 3

CORRECT_SETTING_ADVICE = "Correct it: nothing starts until then."


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    subject: str
    status: Literal["ok", "warning", "broken"]
    message: str
    advice: str = ""


def is_new_installation(settings: Settings) -> bool:
    """A check does not create what it looks at."""
    return settings.database_url is None and not (settings.home / "postgres").exists()


def check_without_database(settings: Settings) -> Iterator[DoctorFinding]:
    yield check_home(settings)
    yield check_files(settings)
    yield check_fonts(settings)
    yield check_scripts(settings)
    yield check_port(settings)
    yield check_sign_in(settings)
    yield check_legacy_fields(settings)
    yield from check_production_settings(settings)
    yield from check_readiness(settings)
    yield from check_print_partner(settings)
    yield from check_carrier(settings)
    yield from check_mail_server(settings)
    yield check_text_messages(settings)
    yield check_verifier(settings)
    yield check_giftcard_issuer(settings)


def check_home(settings: Settings) -> DoctorFinding:
    home = settings.home.absolute()
    existing_folder = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        free_bytes = shutil.disk_usage(existing_folder).free
        if home.exists():
            probe = home / f".doctor-{secrets.token_hex(8)}"
            probe.touch(mode=0o600)
            probe.unlink()
    except OSError as error:
        advice = "Give this user the right to write there, or set QUILLPOST_HOME to another folder."
        return DoctorFinding("home", "broken", f"{home} cannot be written: {error.strerror}", advice)
    message = f"{home}, {free_bytes / GIGABYTE:,.1f} GB free"
    if free_bytes < MIN_DISK_BYTES:
        return DoctorFinding("home", "broken", message, "Make room on this disk.")
    if free_bytes < LOW_DISK_BYTES:
        return DoctorFinding("home", "warning", message, "Make room on this disk soon.")
    if not home.exists():
        return DoctorFinding("home", "warning", f"{home} is not there yet", "`quillpost serve` makes it.")
    return DoctorFinding("home", "ok", message)


def check_files(settings: Settings) -> DoctorFinding:
    """Write, read and delete one small file, as every order will."""
    location = f"bucket {settings.files_bucket}" if settings.files_bucket else "folder in the home"
    if settings.files_bucket is None and not settings.home.exists():
        return DoctorFinding("files", "warning", "there is no folder yet", "`quillpost serve` makes it.")
    key, data = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(32)
    advice = "Look at the QUILLPOST_FILES_* settings, the rights and the network."
    try:
        store = runtime.build_file_store(settings)
        store.put(key, data)
        is_same = store.get(key) == data
        store.delete(key)
    except QuillpostError as error:
        return DoctorFinding("files", "broken", f"{location}: {error.message}", advice)
    if not is_same:
        return DoctorFinding("files", "broken", f"{location}: a file came back changed", advice)
    return DoctorFinding("files", "ok", f"{location}: written, read and deleted")


def check_fonts(settings: Settings) -> DoctorFinding:
    try:
        hands = bootstrap.build_hands(settings)
        count, unprepared_count = len(hands.styles), len(hands.unprepared_faces())
    except (LookupError, OSError) as error:
        return DoctorFinding(
            "fonts", "broken", f"the handwriting styles cannot be read: {error}", "Run `make setup` again."
        )
    unprepared_text = f"; {unprepared_count} typefaces will be prepared on first use" if unprepared_count else ""
    return DoctorFinding("fonts", "ok", f"{count} handwriting styles{unprepared_text}")


def check_scripts(settings: Settings) -> DoctorFinding:
    """Pages work without them, but not live."""
    if missing := missing_packages(bootstrap.find_npm_packages(settings)):
        advice = "Run `make setup` again, or set QUILLPOST_FONT_PACKAGES to a node_modules folder with them."
        return DoctorFinding("scripts", "warning", f"pages are without {', '.join(missing)}", advice)
    return DoctorFinding("scripts", "ok", "the scripts of our pages are installed")


def check_port(settings: Settings) -> DoctorFinding:
    address = f"{settings.port} on {settings.host}"
    if is_service_running(settings):
        return DoctorFinding("port", "ok", f"{address}: Quillpost runs there")
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            return DoctorFinding(
                "port",
                "broken",
                f"{address}: {error.strerror}",
                "Stop what uses it, or set QUILLPOST_PORT and QUILLPOST_HOST to what is free.",
            )
    return DoctorFinding("port", "ok", f"{address}: free")


def is_service_running(settings: Settings) -> bool:
    """Whether a Quillpost listens on our port."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{settings.port}/health"  # noqa: S104
    try:
        with DIRECT_OPENER.open(url, timeout=HTTP_SECONDS) as response:
            has_request_id = "X-Request-Id" in response.headers
            return has_request_id and "database" in json.loads(response.read(1_000))
    except (OSError, ValueError):
        return False


def check_legacy_fields(settings: Settings) -> DoctorFinding:
    """Published gift card clients send a name that the specification does not have."""
    if settings.legacy_fields:
        return DoctorFinding("old fields", "ok", "giftcard_amount_in_cents is taken: QUILLPOST_LEGACY_FIELDS is on")
    message = "giftcard_amount_in_cents is refused; QUILLPOST_LEGACY_FIELDS=true takes it from older clients"
    return DoctorFinding("old fields", "ok", message)


def check_production_settings(settings: Settings) -> Iterator[DoctorFinding]:
    """Those that the service does not start with when they are wrong: each by itself, so that all are reported."""
    for subject, read_setting, value in (
        ("templates", bootstrap.load_product_layouts, settings.templates or "as shipped"),
        ("output profile", bootstrap.load_output_intent, settings.output_profile or "sRGB"),
        ("time zone", read_time_zone, settings.timezone),
        ("allowed hosts", read_allowed_addresses, settings.allowed_hosts or "none"),
    ):
        try:
            read_setting(settings)
        except NotReady as error:
            yield DoctorFinding(subject, "broken", error.message, "Correct it: nothing starts until then.")
        else:
            yield DoctorFinding(subject, "ok", str(value))
    if settings.allow_private_urls:
        message = "every private address: QUILLPOST_ALLOW_PRIVATE_URLS is on"
        advice = "It is for development alone: name single places in QUILLPOST_ALLOWED_HOSTS instead."
        yield DoctorFinding("guard", "warning", f"callers may send us to {message}", advice)


def check_readiness(settings: Settings) -> Iterator[DoctorFinding]:
    """What keeps live orders from paper; testing mode works without."""
    gaps = check_live_readiness(settings, _create_renderer(settings)).gaps
    for gap in gaps:
        yield DoctorFinding("live mail", "warning", gap, "Set it before you send live mail.")
    if not gaps:
        yield DoctorFinding("live mail", "ok", "nothing is missing")


def _create_renderer(settings: Settings) -> Renderer:
    """With the shipped products if the operator's cannot be used, and without a folder for faces, as there may be no
    home yet."""
    check_settings = settings.model_copy(update={"faces_folder": Path(os.devnull), "output_profile": None})
    try:
        return bootstrap.build_renderer(check_settings)
    except NotReady:
        return bootstrap.build_renderer(check_settings.model_copy(update={"templates": None}))


def check_print_partner(settings: Settings) -> Iterator[DoctorFinding]:
    """A missing setting is reported by `check_readiness`."""
    try:
        read_print_webhook_secrets(settings)
        if settings.print_partner is None or not settings.home.exists():
            return
        location = ping_print_partner(settings, runtime.build_file_store(settings))
    except QuillpostError as error:
        yield DoctorFinding("print partner", "broken", error.message, "Look at the QUILLPOST_PRINT_* settings.")
    except PartnerDown as outage:
        yield DoctorFinding("print partner", "warning", str(outage), "Batches wait until it is back.")
    else:
        yield DoctorFinding("print partner", "ok", location)


def check_carrier(settings: Settings) -> Iterator[DoctorFinding]:
    if not settings.home.exists() and settings.files_bucket is None:
        return
    try:
        refused_files = build_live_carrier(settings, runtime.build_file_store(settings)).set_aside()
    except QuillpostError as error:
        yield DoctorFinding("carrier", "broken", error.message, "Look at the QUILLPOST_CARRIER_* settings.")
    except CarrierDown as outage:
        yield DoctorFinding("carrier", "warning", str(outage), "Pieces are not followed until it is back.")
    else:
        if not refused_files:
            yield DoctorFinding("carrier", "ok", "every file of scans could be read")
            return
        examples = "; ".join(f"{file.name}: {file.reason}" for file in refused_files[:MAX_NAMED])
        advice = "Look at them in the folder `refused`, and remove them."
        yield DoctorFinding("carrier", "warning", f"{len(refused_files)} files set aside. {examples}", advice)


def check_verifier(settings: Settings) -> DoctorFinding:
    """Settings only, as a request costs money."""
    try:
        verifier = build_verifier(settings)
    except NotReady as error:
        return DoctorFinding("verifier", "broken", error.message, CORRECT_SETTING_ADVICE)
    if verifier is None:
        return DoctorFinding("verifier", "ok", "there is none: addresses are judged by our own tables")
    return DoctorFinding("verifier", "ok", "its settings fit together")


def check_giftcard_issuer(settings: Settings) -> DoctorFinding:
    """Nothing is bought."""
    advice = "Look at the QUILLPOST_GIFTCARDS settings."
    try:
        issuer = build_live_giftcard_issuer(settings)
        if issuer is None:
            return DoctorFinding("gift cards", "ok", "live ones are your own: `quillpost giftcards stock`")
        return DoctorFinding("gift cards", "ok", issuer.check_connection())
    except NotReady as error:
        return DoctorFinding("gift cards", "broken", error.message, advice)
    except IssuerDown as outage:
        return DoctorFinding("gift cards", "warning", str(outage), f"Pieces wait until it is back. {advice}")


def check_mail_server(settings: Settings) -> Iterator[DoctorFinding]:
    try:
        server = build_smtp_notifier(settings)
    except NotReady as error:
        yield DoctorFinding("mail server", "broken", error.message, CORRECT_SETTING_ADVICE)
        return
    if server is None:
        message = "there is none: e-mails are written to the standard output"
        yield DoctorFinding("mail server", "warning", message, "Set QUILLPOST_SMTP before anyone counts on them.")
        return
    try:
        asyncio.run(server.check_connection())
    except NotifierDown as outage:
        yield DoctorFinding("mail server", "warning", str(outage), "E-mails wait until it is back.")
    else:
        yield DoctorFinding("mail server", "ok", "it lets us in")


def check_text_messages(settings: Settings) -> DoctorFinding:
    """Settings only, as a request costs money."""
    try:
        service = build_sms_notifier(settings)
    except NotReady as error:
        return DoctorFinding("text messages", "broken", error.message, CORRECT_SETTING_ADVICE)
    if service is None:
        message = "there is no service: they are written to the standard output"
        return DoctorFinding("text messages", "warning", message, "Set QUILLPOST_SMS before anyone counts on them.")
    return DoctorFinding("text messages", "ok", "the settings of their service fit together")


def check_sign_in(settings: Settings) -> DoctorFinding:
    """Whether passwords and tokens are encrypted on the way. On this machine they cannot be read."""
    base_url = read_base_url(settings)
    parts = urlsplit(base_url)
    if parts.scheme == "https" and not settings.trusted_proxies:
        message = f"no proxy is trusted in front of {base_url}: cookies are not Secure, and limits see one network"
        return DoctorFinding("sign-in", "warning", message, "Set QUILLPOST_TRUSTED_PROXIES to its address.")
    if parts.scheme == "https" or is_loopback_host(parts.hostname or ""):
        return DoctorFinding("sign-in", "ok", f"at {base_url}/sign-in")
    message = f"{base_url} is not https: passwords, cookies and tokens can be read on the way there"
    return DoctorFinding(
        "sign-in", "warning", message, "Put a proxy with a certificate in front, and set QUILLPOST_BASE_URL."
    )
