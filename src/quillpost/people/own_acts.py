"""What somebody does for themselves, such as signing in, is noted in every account that they are in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.accounts.audit import ACTS, LONGEST_ACTOR, Actor
from quillpost.accounts.rules import network_of
from quillpost.database import Tx

NOTE = sa.text(
    """
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :now
      from memberships m
     where m.person_id = :whose
    """
).bindparams(sa.bindparam("about", type_=JSONB()))
NOTE_SELDOM = sa.text(
    """
    with counted as materialized (select used from count_call(:key, 60))
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :now
      from memberships m, counted
     where m.person_id = :whose and counted.used = 1
    """
).bindparams(sa.bindparam("about", type_=JSONB()))


def note_own(
    tx: Tx,
    act: str,
    actor: Actor,
    *,
    whose: int | None = None,
    about: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """One line in each account of the actor's, or of the person for whom somebody else does it. Takes the
    worker's transaction."""
    line = _line(act, actor, about, now)
    tx.execute(NOTE, line if whose is None else line | {"whose": whose})


def note_seldom(
    tx: Tx, act: str, actor: Actor, key: str, *, about: Mapping[str, Any] | None = None, now: datetime
) -> None:
    """The same at most once a minute for a key, so that nobody fills the log from outside. Of somebody who
    does not exist it notes nothing, with as much work."""
    tx.execute(NOTE_SELDOM, _line(act, actor, about, now) | {"key": key})


def _line(act: str, actor: Actor, about: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    if act not in ACTS:
        raise ValueError(f"{act} is no act of the audit log.")
    return {
        "act": act,
        "actor": actor.name[:LONGEST_ACTOR],
        "person_id": actor.person_id,
        "whose": actor.person_id,
        "about": dict(about or {}),
        "network": None if actor.address is None else network_of(actor.address),
        "now": now,
    }
