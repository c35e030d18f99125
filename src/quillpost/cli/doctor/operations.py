"""`quillpost doctor`: addresses, gift cards, messages, users, clock and keys."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.accounts.billing.rules import format_dollars
from quillpost.app import runtime
from quillpost.app.bootstrap import build_sms_notifier, build_smtp_notifier, build_verifier
from quillpost.app.environments import build_live_giftcard_issuer
from quillpost.app.runtime import read_base_url
from quillpost.cli.doctor.models import DoctorFinding
from quillpost.cli.print_files import format_count
from quillpost.core.database import Tx
from quillpost.core.database.encrypted_columns import has_outdated_values, read_any_value
from quillpost.core.database.tables.recipients import address_passes
from quillpost.core.encryption import DecryptionFailed, KeyFile
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.settings import Settings
from quillpost.core.text import is_loopback_host
from quillpost.fulfillment.batches.files import BatchFileStorage, list_all_secret_files
from quillpost.notifications.ports import NotifierDown
from quillpost.orders.giftcards import queries as giftcard_queries
from quillpost.orders.giftcards import stock
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.giftcards.stock import MIN_VALIDITY
from quillpost.privacy.key_rotation import ENCRYPTED_COLUMNS, PRINT_FILES, count_files_by_key

CORRECT_SETTING_ADVICE = "Correct it: nothing starts until then."


def check_verifier(settings: Settings) -> DoctorFinding:
    """Settings only, as a request costs money."""
    try:
        verifier = build_verifier(settings)
    except NotReady as error:
        return DoctorFinding("verifier", "broken", error.message, CORRECT_SETTING_ADVICE)
    if verifier is None:
        return DoctorFinding("verifier", "ok", "there is none: addresses are judged by our own tables")
    return DoctorFinding("verifier", "ok", "its settings fit together")


def check_addresses(tx: Tx) -> DoctorFinding:
    verification = tx.execute(sa.select(address_passes).where(address_passes.c.name == "verify")).one_or_none()
    if verification is not None and verification.trouble:
        since, error = verification.trouble_at.strftime("%Y-%m-%d %H:%M"), verification.trouble
        advice = "Mail goes on with our own verdicts. Look at QUILLPOST_VERIFIER and the service behind it."
        return DoctorFinding("addresses", "warning", f"not verified since {since}: {error}", advice)
    return DoctorFinding("addresses", "ok", "nothing stops their verification")


ISSUER_NOTICE_PERIOD = timedelta(hours=1)  # issuers hear of a void card within minutes, while they can be reached
MAX_NAMED = 5

# Orders that have ended wait for nothing; those on hold do, once they are released.
SELECT_STOCK_SHORTAGES = sa.text(
    """
    with waiting as (
        select o.giftcard_brand as brand, o.giftcard_amount as cents, count(*) as wanted
          from orders o join items i on i.order_id = o.id
         where o.mode = 'live' and o.giftcard_amount is not null
           and o.status in ('reviewing', 'processing', 'printing', 'paused')
           and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
         group by 1, 2)
    select w.brand, w.cents, w.wanted, s.free
      from waiting w
     cross join lateral (
            select count(*) as free from giftcard_stock
             where mode = 'live' and brand = w.brand and cents = w.cents
               and taken_by is null and set_aside_at is null and coalesce(expires_on >= :good_on, true)) s
     where s.free < w.wanted order by w.brand, w.cents
    """
)

COUNT_SET_ASIDE = sa.text(
    """
    select count(*) from giftcard_stock
     where mode = 'live' and taken_by is null and set_aside_at is not null
    """
)

COUNT_UNREPORTED_VOIDS = sa.text(
    """
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null and voided_at < :long_ago
     group by issuer order by issuer
    """
)


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


def _check_brands(tx: Tx, settings: Settings, *, now: datetime) -> DoctorFinding:
    """Whether live mail can bring what is offered: senders choose without knowing the issuer."""
    offered_brands = giftcard_queries.list_offered_brands(tx)
    if settings.giftcards is None:
        stocked = {storage.brand for storage in stock.count_stock(tx, now=now) if storage.free}
        unavailable = [brand.code for brand in offered_brands if brand.code not in stocked]
        problem, remedy = "no card is free", "Load some with `quillpost giftcards load`"
    else:
        unavailable = [brand.code for brand in offered_brands if brand.issuer_code is None]
        problem, remedy = "no issuer code is known", "Say it with `quillpost giftcards brand`"
    if not unavailable:
        return DoctorFinding("gift card brands", "ok", f"{len(offered_brands)} offered, and live mail can bring each")
    examples = ", ".join(unavailable[:MAX_NAMED])
    message = f"of {len(unavailable)} of the {len(offered_brands)} that are offered {problem}. First {examples}"
    return DoctorFinding("gift card brands", "warning", message, f"{remedy}, or `quillpost giftcards retire` them.")


def check_giftcards(tx: Tx, settings: Settings, *, now: datetime) -> Iterator[DoctorFinding]:
    """Brands without cards, cards that items wait for, and void cards that their issuer does not know of yet."""
    yield _check_brands(tx, settings, now=now)
    shortages = []
    if settings.giftcards is None:
        shortages = list(tx.execute(SELECT_STOCK_SHORTAGES, {"good_on": (now + MIN_VALIDITY).date()}))
    if shortages:
        labels = [f"{row.brand} over {format_dollars(row.cents)}: {row.wanted - row.free:,}" for row in shortages]
        examples = "; ".join(labels[:MAX_NAMED])
        advice = "Load them with `quillpost giftcards load`, or name an issuer in QUILLPOST_GIFTCARDS."
        yield DoctorFinding(
            "gift card stock", "warning", f"pieces wait for more cards than there are. {examples}", advice
        )
    if set_aside_count := int(tx.execute(COUNT_SET_ASIDE).scalar_one()):
        yield DoctorFinding(
            "restored gift cards",
            "warning",
            f"{set_aside_count:,} in stock are set aside, as they may have been mailed since the backup",
            "See Backups in docs/operate.md, then `quillpost giftcards release-stock`.",
        )
    unreported = list(tx.execute(COUNT_UNREPORTED_VOIDS, {"long_ago": now - ISSUER_NOTICE_PERIOD}))
    if unreported:
        examples = ", ".join(f"{row.cards:,} of {row.issuer}" for row in unreported)
        advice = "See that workers run, and that QUILLPOST_GIFTCARDS names who issued them."
        yield DoctorFinding("void gift cards", "warning", f"not given back yet: {examples}", advice)
    if not shortages and not unreported:
        yield DoctorFinding("gift card stock", "ok", "no piece waits for a card that is not there")


LATE_AFTER = timedelta(minutes=5)
RECENT_PERIOD = timedelta(days=1)

COUNT_WAITING_NOTIFICATIONS = sa.text(
    """
    select count(*) filter (where status = 'pending' and channel = 'mail'
                              and (error is not null or next_at < :late)) as mails,
           count(*) filter (where status = 'pending' and channel = 'text'
                              and (error is not null or next_at < :late)) as texts,
           count(*) filter (where status = 'failed' and created_at > :lately) as failed
      from notices
     where status = 'pending' or created_at > :lately
    """
)


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


def check_notifications(tx: Tx, *, now: datetime) -> DoctorFinding:
    """What is overdue, and what failed for good recently."""
    counts = tx.execute(COUNT_WAITING_NOTIFICATIONS, {"late": now - LATE_AFTER, "lately": now - RECENT_PERIOD}).one()
    problems = [
        f"{count} {label}"
        for count, label in (
            (counts.mails, "e-mails wait"),
            (counts.texts, "text messages wait"),
            (counts.failed, "could not be sent since yesterday"),
        )
        if count
    ]
    if problems:
        advice = "The reasons are in the table `notices`, column `error`; see that workers run."
        return DoctorFinding("notices", "warning", "; ".join(problems), advice)
    return DoctorFinding("notices", "ok", "none waits")


COUNT_USERS = sa.text(
    """
    select (select count(*) from people where password_hash is not null) as people,
           (select count(*) from accounts) as accounts,
           (select count(*) from accounts a
             where not exists (select from memberships m where m.account_id = a.id)) as deserted,
           (select count(*) from invitations
             where accepted_at is null and revoked_at is null and expires_at > :now) as invited
    """
)


def check_sign_in(settings: Settings) -> DoctorFinding:
    """Whether passwords and tokens are encrypted on the way. On this machine nobody listens."""
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


def check_users(tx: Tx, settings: Settings, *, now: datetime) -> DoctorFinding:
    counts = tx.execute(COUNT_USERS, {"now": now}).one()
    if counts.invited and settings.smtp is None:
        message = f"{format_count(counts.invited, 'invitation')} cannot be brought: there is no mail server"
        advice = "Set QUILLPOST_SMTP, or hand the links over: `quillpost people invite` prints them."
        return DoctorFinding("people", "warning", message, advice)
    message = "1 person signs in" if counts.people == 1 else f"{counts.people:,} people sign in"
    if counts.deserted:
        message += f"; {counts.deserted} of {counts.accounts} accounts have nobody: `quillpost people invite`"
    return DoctorFinding("people", "ok", message)


OK_CLOCK_SKEW = timedelta(seconds=2)
MAX_CLOCK_SKEW = timedelta(seconds=20)  # pumps and workers lease what they do for a minute, each by its own clock

CLOCK_ADVICE = "Let every machine keep its clock by NTP."


def check_clock(tx: Tx, *, now: datetime) -> DoctorFinding:
    """Machines that disagree about the time would take each other's work."""
    skew = tx.execute(sa.text("select clock_timestamp()")).scalar_one() - now
    seconds = abs(skew.total_seconds())
    if abs(skew) <= OK_CLOCK_SKEW:
        return DoctorFinding("clock", "ok", "it agrees with the database's")
    message = f"{seconds:,.0f} seconds {'behind' if skew > timedelta(0) else 'ahead of'} the database's"
    return DoctorFinding("clock", "broken" if abs(skew) > MAX_CLOCK_SKEW else "warning", message, CLOCK_ADVICE)


RESTORE_KEY_ADVICE = "Bring back the key of this database: FILE.key of its last backup."


def check_key(settings: Settings, tx: Tx) -> Iterator[DoctorFinding]:
    file = KeyFile(runtime.key_path(settings.home))
    path = file.path
    encrypted_values = [
        encrypted_value for column in ENCRYPTED_COLUMNS if (encrypted_value := read_any_value(tx, column)) is not None
    ]
    if settings.secret_key is None and not path.exists():
        yield _missing_key_finding(is_needed=bool(encrypted_values))
        return
    if settings.secret_key is None and file.is_accessible_to_others:
        yield DoctorFinding("secret key", "broken", f"others may use {path}", f"Run chmod 600 {path}.")
    try:
        encryptor = runtime.build_encryptor(settings)
        for context, value in encrypted_values:
            encryptor.decrypt(value, context=context)
    except QuillpostError as error:
        yield DoctorFinding("secret key", "broken", error.message, RESTORE_KEY_ADVICE)
    except DecryptionFailed:
        message = "it does not open the secrets in this database"
        yield DoctorFinding("secret key", "broken", message, RESTORE_KEY_ADVICE)
    else:
        location = "QUILLPOST_SECRET_KEY" if settings.secret_key else str(path)
        if len(encryptor.key_ids) > 1:
            yield _check_several_keys(tx, BatchFileStorage(runtime.build_file_store(settings), encryptor), location)
        else:
            yield DoctorFinding("secret key", "ok", location)


def _check_several_keys(tx: Tx, files: BatchFileStorage, location: str) -> DoctorFinding:
    encryptor = files.encryptor
    outdated = [
        str(column) for column in ENCRYPTED_COLUMNS if has_outdated_values(tx, column, encryptor.current_header)
    ]
    try:
        if count_files_by_key(files, list_all_secret_files(tx)).keys() - {encryptor.current_key_id}:
            outdated.append(PRINT_FILES)
    except QuillpostError as error:
        message = f"nobody can tell which key the {PRINT_FILES} need: {error.message}"
        return DoctorFinding("secret key", "warning", message, "Bring the file store back.")
    if not outdated:
        return DoctorFinding(
            "secret key", "ok", f"{location}, with {len(encryptor.key_ids)} keys: all is under the first"
        )
    message = f"there are {len(encryptor.key_ids)} keys, and {', '.join(outdated)} still need a former one"
    return DoctorFinding("secret key", "warning", message, "`quillpost keys list` says what to do next.")


def _missing_key_finding(*, is_needed: bool) -> DoctorFinding:
    if is_needed:
        message = "it is gone, and this database has secrets that only it opens"
        return DoctorFinding("secret key", "broken", message, RESTORE_KEY_ADVICE)
    return DoctorFinding("secret key", "warning", "there is none yet", "`quillpost serve` makes it.")
