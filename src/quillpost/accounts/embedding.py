"""The composer within another product's page: which sites may show it, and the signed pass that opens it.

A pass holds all that it is good for. It opens nothing any more once its hour is over, its site is taken off
the account's list, or the token that it was made with is ended.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Caller
from quillpost.accounts.service import hold_account, require_owner
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Forbidden, Invalid
from quillpost.core.tokens import LinkSigner

SCOPE: Final = "send:write"
MOST_ORIGINS: Final = 20
LONGEST_ORIGIN: Final = 300
LOCAL: Final = ("localhost", "127.0.0.1")
PURPOSE: Final = "embed"
LONGEST_PASS: Final = 12_000

NO_ORIGIN = "{} is no site: write it as https://app.example.com, without a path."
NO_HTTP = "{} is not https: other sites than localhost must be."
TOO_MANY = f"At most {MOST_ORIGINS} sites, please."
OVER = "This form was open for too long. Reload the page that it is on."
ENDED = "This form is not good any more: reload the page that it is on, or tell whoever runs it."
FORGED = "This address is not one of ours, or is not whole."
DELISTED = "This site may not show the form any more. Whoever owns the account decides which may."

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Pass:
    """Whose composer it is, in whose page, and what it begins with."""

    account_id: int
    sub_account_id: int | None
    mode: str
    token_id: int
    origin: str
    piece: str | None = None
    message: str | None = None
    mailing_list_ids: tuple[int, ...] = ()
    serial: str = ""
    """Tells it from others that are good for the same."""

    @property
    def mark(self) -> tuple[int, str]:
        """What tells this guest from all others."""
        return self.token_id, self.serial

    @property
    def caller(self) -> Caller:
        """Whoever fills in the form may write a send for this account, and nothing else."""
        return Caller(
            account_id=self.account_id,
            mode=self.mode,
            sub_account_id=self.sub_account_id,
            token_id=self.token_id,
            scopes=frozenset({SCOPE}),
        )


class Closed(Forbidden):
    """A pass that opens nothing. `origin` is the site that may still be told so in its frame."""

    def __init__(self, message: str, origin: str | None = None) -> None:
        super().__init__(message)
        self.origin = origin


def normal_origin(written: str) -> str:
    """A site as browsers name it; `ValueError` with a sentence for what is none."""
    text = written.strip()
    try:
        place = urlsplit(text)
        host, port = (place.hostname or "").encode("idna").decode(), place.port
    except ValueError:
        raise ValueError(NO_ORIGIN.format(_shown(text))) from None
    is_bare = place.path in ("", "/") and not (place.query or place.fragment or "@" in place.netloc)
    if place.scheme not in ("http", "https") or not is_bare or not _HOST.fullmatch(host) or len(host) > 253:
        raise ValueError(NO_ORIGIN.format(_shown(text)))
    if place.scheme == "http" and host not in LOCAL:
        raise ValueError(NO_HTTP.format(_shown(text)))
    usual = {"http": 80, "https": 443}[place.scheme]
    return f"{place.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")


def read_origins(tx: Tx, account_id: int) -> list[str]:
    found = tx.execute(sa.select(accounts.c.embed_origins).where(accounts.c.id == account_id)).scalar_one()
    return list(found)


def change_origins(tx: Tx, account_id: int, lines: Sequence[str], actor: Actor, *, now: datetime) -> None:
    """The sites that may show it from now on; `Invalid` under `origins`, `Forbidden` for no owner."""
    hold_account(tx, account_id)
    require_owner(tx, account_id, actor)
    wanted, faults = list[str](), list[str]()
    for line in filter(None, map(str.strip, lines)):
        try:
            wanted.append(normal_origin(line))
        except ValueError as wrong:
            faults.append(str(wrong))
    wanted = list(dict.fromkeys(wanted))
    if len(wanted) > MOST_ORIGINS:
        faults = [TOO_MANY]
    if faults:
        raise Invalid({"origins": faults[:MOST_ORIGINS]})
    if wanted == read_origins(tx, account_id):
        return
    values = {"embed_origins": wanted, "updated_at": now}
    tx.execute(sa.update(accounts).where(accounts.c.id == account_id).values(**values))
    audit_service.note(tx, account_id, "embed.changed", actor, about={"sites": wanted}, now=now)


def issue(sealer: Sealer, given: Pass, *, expires: datetime) -> str:
    return _signer(sealer).sign(orjson.dumps(asdict(given)).decode(), expires=expires)


def admit(db: Database, sealer: Sealer, written: str, *, now: datetime) -> Pass:
    """The pass, if it still opens; `Closed` where it does not. Asked at every request."""
    found = _read(sealer, written, now=now)
    with db.transaction(Tenant(found.account_id)) as tx:
        row = tx.execute(
            sa.select(tokens.c.scopes, tokens.c.mode, accounts.c.test_mode, accounts.c.embed_origins)
            .join_from(tokens, accounts, accounts.c.id == tokens.c.account_id)
            .where(
                tokens.c.id == found.token_id,
                tokens.c.revoked_at.is_(None),
                sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now),
                sa.or_(tokens.c.sub_account_id.is_(None), tokens.c.sub_account_id == found.sub_account_id),
            )
        ).first()
    if row is None or (row.scopes is not None and SCOPE not in row.scopes):
        raise Closed(ENDED, found.origin)
    if found.mode != ("test" if row.test_mode else row.mode):
        raise Closed(ENDED, found.origin)
    if found.origin not in row.embed_origins:
        raise Closed(DELISTED)
    return found


def _read(sealer: Sealer, written: str, *, now: datetime) -> Pass:
    signer = _signer(sealer)
    claim = signer.read(written, now=now) if len(written) <= LONGEST_PASS else None
    if claim is None:
        # One that is over was ours once: its site may say so within its frame.
        over = signer.read(written, now=None) if len(written) <= LONGEST_PASS else None
        if over is not None:
            raise Closed(OVER, _pass(over).origin)
        raise Closed(FORGED)
    return _pass(claim)


def _pass(claim: str) -> Pass:
    told: dict[str, Any] = orjson.loads(claim)
    return Pass(**{**told, "mailing_list_ids": tuple(told["mailing_list_ids"])})


def _signer(sealer: Sealer) -> LinkSigner:
    return LinkSigner(lambda: sealer.derive_all(PURPOSE))


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_ORIGIN else f"{text[:LONGEST_ORIGIN]}…"
