"""What an account is called, and where its returned mail goes: an owner says so."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts import audit
from quillpost.accounts.audit import Actor
from quillpost.accounts.owning import hold_account, require_owner
from quillpost.database import Tx
from quillpost.database.tables import accounts
from quillpost.kit import tokens as token_format
from quillpost.kit.errors import Invalid

LONGEST = 300
CALLED = {"name": "the name", "company": "the company"}
RETURN_ADDRESS = "the return address"


@dataclass(frozen=True, slots=True)
class AccountFacts:
    name: str
    company: str | None = None
    return_name: str | None = None
    return_address: str | None = None
    return_address2: str | None = None
    return_city: str | None = None
    return_state: str | None = None
    return_postal_code: str | None = None

    @property
    def has_return_address(self) -> bool:
        """Whether it is whole: live mail needs one."""
        return all((self.return_address, self.return_city, self.return_state, self.return_postal_code))


_COLUMNS = [accounts.c[field.name] for field in fields(AccountFacts)]


def read_facts(tx: Tx, account_id: int) -> AccountFacts:
    return AccountFacts(*tx.execute(sa.select(*_COLUMNS).where(accounts.c.id == account_id)).one())


def change_facts(tx: Tx, account_id: int, wanted: AccountFacts, actor: Actor, *, now: datetime) -> None:
    """All of them at once; noted if anything is another. `Invalid` by field; `Forbidden` for a person who is
    no owner. Orders that are placed already keep the sender that they had."""
    hold_account(tx, account_id)
    require_owner(tx, account_id, actor)
    if faults := _faults(wanted):
        raise Invalid(faults)
    before = asdict(read_facts(tx, account_id))
    changed = {name: value for name, value in asdict(wanted).items() if value != before[name]}
    if not changed:
        return
    tx.execute(sa.update(accounts).where(accounts.c.id == account_id).values(**changed, updated_at=now))
    words = list(dict.fromkeys(CALLED.get(name, RETURN_ADDRESS) for name in changed))
    audit.note(tx, account_id, "account.changed", actor, about={"changed": words}, now=now)


def _faults(wanted: AccountFacts) -> Mapping[str, list[str]]:
    found = {}
    for name, value in asdict(wanted).items():
        if len(value or "") > LONGEST:
            found[name] = [f"At most {LONGEST} characters, please."]
        elif not (value or "").isprintable():
            found[name] = ["This is one line of plain text."]
        elif token_format.hide_secrets(value or "") != (value or ""):  # it is printed, and shown to others
            found[name] = ["This holds a token: write something else, and revoke that token."]
    if not wanted.name:
        found["name"] = ["Give the account a name: a person's or a company's."]
    return found
