"""Looking past a caller's limits: what both modes and all sub accounts share is not one caller's to end."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from quillpost.database.engine import Tx

_PAST = sa.text(
    """select current_setting('app.mode') as mode, current_setting('app.sub_account_id') as sub_account,
              set_config('app.mode', '', true), set_config('app.sub_account_id', '', true)"""
)
_BACK = sa.text(
    "select set_config('app.mode', :mode, true), set_config('app.sub_account_id', :sub_account, true)"
)


@contextmanager
def past_the_limits(tx: Tx) -> Iterator[None]:
    """Meanwhile the transaction sees all of the account. A failure ends it anyway."""
    was = tx.execute(_PAST).one()
    yield
    tx.execute(_BACK, {"mode": was.mode, "sub_account": was.sub_account})
