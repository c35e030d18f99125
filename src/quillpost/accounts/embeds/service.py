"""The embedded composer: which sites may show it, and the signed token that opens it."""

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
from quillpost.accounts.service import lock_account_row, require_owner
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Forbidden, Invalid
from quillpost.core.tokens import LinkSigner

REQUIRED_SCOPE: Final = "send:write"
MAX_ORIGINS: Final = 20
MAX_ORIGIN_LENGTH: Final = 300
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1")
KEY_PURPOSE: Final = "embed"
MAX_TOKEN_LENGTH: Final = 12_000

INVALID_ORIGIN = "{} is no site: write it as https://app.example.com, without a path."
HTTPS_REQUIRED = "{} is not https: other sites than localhost must be."
TOO_MANY_ORIGINS = f"At most {MAX_ORIGINS} sites, please."
TOKEN_EXPIRED = "This form was open for too long. Reload the page that it is on."
TOKEN_REVOKED = "This form is not good any more: reload the page that it is on, or tell whoever runs it."
TOKEN_INVALID = "This address is not one of ours, or is not whole."
ORIGIN_NOT_ALLOWED = "This site may not show the form any more. Whoever owns the account decides which may."

_HOST_PATTERN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class EmbedToken:
    """Whose composer it is, on which site, and what it begins with."""

    account_id: int
    sub_account_id: int | None
    mode: str
    token_id: int
    origin: str
    piece: str | None = None
    message: str | None = None
    mailing_list_ids: tuple[int, ...] = ()
    serial: str = ""
    """Tells apart tokens that are otherwise equal."""

    @property
    def guest_key(self) -> tuple[int, str]:
        return self.token_id, self.serial

    @property
    def caller(self) -> Caller:
        """A guest may write a send for this account, and nothing else."""
        return Caller(
            account_id=self.account_id,
            mode=self.mode,
            sub_account_id=self.sub_account_id,
            token_id=self.token_id,
            scopes=frozenset({REQUIRED_SCOPE}),
        )


class EmbedTokenRejected(Forbidden):
    """`origin` is the site that may still show the message in its frame."""

    def __init__(self, message: str, origin: str | None = None) -> None:
        super().__init__(message)
        self.origin = origin


def normalize_origin(origin: str) -> str:
    """The site as browsers name it; else `ValueError` with a sentence."""
    text = origin.strip()
    try:
        url = urlsplit(text)
        host, port = (url.hostname or "").encode("idna").decode(), url.port
        is_origin_only = url.path in ("", "/") and not (url.query or url.fragment or "@" in url.netloc)
        is_host = len(host) <= 253 and _HOST_PATTERN.fullmatch(host)
        if url.scheme not in ("http", "https") or not is_origin_only or not is_host:
            raise ValueError
    except ValueError:
        raise ValueError(INVALID_ORIGIN.format(_shorten(text))) from None
    if url.scheme == "http" and host not in LOCAL_HOSTS:
        raise ValueError(HTTPS_REQUIRED.format(_shorten(text)))
    default_port = {"http": 80, "https": 443}[url.scheme]
    return f"{url.scheme}://{host}" + (f":{port}" if port not in (None, default_port) else "")


def read_embed_origins(tx: Tx, account_id: int) -> list[str]:
    origins = tx.execute(sa.select(accounts.c.embed_origins).where(accounts.c.id == account_id)).scalar_one()
    return list(origins)


def update_embed_origins(tx: Tx, account_id: int, origins: Sequence[str], actor: Actor, *, now: datetime) -> None:
    """`Invalid` under `origins`; `Forbidden` unless an owner."""
    lock_account_row(tx, account_id)
    require_owner(tx, account_id, actor)
    new_origins, errors = list[str](), list[str]()
    for origin in filter(None, map(str.strip, origins)):
        try:
            new_origins.append(normalize_origin(origin))
        except ValueError as error:
            errors.append(str(error))
    new_origins = list(dict.fromkeys(new_origins))
    if len(new_origins) > MAX_ORIGINS:
        errors = [TOO_MANY_ORIGINS]
    if errors:
        raise Invalid({"origins": errors[:MAX_ORIGINS]})
    if new_origins == read_embed_origins(tx, account_id):
        return
    values = {"embed_origins": new_origins, "updated_at": now}
    tx.execute(sa.update(accounts).where(accounts.c.id == account_id).values(**values))
    audit_service.record_audit_entry(tx, account_id, "embed.changed", actor, about={"sites": new_origins}, now=now)


def issue_embed_token(encryptor: Encryptor, token: EmbedToken, *, expires: datetime) -> str:
    return _build_signer(encryptor).sign_file_id(orjson.dumps(asdict(token)).decode(), expires_at=expires)


def verify_embed_token(db: Database, encryptor: Encryptor, signed_text: str, *, now: datetime) -> EmbedToken:
    """The token, if it is still valid; else `EmbedTokenRejected`. Checked at every request."""
    token = _decode_token(encryptor, signed_text, now=now)
    with db.transaction(Tenant(token.account_id)) as tx:
        row = tx.execute(
            sa.select(tokens.c.scopes, tokens.c.mode, accounts.c.test_mode, accounts.c.embed_origins)
            .join_from(tokens, accounts, accounts.c.id == tokens.c.account_id)
            .where(
                tokens.c.id == token.token_id,
                tokens.c.revoked_at.is_(None),
                sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now),
                sa.or_(tokens.c.sub_account_id.is_(None), tokens.c.sub_account_id == token.sub_account_id),
            )
        ).first()
    if row is None or (row.scopes is not None and REQUIRED_SCOPE not in row.scopes):
        raise EmbedTokenRejected(TOKEN_REVOKED, token.origin)
    if token.mode != ("test" if row.test_mode else row.mode):
        raise EmbedTokenRejected(TOKEN_REVOKED, token.origin)
    if token.origin not in row.embed_origins:
        raise EmbedTokenRejected(ORIGIN_NOT_ALLOWED)
    return token


def _decode_token(encryptor: Encryptor, signed_text: str, *, now: datetime) -> EmbedToken:
    signer = _build_signer(encryptor)
    # The signature of an expired token is still ours: its site may say so within its frame.
    payload = signer.read_file_id(signed_text, now=None) if len(signed_text) <= MAX_TOKEN_LENGTH else None
    if payload is None:
        raise EmbedTokenRejected(TOKEN_INVALID)
    token = _parse_token(payload)
    if signer.read_file_id(signed_text, now=now) is None:
        raise EmbedTokenRejected(TOKEN_EXPIRED, token.origin)
    return token


def _parse_token(payload: str) -> EmbedToken:
    values: dict[str, Any] = orjson.loads(payload)
    return EmbedToken(**{**values, "mailing_list_ids": tuple(values["mailing_list_ids"])})


def _build_signer(encryptor: Encryptor) -> LinkSigner:
    return LinkSigner(lambda: encryptor.derive_keys(KEY_PURPOSE))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_ORIGIN_LENGTH else f"{text[:MAX_ORIGIN_LENGTH]}…"
