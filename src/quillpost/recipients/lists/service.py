"""Create, change, merge and remove mailing lists."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.core import tokens
from quillpost.core.database import Tx
from quillpost.core.database.engine import account_wide_access
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, recipients
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.database.tables.recipients import imports
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, Message, NotFound, Refused
from quillpost.core.text import Clock
from quillpost.recipients.lists.queries import (
    UNKNOWN_LIST,
    delete_list,
    insert_list,
    lock_lists,
    read_list,
    update_list,
)
from quillpost.recipients.models import BY_ADDRESS, BY_EMAIL, MailingList

_FIXED_DURING_IMPORT = ("sub_account_id", "is_suppression_list", "suppress_by")

_SELECT_WAITING_ORDER = sa.text(
    """select id from orders
        where status = any(:held_back) and mailing_list_ids @> array[cast(:list as bigint)]
        order by id limit 1"""
)

_COUNT_INEFFECTIVE_ENTRIES = sa.text(
    """select count(*) from recipients
        where mailing_list_id = :list and email is null and (:by = 'email' or bars_email(address_key))"""
)
_COUNT_SHARED_ADDRESSES = sa.text(
    """
    select count(*) from (
        select from recipients where mailing_list_id = :list and address_key is not null
         group by address_key, told_apart(:by, surname, email) having count(*) > 1) several
    """
)
_UPDATE_DISTINGUISHING_KEYS = sa.text(
    """
    update recipients set told_apart = told_apart(:by, surname, email)
     where mailing_list_id = :list and told_apart <> told_apart(:by, surname, email)
    """
)
_MOVE_ORDERS_IN_PROGRESS = sa.text(
    """update orders set mailing_list_ids = array_replace(mailing_list_ids, :source, :target)
        where status in ('processing', 'printing', 'mailed')
          and mailing_list_ids @> array[cast(:source as bigint)]"""
)

_ADD_COUNTS = sa.text(
    """
    update mailing_lists l
       set total_sends = l.total_sends + s.total_sends, last_send = greatest(l.last_send, s.last_send),
           total_scans = l.total_scans + s.total_scans, unique_scans = l.unique_scans + s.unique_scans,
           last_scan = greatest(l.last_scan, s.last_scan)
      from mailing_lists s where l.id = :target and s.id = :source
    """
)
_RECORD_MERGE = sa.text("select note_merged_list(:source, :target)")

_NOT_A_SUPPRESSION_LIST = Message(
    "not_suppression_list", "Only a suppression list bars anyone: set is_suppression_list, or leave this out."
)
_OPT_OUT_LIST_FIXED = "Recipients asked on this list for no more mail, and the service keeps it as it is."

_UPDATE_KEYS = sa.text(
    """
    update mailing_lists l set key_digest = new.digest, key_sealed = new.sealed
      from unnest(cast(:ids as bigint[]), cast(:digests as bytea[]), cast(:sealed as bytea[]))
           as new (id, digest, sealed)
     where l.id = new.id
    """
)

_MOVE_WAITING_AUTOMATIONS = sa.text("select keep_waiting_there(:source, :target)")

# To the automations of the other list they are no newcomers.
_SET_MERGING = sa.text("select set_config('app.merging', :is_it, true)")

# Those who are on the other list already: by address, or by e-mail where neither has one.
_DELETE_SHARED_ADDRESSES = sa.text(
    """
    delete from recipients r using recipients there
     where r.mailing_list_id = :source and there.mailing_list_id = :target
       and there.address_key = r.address_key and there.told_apart = r.told_apart
    """
)
_DELETE_SHARED_EMAILS = sa.text(
    """
    delete from recipients r
     where r.mailing_list_id = :source and r.address_key is null
       and lower(r.email) in (select lower(email) from recipients
                               where mailing_list_id = :target and address_key is null)
    """
)

_DELETE_YOUNGER_EMAILS = sa.text(
    """
    delete from recipients r using
           (select id, row_number() over (partition by lower(email) order by id) as place
              from recipients
             where mailing_list_id = :list and (address_key is null or :by = 'email')) ranked
     where r.id = ranked.id and ranked.place > 1
    """
)
_DELETE_EMAILS_WITH_ADDRESS = sa.text(
    """
    delete from recipients r
     where r.mailing_list_id = :list and r.address_key is null
       and (lower(r.email), lower(coalesce(r.name, ''))) in
           (select lower(email), lower(coalesce(name, '')) from recipients
             where mailing_list_id = :list and address_key is not null and email is not null)
    """
)


def create_list(
    tx: Tx, caller: Caller, encryptor: Encryptor, values: Mapping[str, Any], *, now: datetime
) -> MailingList:
    if "suppress_by" in values and not values["is_suppression_list"]:
        raise Invalid({"suppress_by": [_NOT_A_SUPPRESSION_LIST]})
    list_id = insert_list(
        tx,
        {
            **values,
            "account_id": caller.account_id,
            "sub_account_id": _resolve_sub_account(tx, caller, values.get("sub_account_id")),
            "processed": True,
            **dict.fromkeys(("total_recipients", "total_sends", "total_scans", "unique_scans"), 0),
            "created_at": now,
            "updated_at": now,
        },
    )
    update_list(tx, list_id, _create_key(encryptor, list_id))
    return read_list(tx, list_id)


def change_list(tx: Tx, caller: Caller, list_id: int, changes: Mapping[str, Any], *, now: datetime) -> MailingList:
    """Its recipients follow it into another sub account. Subscriptions to its events stay with their sub account."""
    mailing_list = _lock_list(tx, list_id, block_sends=True)
    values = dict(changes)
    if any(name in values and values[name] != getattr(mailing_list, name) for name in _FIXED_DURING_IMPORT):
        _require_processed(mailing_list)
    if mailing_list.kept_for is not None:
        _require_unchanged(mailing_list, values)
    if values.get("is_suppression_list") and not mailing_list.is_suppression_list:
        _require_unused(tx, list_id)
        _require_effective_entries(tx, list_id, values.get("suppress_by", BY_ADDRESS), "is_suppression_list")
    values |= _change_suppress_by(tx, mailing_list, values)
    if "sub_account_id" in values:
        values["sub_account_id"] = _resolve_sub_account(tx, caller, values["sub_account_id"])
        if values["sub_account_id"] != mailing_list.sub_account_id:
            _require_unused(tx, list_id)
            for table in (recipients, imports):
                tx.execute(
                    sa.update(table)
                    .where(table.c.mailing_list_id == list_id)
                    .values(sub_account_id=values["sub_account_id"])
                )
    update_list(tx, list_id, values | {"updated_at": now})
    return read_list(tx, list_id)


def rotate_key(tx: Tx, encryptor: Encryptor, list_id: int, *, now: datetime) -> MailingList:
    _lock_list(tx, list_id)
    update_list(tx, list_id, _create_key(encryptor, list_id) | {"updated_at": now})
    return read_list(tx, list_id)


def assign_keys(tx: Tx, encryptor: Encryptor, list_ids: Sequence[int]) -> None:
    """Keys for lists that the service made."""
    if not list_ids:
        return
    keys = [_create_key(encryptor, list_id) for list_id in list_ids]
    columns = {"digests": "key_digest", "sealed": "key_sealed"}
    new_keys = {name: [key[column] for key in keys] for name, column in columns.items()}
    tx.execute(_UPDATE_KEYS, {"ids": list_ids, **new_keys})


def decrypt_list_key(encryptor: Encryptor, mailing_list: MailingList) -> str:
    """Empty if the list has no key."""
    if mailing_list.key_sealed is None:
        return ""
    return encryptor.decrypt(mailing_list.key_sealed, context=get_key_context(mailing_list.id)).decode()


def remove_list(tx: Tx, list_id: int) -> None:
    """Delete it with everyone on it, unless an order that waits uses it."""
    mailing_list = _lock_list(tx, list_id, block_sends=True)
    if mailing_list.is_opt_out_list and mailing_list.total_recipients:
        raise Refused(f"{_OPT_OUT_LIST_FIXED} Remove an entry where it is a mistake.")
    _require_processed(mailing_list)
    _require_unused(tx, list_id)
    delete_list(tx, list_id)


def merge_lists(tx: Tx, source_id: int, target_id: int, *, clock: Clock) -> MailingList:
    """Move everyone of the source to the target, without duplicates, and delete the source."""
    if source_id == target_id:
        raise Invalid({"into": ["A list cannot be merged into itself."]})
    lists = lock_lists(tx, (source_id, target_id), block_sends=True)
    if source_id not in lists:
        raise NotFound
    if target_id not in lists:
        raise Refused(UNKNOWN_LIST)
    source, target, now = lists[source_id], lists[target_id], clock()
    _require_processed(source)
    _require_processed(target)
    if target.is_suppression_list != source.is_suppression_list:
        raise Invalid({"into": ["A suppression list is merged with suppression lists alone."]})
    if target.suppress_by != source.suppress_by:
        start = f"It bars by {target.suppress_by}, the other by {source.suppress_by}:"
        raise Invalid({"into": [Message("suppress_by_differs", f"{start} set one suppress_by first.", start=start)]})
    if source.is_opt_out_list or target.is_opt_out_list:
        raise Invalid({"into": [f"{_OPT_OUT_LIST_FIXED} It is merged with no other."]})
    _require_no_waiting_order(tx, source_id)
    _move_automations(tx, source, target, now=now)
    tx.execute(_MOVE_WAITING_AUTOMATIONS, {"source": source_id, "target": target_id})
    for delete_query in (_DELETE_SHARED_ADDRESSES, _DELETE_SHARED_EMAILS):
        tx.execute(delete_query, {"source": source_id, "target": target_id})
    tx.execute(_SET_MERGING, {"is_it": "yes"})
    tx.execute(
        sa.update(recipients)
        .where(recipients.c.mailing_list_id == source_id)
        .values(mailing_list_id=target_id, sub_account_id=target.sub_account_id, updated_at=now)
    )
    tx.execute(_SET_MERGING, {"is_it": ""})
    _move_webhooks(tx, source_id, target_id, now=now)
    for count_query in (_ADD_COUNTS, _RECORD_MERGE):  # sends and scans of the source, also later ones
        tx.execute(count_query, {"source": source_id, "target": target_id})
    delete_list(tx, source_id)
    update_list(tx, target_id, {"updated_at": now})
    return read_list(tx, target_id)


def remove_duplicates(tx: Tx, list_id: int) -> int:
    """How many were removed: recipients without an address whose e-mail is on the list. The oldest stays, unless the
    list has an address with that e-mail and name. On a suppression list it stays even so, because an e-mail stops what
    an address does not. Where a list suppresses by e-mail, addresses tell no one apart."""
    mailing_list = _lock_list(tx, list_id)
    removed_count = tx.execute(_DELETE_YOUNGER_EMAILS, {"list": list_id, "by": mailing_list.suppress_by}).rowcount
    if not mailing_list.is_suppression_list:
        removed_count += tx.execute(_DELETE_EMAILS_WITH_ADDRESS, {"list": list_id}).rowcount
    return removed_count


def _lock_list(tx: Tx, list_id: int, *, block_sends: bool = False) -> MailingList:
    mailing_list = lock_lists(tx, [list_id], block_sends=block_sends).get(list_id)
    if mailing_list is None:
        raise NotFound
    return mailing_list


def _resolve_sub_account(tx: Tx, caller: Caller, sub_account_id: int | None) -> int | None:
    resolved_id = sub_account_id if sub_account_id is not None else caller.sub_account_id
    if resolved_id is not None:
        require_sub_account(tx, resolved_id)
    return resolved_id


def _move_automations(tx: Tx, source: MailingList, target: MailingList, *, now: datetime) -> None:
    """An enabled one must be able to use the target."""
    if target.sub_account_id is not None:
        refuse_if_used_by_automation(
            tx,
            automations.c.mailing_list_id == source.id,
            automations.c.sub_account_id.is_distinct_from(target.sub_account_id),
            kind="list, and cannot use the other",
        )
    with account_wide_access(tx):
        tx.execute(
            sa.update(automations)
            .where(automations.c.mailing_list_id == source.id)
            .values(mailing_list_id=target.id, updated_at=now)
        )


def _move_webhooks(tx: Tx, source_id: int, target_id: int, *, now: datetime) -> None:
    """Subscriptions to the source follow to the target, and hear of mail under way to the source."""
    with account_wide_access(tx):
        tx.execute(
            sa.update(webhooks)
            .where(webhooks.c.mailing_list_id == source_id)
            .values(mailing_list_id=target_id, updated_at=now)
        )
        tx.execute(_MOVE_ORDERS_IN_PROGRESS, {"source": source_id, "target": target_id})


def _require_processed(mailing_list: MailingList) -> None:
    if not mailing_list.processed:
        raise Refused(
            f"List {mailing_list.id} is being filled: wait until its processed is true, or cancel the import."
        )


def _require_unused(tx: Tx, list_id: int) -> None:
    _require_no_waiting_order(tx, list_id)
    refuse_if_used_by_automation(tx, automations.c.mailing_list_id == list_id, kind="list")


def _require_no_waiting_order(tx: Tx, list_id: int) -> None:
    """Orders of the other mode are invisible to the caller, but both modes share the lists."""
    with account_wide_access(tx):
        order_id = tx.execute(
            _SELECT_WAITING_ORDER, {"list": list_id, "held_back": list(CHANGEABLE_ORDER_STATUSES)}
        ).scalar()
    if order_id is not None:
        raise Refused(f"Order {order_id} waits to be sent to this list: cancel it first, or let it go.")


def _require_unchanged(mailing_list: MailingList, values: Mapping[str, Any]) -> None:
    """A list that the service keeps stays what it is: scans go on filling it."""
    fixed_fields = ("type", "sub_account_id", "is_suppression_list", "suppress_by")
    changed_fields = [name for name in fixed_fields if name in values and values[name] != getattr(mailing_list, name)]
    if changed_fields:
        message = "The service keeps this list of scanned codes: merge it into one of your own to change this."
        raise Invalid(
            {name: [_OPT_OUT_LIST_FIXED if mailing_list.is_opt_out_list else message] for name in changed_fields}
        )


def _change_suppress_by(tx: Tx, mailing_list: MailingList, values: Mapping[str, Any]) -> dict[str, Any]:
    """The new `suppress_by`, if any, with the entries' distinguishing keys updated."""
    field = "suppress_by" if "suppress_by" in values else "is_suppression_list"
    if values.get("is_suppression_list", mailing_list.is_suppression_list):
        suppress_by = values.get("suppress_by", mailing_list.suppress_by)
    elif "suppress_by" in values:
        raise Invalid({"suppress_by": [_NOT_A_SUPPRESSION_LIST]})
    else:
        suppress_by = BY_ADDRESS
    if suppress_by == mailing_list.suppress_by:
        return {}
    if mailing_list.is_suppression_list and field == "suppress_by":
        _require_effective_entries(tx, mailing_list.id, suppress_by, field)
    shared_count = tx.execute(_COUNT_SHARED_ADDRESSES, {"list": mailing_list.id, "by": suppress_by}).scalar_one()
    if shared_count:
        message = (
            f"{shared_count:,} addresses have several entries on this list, and could have one: remove some first."
        )
        raise Invalid({field: [message]})
    tx.execute(_UPDATE_DISTINGUISHING_KEYS, {"list": mailing_list.id, "by": suppress_by})
    return {"suppress_by": suppress_by}


def _require_effective_entries(tx: Tx, list_id: int, suppress_by: str, field: str) -> None:
    """An entry without a full address and an e-mail would suppress no one."""
    ineffective_count = tx.execute(_COUNT_INEFFECTIVE_ENTRIES, {"list": list_id, "by": suppress_by}).scalar_one()
    if ineffective_count:
        missing_text = "no e-mail" if suppress_by == BY_EMAIL else "half an address and no e-mail"
        raise Invalid(
            {field: [f"{ineffective_count:,} on this list have {missing_text}, and would bar nobody: complete them."]}
        )


def _create_key(encryptor: Encryptor, list_id: int) -> dict[str, bytes]:
    key = f"ql_{secrets.token_urlsafe(32)}"
    return {
        "key_digest": tokens.hash_token(key),
        "key_sealed": encryptor.encrypt(key.encode(), context=get_key_context(list_id)),
    }


def get_key_context(list_id: int) -> str:
    return f"mailing_lists:{list_id}:key"
