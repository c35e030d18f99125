"""What `quillpost doctor` looks at. A check never raises and never shows a secret: it returns findings."""

import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from quillpost.accounts.billing.prices import tariff_on
from quillpost.app import bootstrap, runtime
from quillpost.app.environments import hook_secrets, live_carrier, partner_shown, reach, zone_of
from quillpost.app.outbound import allowed_places
from quillpost.app.readiness import live_readiness
from quillpost.cli.doctor.models import Finding
from quillpost.cli.doctor.operations import (
    check_addresses,
    check_cards,
    check_clock,
    check_issuer,
    check_key,
    check_mail,
    check_notices,
    check_people,
    check_sign_in,
    check_texts,
    check_verifier,
)
from quillpost.cli.progress import DIRECT
from quillpost.core.database import Tx
from quillpost.core.database.embedded.binaries import OLDEST_MAJOR
from quillpost.core.database.engine import administrator
from quillpost.core.database.schema import WORKER, state
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.paging import PageRequest
from quillpost.core.settings import Settings
from quillpost.fulfillment.partners import is_another
from quillpost.fulfillment.ports import PartnerDown
from quillpost.fulfillment.print_room.queries import BatchFilter, list_batches
from quillpost.fulfillment.queries import Batch
from quillpost.fulfillment.rules import reference
from quillpost.fulfillment.tracking.ports import CarrierDown
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.orders.rules import OrderStatus
from quillpost.rendering.renderer import Studio
from quillpost.web.assets import missing_packages

GIGABYTE = 10**9
LITTLE_DISK, TOO_LITTLE_DISK = 2 * GIGABYTE, GIGABYTE // 5
LONG_WAIT_MINUTES = 5
MOST_NAMED = 5
HTTP_SECONDS = 3

JOBS = sa.text(
    """select count(*) filter (where status = 'failed') as failed,
              count(*) filter (where status = 'todo' and coalesce(scheduled_at, now())
                               < now() - make_interval(mins => :minutes)) as late,
              string_agg(distinct task_name, ', ') filter (where status = 'failed') as failed_names
         from procrastinate_jobs"""
)
WORKERS = sa.text(
    "select count(*) from procrastinate_workers where last_heartbeat > now() - make_interval(secs => :s)"
)


def is_new(settings: Settings) -> bool:
    """Whether nothing was ever started here. A check-up does not create what it came to look at."""
    return settings.database_url is None and not (settings.home / "postgres").exists()


def without_database(settings: Settings) -> Iterator[Finding]:
    """All that can be seen before the database is asked."""
    yield check_home(settings)
    yield check_files(settings)
    yield check_fonts(settings)
    yield check_scripts(settings)
    yield check_port(settings)
    yield check_sign_in(settings)
    yield check_old_fields(settings)
    yield from check_press(settings)
    yield from check_readiness(settings)
    yield from check_printer(settings)
    yield from check_carrier(settings)
    yield from check_mail(settings)
    yield check_texts(settings)
    yield check_verifier(settings)
    yield check_issuer(settings)


def check_home(settings: Settings) -> Finding:
    home = settings.home.absolute()
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        free = shutil.disk_usage(place).free
        if home.exists():
            probe = home / f".doctor-{secrets.token_hex(8)}"
            probe.touch(mode=0o600)
            probe.unlink()
    except OSError as fault:
        advice = "Give this user the right to write there, or set QUILLPOST_HOME to another folder."
        return Finding("home", "broken", f"{home} cannot be written: {fault.strerror}", advice)
    what = f"{home}, {free / GIGABYTE:,.1f} GB free"
    if free < TOO_LITTLE_DISK:
        return Finding("home", "broken", what, "Make room on this disk.")
    if free < LITTLE_DISK:
        return Finding("home", "warning", what, "Make room on this disk soon.")
    if not home.exists():
        return Finding("home", "warning", f"{home} is not there yet", "`quillpost serve` makes it.")
    return Finding("home", "ok", what)


def check_files(settings: Settings) -> Finding:
    """Write, read and delete one small file, as every order will."""
    place = f"bucket {settings.files_bucket}" if settings.files_bucket else "folder in the home"
    if settings.files_bucket is None and not settings.home.exists():
        return Finding("files", "warning", "there is no folder yet", "`quillpost serve` makes it.")
    key, data = f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(32)
    advice = "Look at the QUILLPOST_FILES_* settings, the rights and the network."
    try:
        store = runtime.file_store(settings)
        store.put(key, data)
        is_same = store.get(key) == data
        store.delete(key)
    except QuillpostError as fault:
        return Finding("files", "broken", f"{place}: {fault.message}", advice)
    if not is_same:
        return Finding("files", "broken", f"{place}: a file came back changed", advice)
    return Finding("files", "ok", f"{place}: written, read and deleted")


def check_fonts(settings: Settings) -> Finding:
    try:
        hands = bootstrap.hands(settings)
        count, waiting = len(hands.styles), len(hands.unprepared())
    except (LookupError, OSError) as missing:
        return Finding("fonts", "broken", f"no hand can write: {missing}", "Run `make setup` again.")
    if not count:
        return Finding("fonts", "broken", "no hand is installed", "Run `make setup` again.")
    later = f"; {waiting} faces are prepared when they are first needed" if waiting else ""
    return Finding("fonts", "ok", f"{count} hands{later}")


def check_scripts(settings: Settings) -> Finding:
    """Pages do their work without them, but nothing on them is live."""
    if missing := missing_packages(bootstrap.npm_packages(settings)):
        advice = "Run `make setup` again, or set QUILLPOST_FONT_PACKAGES to a node_modules folder with them."
        return Finding("scripts", "warning", f"pages are without {', '.join(missing)}", advice)
    return Finding("scripts", "ok", "the scripts of our pages are installed")


def check_port(settings: Settings) -> Finding:
    where = f"{settings.port} on {settings.host}"
    if service_answers(settings):
        return Finding("port", "ok", f"{where}: Quillpost runs there")
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as taken:
            return Finding(
                "port",
                "broken",
                f"{where}: {taken.strerror}",
                "Stop what uses it, or set QUILLPOST_PORT and QUILLPOST_HOST to what is free.",
            )
    return Finding("port", "ok", f"{where}: free")


def service_answers(settings: Settings) -> bool:
    """Whether it is a Quillpost that listens on our port."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{settings.port}/health"  # noqa: S104
    try:
        with DIRECT.open(url, timeout=HTTP_SECONDS) as answer:
            is_known = "X-Request-Id" in answer.headers
            return is_known and "database" in json.loads(answer.read(1_000))
    except (OSError, ValueError):
        return False


def check_old_fields(settings: Settings) -> Finding:
    """Published gift-card clients send a name that the specification does not have."""
    if settings.legacy_fields:
        return Finding("old fields", "ok", "giftcard_amount_in_cents is taken: QUILLPOST_LEGACY_FIELDS is on")
    what = "giftcard_amount_in_cents is refused; QUILLPOST_LEGACY_FIELDS=true takes it from older clients"
    return Finding("old fields", "ok", what)


def check_press(settings: Settings) -> Iterator[Finding]:
    """What the service does not start with when it is wrong: each by itself, so that all of it is told."""
    for subject, read, used in (
        ("templates", bootstrap.pieces_of, settings.templates or "as shipped"),
        ("output profile", bootstrap.intent_of, settings.output_profile or "sRGB"),
        ("time zone", zone_of, settings.timezone),
        ("allowed hosts", allowed_places, settings.allowed_hosts or "none"),
    ):
        try:
            read(settings)
        except NotReady as fault:
            yield Finding(subject, "broken", fault.message, "Correct it: nothing starts until then.")
        else:
            yield Finding(subject, "ok", str(used))
    if settings.allow_private_urls:
        what = "every private address: QUILLPOST_ALLOW_PRIVATE_URLS is on"
        advice = "It is for development alone: name single places in QUILLPOST_ALLOWED_HOSTS instead."
        yield Finding("guard", "warning", f"callers may send us to {what}", advice)


def check_readiness(settings: Settings) -> Iterator[Finding]:
    """What keeps live orders from paper; testing mode works without any of it."""
    gaps = live_readiness(settings, _studio(settings)).gaps
    for gap in gaps:
        yield Finding("live mail", "warning", gap, "Set it before you send live mail.")
    if not gaps:
        yield Finding("live mail", "ok", "nothing is missing")


def _studio(settings: Settings) -> Studio:
    """Where texts can be laid out: on the shipped pieces if the operator's cannot be used, and with no folder
    to keep faces in, as there may be no home yet."""
    here = settings.model_copy(update={"faces_folder": Path(os.devnull), "output_profile": None})
    try:
        return bootstrap.studio(here)
    except NotReady:
        return bootstrap.studio(here.model_copy(update={"templates": None}))


def check_printer(settings: Settings) -> Iterator[Finding]:
    """Whether the partner that is named can be used; that none is named, readiness tells."""
    try:
        hook_secrets(settings)
        if settings.print_partner is None or not settings.home.exists():
            return
        where = reach(settings, runtime.file_store(settings))
    except QuillpostError as fault:
        yield Finding("print partner", "broken", fault.message, "Look at the QUILLPOST_PRINT_* settings.")
    except PartnerDown as down:
        yield Finding("print partner", "warning", str(down), "Batches wait until it is back.")
    else:
        yield Finding("print partner", "ok", where)


def check_carrier(settings: Settings) -> Iterator[Finding]:
    """Whether files of scans can be fetched, and which could not be read."""
    if not settings.home.exists() and settings.files_bucket is None:
        return
    try:
        refused = live_carrier(settings, runtime.file_store(settings)).set_aside()
    except QuillpostError as fault:
        yield Finding("carrier", "broken", fault.message, "Look at the QUILLPOST_CARRIER_* settings.")
    except CarrierDown as down:
        yield Finding("carrier", "warning", str(down), "Pieces are not followed until it is back.")
    else:
        if not refused:
            yield Finding("carrier", "ok", "every file of scans could be read")
            return
        named = "; ".join(f"{file.name}: {file.reason}" for file in refused[:MOST_NAMED])
        advice = "Look at them in the folder `refused`, and remove them."
        yield Finding("carrier", "warning", f"{len(refused)} files set aside. {named}", advice)


def with_database(settings: Settings, conninfo: str, *, now: datetime) -> Iterator[Finding]:
    """All that the database can tell; of one at another schema no more than that."""
    engine = administrator(conninfo)
    try:
        with engine.connect() as tx:
            yield check_version(tx)
            schema = check_schema(tx)
            yield schema
            if schema.verdict != "ok":
                return
            tx.execute(sa.text(f"set local role {WORKER}"))
            yield from check_key(settings, tx)
            yield check_clock(tx, now=runtime.now())
            yield check_prices(tx, now=now)
            yield check_workers(tx, settings)
            yield check_jobs(tx)
            yield check_batches(tx, settings)
            yield check_paused(tx)
            yield check_webhooks(tx)
            yield check_notices(tx, now=now)
            yield check_people(tx, settings, now=now)
            yield check_addresses(tx)
            yield from check_cards(tx, settings, now=now)
    except sa.exc.DBAPIError as fault:
        reason = str(fault.orig).strip().splitlines()[0]
        yield Finding("database", "broken", f"it refused an answer: {reason}", "Read PostgreSQL's log.")
    finally:
        engine.dispose()


def check_version(tx: Tx) -> Finding:
    version = str(tx.execute(sa.text("show server_version")).scalar_one())
    kind = f"PostgreSQL {version} answers"
    if int(version.partition(".")[0]) < OLDEST_MAJOR:
        return Finding("database", "warning", kind, f"Quillpost is tested on {OLDEST_MAJOR} and newer.")
    return Finding("database", "ok", kind)


def check_schema(tx: Tx) -> Finding:
    found = state(tx)
    match found.verdict:
        case "current":
            return Finding("schema", "ok", f"{found.found}, as this release needs it")
        case "empty":
            return Finding("schema", "warning", "the database is empty", "`quillpost serve` fills it.")
        case "older":
            what = f"{found.found} is older than {found.needed}"
            return Finding("schema", "broken", what, "Take a backup, then run `quillpost migrate`.")
        case "newer":
            what = f"{found.found} is newer than {found.needed}"
            return Finding("schema", "broken", what, "Run the release that wrote it, or a later one.")


def check_prices(tx: Tx, *, now: datetime) -> Finding:
    without = [
        shown
        for (kind, size), shown in DISPLAY_TYPES.items()
        if tariff_on(tx, type=kind, size=size, mail_class="first", on=now.date()).unit_cents("US") is None
    ]
    if without:
        advice = "Run `quillpost migrate`, which loads the shipped prices, or enter your own."
        return Finding("prices", "broken", f"none in force for {', '.join(without)}", advice)
    return Finding("prices", "ok", f"in force today for {', '.join(DISPLAY_TYPES.values())}")


def check_workers(tx: Tx, settings: Settings) -> Finding:
    alive = tx.execute(WORKERS, {"s": settings.job_stall_seconds}).scalar_one()
    if alive:
        return Finding("workers", "ok", "they are at work")
    if service_answers(settings):
        return Finding("workers", "broken", "the service runs, its work does not", "Start `quillpost work`.")
    return Finding("workers", "warning", "none at work", "Start `quillpost serve`, or `quillpost work`.")


def check_jobs(tx: Tx) -> Finding:
    found = tx.execute(JOBS, {"minutes": LONG_WAIT_MINUTES}).one()
    complaints = []
    if found.failed:
        complaints.append(f"{found.failed} failed ({found.failed_names})")
    if found.late:
        complaints.append(f"{found.late} wait for more than {LONG_WAIT_MINUTES} minutes")
    if complaints:
        advice = "Read the service's log for the reason; see that workers run."
        return Finding("jobs", "warning", "; ".join(complaints), advice)
    return Finding("jobs", "ok", "none failed, none late")


def check_batches(tx: Tx, settings: Settings) -> Finding:
    page = list_batches(tx, PageRequest(per_page=MOST_NAMED), BatchFilter(is_open=True, in_trouble=True))
    if page.total:
        named = "; ".join(f"{reference(batch.id)}: {batch.trouble}" for batch in page.rows)
        advice = "`quillpost print list --trouble` shows them"
        if page.total > (elsewhere := sum(_is_elsewhere(batch, settings) for batch in page.rows)):
            which = "the others again" if elsewhere else "again"
            advice += f", `quillpost print retry BATCH` tries {which}"
        return Finding("batches", "warning", f"{page.total} in trouble. {named}", f"{advice}.")
    return Finding("batches", "ok", "none in trouble")


def _is_elsewhere(batch: Batch, settings: Settings) -> bool:
    """With a former partner, or offered to one: its trouble says what to do, and trying again is in vain."""
    return batch.mode == "live" and is_another(batch.partner, partner_shown(settings))


def check_paused(tx: Tx) -> Finding:
    paused = orders.c.status == OrderStatus.PAUSED.value
    by_mode = sa.select(orders.c.mode, sa.func.count().label("held")).where(paused).group_by(orders.c.mode)
    found = tx.execute(by_mode.order_by(orders.c.mode)).all()
    if found:
        what = ", ".join(f"{row.held} {row.mode}" for row in found)
        oldest = tx.execute(sa.select(orders.c.id).where(paused).order_by(orders.c.id).limit(MOST_NAMED))
        named = ", ".join(map(str, oldest.scalars()))
        advice = "`quillpost print held` says why (`--mode test`: of test orders); release or refuse each."
        return Finding("paused", "warning", f"{what} orders wait for an operator, first {named}", advice)
    return Finding("paused", "ok", "no order waits for an operator")


def check_webhooks(tx: Tx) -> Finding:
    """By number, not by address: an address may hold a secret."""
    rows = tx.execute(
        sa.select(webhooks.c.id).where(webhooks.c.status.in_(("failing", "disabled"))).order_by(webhooks.c.id)
    )
    failing = [str(number) for number in rows.scalars()]
    if failing:
        what = f"{len(failing)} cannot be reached: {', '.join(failing[:10])}"
        return Finding("webhooks", "warning", what, "Tell their owners, who can see why in the deliveries.")
    return Finding("webhooks", "ok", "every endpoint answers")
