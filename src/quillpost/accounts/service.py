"""Open accounts, authenticate tokens, change profiles."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Caller, RateLimitStatus
from quillpost.accounts.queries import AccountProfile, read_account_profile
from quillpost.accounts.rate_limits.service import WINDOW_SECONDS
from quillpost.accounts.sub_accounts.queries import read_sub_account
from quillpost.core import tokens
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.accounts import memberships
from quillpost.core.database.tables.base import accounts, idempotency_keys
from quillpost.core.errors import Forbidden, Invalid, Refused, Unauthenticated

AUTHENTICATE = sa.text("select * from authenticate(:digest, :seconds, :now)")


@dataclass(frozen=True, slots=True)
class SenderProfile:
    """The sender of an item: what `%YOUR_NAME%` stands for, and where returns go."""

    name: str | None
    company: str | None
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_province: str | None
    return_postal_code: str | None


def build_tenant(caller: Caller) -> Tenant:
    return Tenant(caller.account_id, caller.sub_account_id, caller.mode)


def authenticate(db: Database, token: str, *, limit: int, now: datetime) -> tuple[Caller, RateLimitStatus]:
    """The token's holder, with this call counted; else `Unauthenticated`."""
    if not tokens.is_wellformed_token(token):
        raise Unauthenticated
    row = db.execute_autocommit(
        AUTHENTICATE, {"digest": tokens.hash_token(token), "seconds": WINDOW_SECONDS, "now": now}
    )
    if row is None:
        raise Unauthenticated
    caller = Caller(
        account_id=row.account_id,
        mode=row.mode,
        sub_account_id=row.sub_account_id,
        token_id=row.token_id,
        scopes=None if row.scopes is None else frozenset(row.scopes),
        person_id=row.person_id,
        grant_id=row.grant_id,
        is_operator=row.is_operator,
    )
    return caller, RateLimitStatus(limit, row.used, row.resets_in)


def create_account(tx: Tx, *, email: str, name: str, is_operator: bool = False, now: datetime) -> int:
    """Takes the system transaction."""
    if tx.execute(sa.select(accounts.c.id).where(sa.func.lower(accounts.c.email) == email.lower())).first():
        raise Invalid({"email": [f"An account with the e-mail {email} exists already."]})
    result = tx.execute(
        sa.insert(accounts)
        .values(email=email, name=name, is_operator=is_operator, test_mode=False, created_at=now, updated_at=now)
        .returning(accounts.c.id)
    )
    return int(result.scalar_one())


def find_account(tx: Tx, email: str) -> int:
    account_id = tx.execute(sa.select(accounts.c.id).where(sa.func.lower(accounts.c.email) == email.lower())).scalar()
    if account_id is None:
        raise Refused(f"There is no account with the e-mail {email}.")
    return int(account_id)


def read_sender(tx: Tx, caller: Caller, sub_account_id: int | None) -> SenderProfile:
    """The sender when the request names none: the sub account, else the account."""
    account = tx.execute(sa.select(accounts).where(accounts.c.id == caller.account_id)).one()
    sub_account = None if sub_account_id is None else read_sub_account(tx, sub_account_id)
    branding = sub_account.branding if sub_account is not None else {}
    address_source = sub_account if sub_account is not None and sub_account.return_address else account
    return SenderProfile(
        name=branding.get("name") or account.name,
        company=branding.get("company") or account.company,
        return_name=address_source.return_name,
        return_address=address_source.return_address,
        return_address2=address_source.return_address2,
        return_city=address_source.return_city,
        return_province=address_source.return_state,
        return_postal_code=address_source.return_postal_code,
    )


def is_operator_token(db: Database, token: str, *, now: datetime) -> bool:
    try:
        caller, _ = authenticate(db, token, limit=0, now=now)
    except Unauthenticated:
        return False
    return caller.is_operator


def lock_account_row(tx: Tx, account_id: int) -> None:
    """Serialize changes until this transaction ends, so that limits hold."""
    tx.execute(sa.select(accounts.c.id).where(accounts.c.id == account_id).with_for_update(key_share=True))


def require_owner(tx: Tx, account_id: int, actor: Actor) -> None:
    """`Forbidden` unless the actor is an owner, who stays one until this transaction ends. The command line may do
    everything. Lock the account's row first if you need it."""
    if actor.person_id is None:
        return
    m = memberships.c
    query = sa.select(m.id).where(m.account_id == account_id, m.person_id == actor.person_id, m.role == "owner")
    if tx.execute(query.with_for_update(read=True)).first() is None:
        raise Forbidden("Only an owner of this account may do this. Ask one of them.")


def response_encryption_context(account_id: int, path: str, key: str) -> str:
    return f"idempotency:{account_id}:{path}:{key}"


def delete_expired_idempotency_keys(db: Database, *, now: datetime) -> None:
    with db.system_transaction() as tx:
        tx.execute(sa.delete(idempotency_keys).where(idempotency_keys.c.expires_at < now))


MAX_FIELD_LENGTH = 300
FIELD_LABELS = {"name": "the name", "company": "the company"}


def update_account_profile(tx: Tx, account_id: int, profile: AccountProfile, actor: Actor, *, now: datetime) -> None:
    """Replace the profile; `Invalid` by field, `Forbidden` unless an owner. Existing orders keep their sender."""
    lock_account_row(tx, account_id)
    require_owner(tx, account_id, actor)
    if errors := _find_errors(profile):
        raise Invalid(errors)
    before = asdict(read_account_profile(tx, account_id))
    changes = {name: value for name, value in asdict(profile).items() if value != before[name]}
    if not changes:
        return
    tx.execute(sa.update(accounts).where(accounts.c.id == account_id).values(**changes, updated_at=now))
    labels = list(dict.fromkeys(FIELD_LABELS.get(name, "the return address") for name in changes))
    audit_service.record_audit_entry(tx, account_id, "account.changed", actor, about={"changed": labels}, now=now)


def _find_errors(profile: AccountProfile) -> Mapping[str, list[str]]:
    errors = {}
    for name, value in asdict(profile).items():
        if len(value or "") > MAX_FIELD_LENGTH:
            errors[name] = [f"At most {MAX_FIELD_LENGTH} characters, please."]
        elif not (value or "").isprintable():
            errors[name] = ["This is one line of plain text."]
        elif tokens.hide_secrets(value or "") != (value or ""):  # it is printed, and shown to others
            errors[name] = ["This holds a token: write something else, and revoke that token."]
    if not profile.name:
        errors["name"] = ["Give the account a name: a person's or a company's."]
    return errors
