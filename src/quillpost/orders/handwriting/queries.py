"""An account's own styles and signatures, as one reads them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import own_hands, signatures
from quillpost.core.errors import Message, NotFound, Refused
from quillpost.orders.handwriting.models import NO_OWN_HANDWRITING, OwnHandwriting, SavedHand, SavedSignature
from quillpost.rendering.handwriting.models import FIRST_PRIVATE_STYLE

UNKNOWN_SIGNATURE: Final = Message("signature_unknown", "Signature does not exist")
MAX_LISTED: Final = 200
MAX_STYLE: Final = 2**31 - 1  # orders have no room for more

_HAND_COLUMNS = (
    *(own_hands.c[name] for name in ("id", "account_id", "sub_account_id", "name", "created_at", "updated_at")),
    own_hands.c.forms.is_not(None).label("is_ready"),
)
_SIGNATURE_COLUMNS = [column for column in signatures.c if column.name != "deleted_at"]


class Written(Protocol):
    """An order, or a request for one."""

    @property
    def style(self) -> int: ...

    @property
    def signature_id(self) -> int | None: ...


def list_hands(tx: Tx, *, only_ready: bool = False) -> list[SavedHand]:
    """Newest first."""
    query = sa.select(*_HAND_COLUMNS).where(own_hands.c.deleted_at.is_(None))
    if only_ready:
        query = query.where(own_hands.c.forms.is_not(None))
    return [SavedHand.of(row) for row in tx.execute(query.order_by(own_hands.c.id.desc()).limit(MAX_LISTED))]


def read_hand(tx: Tx, hand_id: int, *, locked: bool = False) -> SavedHand:
    query = sa.select(*_HAND_COLUMNS).where(own_hands.c.id == hand_id, own_hands.c.deleted_at.is_(None))
    row = tx.execute(query.with_for_update() if locked else query).first()
    if row is None:
        raise NotFound
    return SavedHand.of(row)


def list_signatures(tx: Tx) -> list[SavedSignature]:
    """Newest first."""
    query = sa.select(*_SIGNATURE_COLUMNS).where(signatures.c.deleted_at.is_(None))
    rows = tx.execute(query.order_by(signatures.c.id.desc()).limit(MAX_LISTED))
    return [SavedSignature.of(row) for row in rows]


def read_signature(tx: Tx, signature_id: int) -> SavedSignature:
    query = sa.select(*_SIGNATURE_COLUMNS).where(signatures.c.id == signature_id, signatures.c.deleted_at.is_(None))
    row = tx.execute(query).first()
    if row is None:
        raise NotFound
    return SavedSignature.of(row)


def find_usable_style(tx: Tx, number: int, sub_account_id: int | None) -> bytes | None:
    """The forms of a style of the account that a send of this sub account may use; None for any other number."""
    if not FIRST_PRIVATE_STYLE <= number <= MAX_STYLE:
        return None
    query = sa.select(own_hands.c.forms).where(own_hands.c.id == number, *_usable_conditions(own_hands, sub_account_id))
    return tx.execute(query).scalar()


def find_usable_signature(tx: Tx, signature_id: int, sub_account_id: int | None) -> bytes:
    query = sa.select(signatures.c.outlines)
    query = query.where(signatures.c.id == signature_id, *_usable_conditions(signatures, sub_account_id))
    outlines = tx.execute(query).scalar()
    if outlines is None:
        raise Refused(UNKNOWN_SIGNATURE)
    return bytes(outlines)


def _usable_conditions(table: sa.Table, sub_account_id: int | None) -> Sequence[sa.ColumnElement[bool]]:
    """A send uses what belongs to its own sub account, or to none."""
    is_shared = table.c.sub_account_id.is_(None)
    is_usable = is_shared if sub_account_id is None else is_shared | (table.c.sub_account_id == sub_account_id)
    return (table.c.deleted_at.is_(None), is_usable)


HANDWRITING_OF_ORDER = sa.text("select forms, outlines from handwriting_of_order(:order_id)")


def find_order_handwriting(tx: Tx, order_id: int) -> OwnHandwriting:
    """What an order that this transaction has read already is written with, of any owner in its account."""
    row = tx.execute(HANDWRITING_OF_ORDER, {"order_id": order_id}).first()
    return NO_OWN_HANDWRITING if row is None else OwnHandwriting(_to_bytes(row.forms), _to_bytes(row.outlines))


def _to_bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def read_own_handwriting(tx: Tx, written: Iterable[tuple[int, Written]]) -> dict[int, OwnHandwriting]:
    """What orders are written with, also where it was deleted since; by the ids given with them. The transaction is
    the service's, which sees all rows."""
    by_id = dict(written)
    hands = _read_files(
        tx, own_hands.c.forms, {each.style for each in by_id.values() if each.style >= FIRST_PRIVATE_STYLE}
    )
    outlines = _read_files(
        tx, signatures.c.outlines, {each.signature_id for each in by_id.values() if each.signature_id is not None}
    )
    return {
        key: OwnHandwriting(hands.get(each.style), outlines.get(each.signature_id or 0)) for key, each in by_id.items()
    }


def _read_files(tx: Tx, column: sa.ColumnElement[bytes], ids: set[int]) -> Mapping[int, bytes]:
    if not ids:
        return {}
    key = column.table.c.id
    return {
        row.id: bytes(row.content) for row in tx.execute(sa.select(key, column.label("content")).where(key.in_(ids)))
    }
