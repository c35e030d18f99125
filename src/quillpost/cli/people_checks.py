"""What `quillpost doctor` sees of people who sign in: by number, never by name."""

from datetime import datetime
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.cli.findings import Finding
from quillpost.cli.print_words import counted
from quillpost.database import Tx
from quillpost.footing import Settings
from quillpost.kit.hosts import is_this_machine
from quillpost.whereabouts import public_base

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
