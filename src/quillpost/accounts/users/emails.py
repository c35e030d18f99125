"""E-mails to people about how they sign in."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.core import outbox
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.database.tables.base import accounts
from quillpost.core.text import format_time, to_one_line

MAX_NAME_LENGTH = 80
NO_PERSON_ID = 0
SECURITY_ADVICE = (
    "If that was not you, set another password at once, by “Forgotten your password?” on the sign-in page. "
    "Then look through your settings: access tokens and connected apps go on as they are until you revoke or "
    "disconnect them there."
)


def queue_email(
    tx: Tx,
    person_id: int | None,
    *,
    key: str,
    subject: str,
    text: str,
    secret_sealed: bytes | None = None,
    ends_at: datetime | None = None,
    now: datetime,
) -> None:
    """To a person's e-mail, through their first account; to nobody, with as much work. Takes the system transaction."""
    recipient_query = (
        sa.select(memberships.c.account_id, people.c.email)
        .join(memberships, memberships.c.person_id == people.c.id)
        .where(people.c.id == (NO_PERSON_ID if person_id is None else person_id))
        .order_by(memberships.c.id)
    )
    outbox.enqueue_person_notification(
        tx, recipient_query, key=key, subject=subject, text=text, secret_sealed=secret_sealed, ends_at=ends_at, now=now
    )


def notify_person(tx: Tx, person_id: int, *, key: str, subject: str, text: str, now: datetime) -> None:
    """A notification of kind `people`, once per `key`. Takes the system transaction."""
    queue_email(tx, person_id, key=f"people:{person_id}:{key}", subject=subject, text=text, now=now)


def format_reset_text(*, duration: str) -> str:
    return (
        "Somebody, most likely you, has asked for another password for signing in to Quillpost. To set it, "
        "open this link:\n\n{link}\n\n"
        f"It is good once, for {duration}. If you did not ask for it, you need not do anything: your password "
        "stays as it is."
    )


def format_invitation_text(*, account: str, sub_account_title: str | None, inviter: str | None, duration: str) -> str:
    inviter_name = to_one_line(inviter, max_length=MAX_NAME_LENGTH) if inviter else "Whoever runs the service"
    sub_account_text = (
        f", for its sub account {to_one_line(sub_account_title, max_length=MAX_NAME_LENGTH)}"
        if sub_account_title
        else ""
    )
    return (
        f"{inviter_name} invites you to the account {to_one_line(account, max_length=MAX_NAME_LENGTH)} at "
        f"Quillpost{sub_account_text}. To "
        "accept, open this link:\n\n{link}\n\n"
        f"It is good once, for {duration}. If you do not know what this is about, you need not do anything."
    )


def notify_removed(tx: Tx, membership_id: int, *, now: datetime) -> None:
    """Through the account that they leave: perhaps they have no other."""
    m = memberships.c
    is_membership = m.id == membership_id
    query = sa.select(m.person_id, accounts.c.name).join(accounts, accounts.c.id == m.account_id).where(is_membership)
    person_id, name = tx.execute(query).one()
    account = to_one_line(name, max_length=MAX_NAME_LENGTH)
    outbox.enqueue_person_notification(
        tx,
        sa.select(m.account_id, people.c.email).join(people, people.c.id == m.person_id).where(is_membership),
        key=f"people:{person_id}:removed:{membership_id}",
        subject=f"You are no longer in {account}",
        text=(
            f"On {format_time(now)} UTC you were removed from the account {account} at Quillpost. The access "
            "tokens that you made there are revoked, and the apps that you connected to it are disconnected. "
            "Other accounts that you are in stay as they are.\n\n"
            "If that surprises you, ask an owner of the account."
        ),
        now=now,
    )


def notify_password_changed(tx: Tx, person_id: int, *, by_link: bool, now: datetime) -> None:
    method = "by a link that was sent to this address" if by_link else "by somebody who was signed in as you"
    notify_person(
        tx,
        person_id,
        key=f"password:{now.isoformat()}",
        subject="Your password was changed",
        text=(
            f"Your password for Quillpost was changed on {format_time(now)} UTC, {method}. Wherever else you "
            f"were signed in, you are not any more.\n\n{SECURITY_ADVICE}"
        ),
        now=now,
    )


def notify_second_factor_off(tx: Tx, person_id: int, *, now: datetime) -> None:
    notify_person(
        tx,
        person_id,
        key=f"second_factor_off:{now.isoformat()}",
        subject="Your second factor was turned off",
        text=(
            f"From {format_time(now)} UTC on it takes your password alone to sign in to Quillpost as you: the "
            "codes of your authenticator app are not asked for any more.\n\n"
            f"{SECURITY_ADVICE} Then turn the second factor on again."
        ),
        now=now,
    )


def notify_recovery_code_used(tx: Tx, person_id: int, *, remaining: int, now: datetime) -> None:
    remaining_texts = {0: "No others are left: make new ones in your settings.", 1: "One is left."}
    notify_person(
        tx,
        person_id,
        key=f"recovery:{remaining}:{now.isoformat()}",
        subject="A recovery code was used",
        text=(
            f"On {format_time(now)} UTC somebody signed in to Quillpost as you, with your password and a "
            "recovery code instead of your authenticator app's. "
            f"{remaining_texts.get(remaining, f'{remaining} are left.')}\n\n"
            f"{SECURITY_ADVICE}"
        ),
        now=now,
    )
