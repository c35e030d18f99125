"""`quillpost doctor`: addresses, gift cards, messages, users, clock and keys."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.accounts.billing.rules import dollars
from quillpost.app import runtime
from quillpost.app.bootstrap import smtp, texts, verifier_of
from quillpost.app.environments import house_of
from quillpost.app.runtime import public_base
from quillpost.cli.doctor.models import Finding
from quillpost.cli.print_files import counted
from quillpost.core.database import Tx
from quillpost.core.database.encrypted_columns import any_value, is_any_left
from quillpost.core.database.tables.addresses import address_passes
from quillpost.core.encryption import SealBroken
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.hosts import is_this_machine
from quillpost.core.key_files import KeyFile
from quillpost.core.settings import Settings
from quillpost.fulfillment.files import BatchStore, all_secret
from quillpost.notifications.ports import NotifierDown
from quillpost.orders.giftcards import brands, stock
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.giftcards.stock import GOOD_FOR
from quillpost.privacy.key_rotation import COLUMNS, FILES, count_files
from quillpost.recipients.rejudging import ADDRESS_RULES, NAMES

CORRECT_IT = "Correct it: nothing starts until then."


def check_verifier(settings: Settings) -> Finding:
    """Whether the settings fit together. Asking costs, so nobody does."""
    try:
        verifier = verifier_of(settings)
    except NotReady as fault:
        return Finding("verifier", "broken", fault.message, CORRECT_IT)
    if verifier is None:
        return Finding("verifier", "ok", "there is none: addresses are judged by our own tables")
    return Finding("verifier", "ok", "its settings fit together")


def check_addresses(tx: Tx) -> Finding:
    """What stops the verifier, and how far judging old rows by new rules has come."""
    passes = {row.name: row for row in tx.execute(sa.select(address_passes))}
    asking = passes.pop("verify", None)
    if asking is not None and asking.trouble:
        since, trouble = asking.trouble_at.strftime("%Y-%m-%d %H:%M"), asking.trouble
        advice = "Mail goes on with our own verdicts. Look at QUILLPOST_VERIFIER and the service behind it."
        return Finding("addresses", "warning", f"not verified since {since}: {trouble}", advice)
    todo = [said for name in sorted(NAMES) if (said := _left(name, passes.get(name)))]
    if todo:
        what = f"those of an older release are judged again; {', '.join(todo)}"
        return Finding("addresses", "ok", what)
    return Finding("addresses", "ok", "all are judged by the rules of this release")


def _left(name: str, row: sa.Row[Any] | None) -> str | None:
    if row is None or row.rules != ADDRESS_RULES:
        return f"{name}: not begun"
    return None if row.done_at is not None else f"{name} to {row.until_id:,}: at {row.last_id:,}"


TOLD_WITHIN = timedelta(hours=1)
"""Issuers hear of a void card within minutes, while they can be reached."""
MOST_NAMED = 5

# Orders that have ended wait for nothing; those on hold do, once they are released.
SHORT = sa.text(
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

SET_ASIDE = sa.text(
    """
    select count(*) from giftcard_stock
     where mode = 'live' and taken_by is null and set_aside_at is not null
    """
)

UNTOLD = sa.text(
    """
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null and voided_at < :long_ago
     group by issuer order by issuer
    """
)


def check_issuer(settings: Settings) -> Finding:
    """Whether the house that issues live cards lets us in, and knows what we pay from. Nothing is bought."""
    look = "Look at the QUILLPOST_GIFTCARDS settings."
    try:
        house = house_of(settings)
        if house is None:
            return Finding("gift cards", "ok", "live ones are your own: `quillpost giftcards stock`")
        return Finding("gift cards", "ok", house.reach())
    except NotReady as fault:
        return Finding("gift cards", "broken", fault.message, look)
    except IssuerDown as down:
        return Finding("gift cards", "warning", str(down), f"Pieces wait until it is back. {look}")


def _check_brands(tx: Tx, settings: Settings, *, now: datetime) -> Finding:
    """Whether live mail can bring what is offered: senders choose without knowing who issues it."""
    offered = brands.offered(tx)
    if settings.giftcards is None:
        there = {shelf.brand for shelf in stock.count_stock(tx, now=now) if shelf.free}
        without = [brand.code for brand in offered if brand.code not in there]
        lack, do = "no card is free", "Load some with `quillpost giftcards load`"
    else:
        without = [brand.code for brand in offered if brand.issuer_code is None]
        lack, do = "no issuer code is known", "Say it with `quillpost giftcards brand`"
    if not without:
        return Finding("gift card brands", "ok", f"{len(offered)} offered, and live mail can bring each")
    named = ", ".join(without[:MOST_NAMED])
    what = f"of {len(without)} of the {len(offered)} that are offered {lack}. First {named}"
    return Finding("gift card brands", "warning", what, f"{do}, or `quillpost giftcards retire` them.")


def check_cards(tx: Tx, settings: Settings, *, now: datetime) -> Iterator[Finding]:
    """Brands of which there are no cards, cards that pieces wait for, and void ones that their issuer has not
    heard of."""
    yield _check_brands(tx, settings, now=now)
    short = []
    if settings.giftcards is None:
        short = list(tx.execute(SHORT, {"good_on": (now + GOOD_FOR).date()}))
    if short:
        kinds = [f"{row.brand} over {dollars(row.cents)}: {row.wanted - row.free:,}" for row in short]
        named = "; ".join(kinds[:MOST_NAMED])
        advice = "Load them with `quillpost giftcards load`, or name an issuer in QUILLPOST_GIFTCARDS."
        yield Finding(
            "gift card stock", "warning", f"pieces wait for more cards than there are. {named}", advice
        )
    if set_aside := int(tx.execute(SET_ASIDE).scalar_one()):
        yield Finding(
            "restored gift cards",
            "warning",
            f"{set_aside:,} in stock are set aside, as they may have been mailed since the backup",
            "See Backups in docs/operate.md, then `quillpost giftcards release-stock`.",
        )
    untold = list(tx.execute(UNTOLD, {"long_ago": now - TOLD_WITHIN}))
    if untold:
        named = ", ".join(f"{row.cards:,} of {row.issuer}" for row in untold)
        advice = "See that workers run, and that QUILLPOST_GIFTCARDS names who issued them."
        yield Finding("void gift cards", "warning", f"not given back yet: {named}", advice)
    if not short and not untold:
        yield Finding("gift card stock", "ok", "no piece waits for a card that is not there")


LATE = timedelta(minutes=5)
LATELY = timedelta(days=1)

WAITING = sa.text(
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


def check_mail(settings: Settings) -> Iterator[Finding]:
    """Whether the settings fit together, and the mail server lets us in."""
    try:
        server = smtp(settings)
    except NotReady as fault:
        yield Finding("mail server", "broken", fault.message, CORRECT_IT)
        return
    if server is None:
        what = "there is none: e-mails are written to the standard output"
        yield Finding("mail server", "warning", what, "Set QUILLPOST_SMTP before anyone counts on them.")
        return
    try:
        asyncio.run(server.knock())
    except NotifierDown as down:
        yield Finding("mail server", "warning", str(down), "E-mails wait until it is back.")
    else:
        yield Finding("mail server", "ok", "it lets us in")


def check_texts(settings: Settings) -> Finding:
    """Whether there is a service for text messages that can be asked. Asking costs, so nobody does."""
    try:
        service = texts(settings)
    except NotReady as fault:
        return Finding("text messages", "broken", fault.message, CORRECT_IT)
    if service is None:
        what = "there is no service: they are written to the standard output"
        return Finding("text messages", "warning", what, "Set QUILLPOST_SMS before anyone counts on them.")
    return Finding("text messages", "ok", "the settings of their service fit together")


def check_notices(tx: Tx, *, now: datetime) -> Finding:
    """What waits although its time has come, and what failed for good of late."""
    found = tx.execute(WAITING, {"late": now - LATE, "lately": now - LATELY}).one()
    complaints = [
        f"{count} {what}"
        for count, what in (
            (found.mails, "e-mails wait"),
            (found.texts, "text messages wait"),
            (found.failed, "could not be sent since yesterday"),
        )
        if count
    ]
    if complaints:
        advice = "The reasons are in the table `notices`, column `error`; see that workers run."
        return Finding("notices", "warning", "; ".join(complaints), advice)
    return Finding("notices", "ok", "none waits")


PEOPLE = sa.text(
    """
    select (select count(*) from people where password_hash is not null) as people,
           (select count(*) from accounts) as accounts,
           (select count(*) from accounts a
             where not exists (select from memberships m where m.account_id = a.id)) as deserted,
           (select count(*) from invitations
             where accepted_at is null and revoked_at is null and expires_at > :now) as invited
    """
)


def check_sign_in(settings: Settings) -> Finding:
    """Whether passwords and tokens travel sealed. On this machine alone nobody listens on the way."""
    base = public_base(settings)
    parts = urlsplit(base)
    if parts.scheme == "https" and not settings.trusted_proxies:
        what = f"no proxy is trusted in front of {base}: cookies are not Secure, and limits see one network"
        return Finding("sign-in", "warning", what, "Set QUILLPOST_TRUSTED_PROXIES to its address.")
    if parts.scheme == "https" or is_this_machine(parts.hostname or ""):
        return Finding("sign-in", "ok", f"at {base}/sign-in")
    what = f"{base} is not https: passwords, cookies and tokens can be read on the way there"
    return Finding(
        "sign-in", "warning", what, "Put a proxy with a certificate in front, and set QUILLPOST_BASE_URL."
    )


def check_people(tx: Tx, settings: Settings, *, now: datetime) -> Finding:
    found = tx.execute(PEOPLE, {"now": now}).one()
    if found.invited and settings.smtp is None:
        what = f"{counted(found.invited, 'invitation')} cannot be brought: there is no mail server"
        advice = "Set QUILLPOST_SMTP, or hand the links over: `quillpost people invite` prints them."
        return Finding("people", "warning", what, advice)
    what = "1 person signs in" if found.people == 1 else f"{found.people:,} people sign in"
    if found.deserted:
        what += f"; {found.deserted} of {found.accounts} accounts have nobody: `quillpost people invite`"
    return Finding("people", "ok", what)


A_LITTLE = timedelta(seconds=2)
TOO_MUCH = timedelta(seconds=20)
"""Pumps and workers lease what they do for a minute, each by its own clock."""

ADVICE = "Let every machine keep its clock by NTP."


def check_clock(tx: Tx, *, now: datetime) -> Finding:
    """Machines that disagree about the time would take work from each other that is still being done."""
    apart = tx.execute(sa.text("select clock_timestamp()")).scalar_one() - now
    seconds = abs(apart.total_seconds())
    if abs(apart) <= A_LITTLE:
        return Finding("clock", "ok", "it agrees with the database's")
    what = f"{seconds:,.0f} seconds {'behind' if apart > timedelta(0) else 'ahead of'} the database's"
    return Finding("clock", "broken" if abs(apart) > TOO_MUCH else "warning", what, ADVICE)


BRING_KEY_BACK = "Bring back the key of this database: FILE.key of its last backup."


def check_key(settings: Settings, tx: Tx) -> Iterator[Finding]:
    """Present, closed to others, and those that sealed what is in the database."""
    file = KeyFile(runtime.key_path(settings.home))
    path = file.path
    sealed = [found for column in COLUMNS if (found := any_value(tx, column)) is not None]
    if settings.secret_key is None and not path.exists():
        yield _missing_key(is_needed=bool(sealed))
        return
    if settings.secret_key is None and file.is_open_to_others:
        yield Finding("secret key", "broken", f"others may use {path}", f"Run chmod 600 {path}.")
    try:
        sealer = runtime.sealer_of(settings)
        for context, value in sealed:
            sealer.open(value, context=context)
    except QuillpostError as fault:
        yield Finding("secret key", "broken", fault.message, BRING_KEY_BACK)
    except SealBroken:
        what = "it does not open the secrets in this database"
        yield Finding("secret key", "broken", what, BRING_KEY_BACK)
    else:
        place = "QUILLPOST_SECRET_KEY" if settings.secret_key else str(path)
        if len(sealer.ids) > 1:
            yield _several_keys(tx, BatchStore(runtime.file_store(settings), sealer), place)
        else:
            yield Finding("secret key", "ok", place)


def _several_keys(tx: Tx, files: BatchStore, place: str) -> Finding:
    sealer = files.sealer
    left = [str(column) for column in COLUMNS if is_any_left(tx, column, sealer.mark)]
    try:
        if count_files(files, all_secret(tx)).keys() - {sealer.current}:
            left.append(FILES)
    except QuillpostError as fault:
        what = f"nobody can tell which key the {FILES} need: {fault.message}"
        return Finding("secret key", "warning", what, "Bring the file store back.")
    if not left:
        return Finding("secret key", "ok", f"{place}, with {len(sealer.ids)} keys: all is under the first")
    what = f"there are {len(sealer.ids)} keys, and {', '.join(left)} still need a former one"
    return Finding("secret key", "warning", what, "`quillpost keys list` says what to do next.")


def _missing_key(*, is_needed: bool) -> Finding:
    if is_needed:
        what = "it is gone, and this database has secrets that only it opens"
        return Finding("secret key", "broken", what, BRING_KEY_BACK)
    return Finding("secret key", "warning", "there is none yet", "`quillpost serve` makes it.")
