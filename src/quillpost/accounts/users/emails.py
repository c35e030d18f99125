"""Mails to people about how they sign in: their words, and how they are posted."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.core import outbox
from quillpost.core.clock import plain_time
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.users import memberships, people
from quillpost.core.encryption import Sealer
from quillpost.core.text import one_line

LONGEST_NAME = 80
NOBODY = 0
NOT_YOU = (
    "If that was not you, set another password at once, by “Forgotten your password?” on the sign-in page. "
    "Then look through your settings: access tokens and connected apps go on as they are until you revoke or "
    "disconnect them there."
)


def post(
    tx: Tx,
    person_id: int | None,
    *,
    key: str,
    subject: str,
    words: str,
    secret_sealed: bytes | None = None,
    ends_at: datetime | None = None,
    now: datetime,
) -> None:
    """To a person's e-mail, by way of the first account that they are in; to nobody, with as much work. Takes
    the worker's transaction."""
    whom = (
        sa.select(memberships.c.account_id, people.c.email)
        .join(memberships, memberships.c.person_id == people.c.id)
        .where(people.c.id == (NOBODY if person_id is None else person_id))
        .order_by(memberships.c.id)
    )
    outbox.post_to_person(
        tx,
        whom,
        key=key,
        subject=subject,
        words=words,
        secret_sealed=secret_sealed,
        ends_at=ends_at,
        now=now,
    )


def tell_person(
    tx: Tx,
    sealer: Sealer,
    person_id: int,
    *,
    key: str,
    subject: str,
    words: str,
    secret: str | None = None,
    now: datetime,
) -> None:
    """A notice to a person's e-mail, kind `people`. Where `words` hold `{link}`, the sealed `secret` takes
    its place when the notice is sent, and is forgotten then. `key` says what is told: told once, it is not
    told that person again. Takes the worker's transaction."""
    own = f"people:{person_id}:{key}"
    sealed = None if secret is None else sealer.seal(secret.encode(), context=outbox.context_of(own))
    post(tx, person_id, key=own, subject=subject, words=words, secret_sealed=sealed, now=now)


def reset_words(*, lasts: str) -> str:
    return (
        "Somebody, most likely you, has asked for another password for signing in to Quillpost. To set it, "
        "open this link:\n\n{link}\n\n"
        f"It is good once, for {lasts}. If you did not ask for it, you need not do anything: your password "
        "stays as it is."
    )


def invitation_words(*, account: str, branch: str | None, inviter: str | None, lasts: str) -> str:
    who = one_line(inviter, most=LONGEST_NAME) if inviter else "Whoever runs the service"
    part = f", for its sub account {one_line(branch, most=LONGEST_NAME)}" if branch else ""
    return (
        f"{who} invites you to the account {one_line(account, most=LONGEST_NAME)} at Quillpost{part}. To "
        "accept, open this link:\n\n{link}\n\n"
        f"It is good once, for {lasts}. If you do not know what this is about, you need not do anything."
    )


def tell_removed(tx: Tx, membership_id: int, *, now: datetime) -> None:
    """To somebody who is about to be taken out of an account, by way of that account: perhaps they are in no
    other."""
    m = memberships.c
    this = m.id == membership_id
    place = sa.select(m.person_id, accounts.c.name).join(accounts, accounts.c.id == m.account_id).where(this)
    person_id, name = tx.execute(place).one()
    account = one_line(name, most=LONGEST_NAME)
    outbox.post_to_person(
        tx,
        sa.select(m.account_id, people.c.email).join(people, people.c.id == m.person_id).where(this),
        key=f"people:{person_id}:removed:{membership_id}",
        subject=f"You are no longer in {account}",
        words=(
            f"On {plain_time(now)} UTC you were removed from the account {account} at Quillpost. The access "
            "tokens that you made there are revoked, and the apps that you connected to it are disconnected. "
            "Other accounts that you are in stay as they are.\n\n"
            "If that surprises you, ask an owner of the account."
        ),
        now=now,
    )


def tell_password_changed(tx: Tx, person_id: int, *, by_link: bool, now: datetime) -> None:
    how = "by a link that was sent to this address" if by_link else "by somebody who was signed in as you"
    post(
        tx,
        person_id,
        key=f"people:{person_id}:password:{now.isoformat()}",
        subject="Your password was changed",
        words=(
            f"Your password for Quillpost was changed on {plain_time(now)} UTC, {how}. Wherever else you "
            f"were signed in, you are not any more.\n\n{NOT_YOU}"
        ),
        now=now,
    )


def tell_second_factor_off(tx: Tx, person_id: int, *, now: datetime) -> None:
    post(
        tx,
        person_id,
        key=f"people:{person_id}:second_factor_off:{now.isoformat()}",
        subject="Your second factor was turned off",
        words=(
            f"From {plain_time(now)} UTC on it takes your password alone to sign in to Quillpost as you: the "
            "codes of your authenticator app are not asked for any more.\n\n"
            f"{NOT_YOU} Then turn the second factor on again."
        ),
        now=now,
    )


def tell_recovery_code_used(tx: Tx, person_id: int, *, left: int, now: datetime) -> None:
    rest = {0: "No others are left: make new ones in your settings.", 1: "One is left."}
    post(
        tx,
        person_id,
        key=f"people:{person_id}:recovery:{left}:{now.isoformat()}",
        subject="A recovery code was used",
        words=(
            f"On {plain_time(now)} UTC somebody signed in to Quillpost as you, with your password and a "
            f"recovery code instead of your authenticator app's. {rest.get(left, f'{left} are left.')}\n\n"
            f"{NOT_YOU}"
        ),
        now=now,
    )
