"""Mailing lists and recipients in the words of the interface."""

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from quillpost.audience.list_keeping import key_of
from quillpost.audience.lists import MailingList
from quillpost.audience.recipients import Recipient
from quillpost.audience.rules import Person, written
from quillpost.kit.times import ago, iso
from quillpost.parts import Parts
from quillpost.postal.judging import UNDELIVERABLE

Shape = dict[str, Any]


def list_shape(parts: Parts, mailing_list: MailingList) -> Shape:
    return {
        "id": mailing_list.id,
        "user_id": mailing_list.account_id,
        "sub_account_id": mailing_list.sub_account_id,
        "type": mailing_list.type,
        "description": mailing_list.description,
        "qrcode_url": mailing_list.qrcode_url,
        "total_recipients": mailing_list.total_recipients,
        "processed": mailing_list.processed,
        "is_suppression_list": mailing_list.is_suppression_list,
        "suppress_by": mailing_list.suppress_by if mailing_list.is_suppression_list else None,
        "total_scans": mailing_list.total_scans,
        "unique_scans": mailing_list.unique_scans,
        "total_sends": mailing_list.total_sends,
        "last_scan": iso(mailing_list.last_scan),
        "last_send": iso(mailing_list.last_send),
        "api_key": key_of(parts.sealer, mailing_list),
        "created_at": iso(mailing_list.created_at),
        "created_at_diff": ago(mailing_list.created_at, now=parts.clock()),
        "updated_at": iso(mailing_list.updated_at),
    }


def new_list_shape(parts: Parts, mailing_list: MailingList) -> Shape:
    """As it is made, a list's `created_at` is told in words."""
    shape = list_shape(parts, mailing_list)
    return shape | {"created_at": shape["created_at_diff"]}


def deliverability_of(person: Person) -> Shape:
    """Whether mail arrives there. A row that nobody has judged yet counts as deliverable if it is whole."""
    reaches = person.can_be_mailed and person.deliverability != UNDELIVERABLE
    return {
        "deliverability": person.deliverability if reaches else UNDELIVERABLE,
        "can_deliver": reaches,
        "deliverability_reasons": list(person.reasons),
    }


def recipient_shapes(parts: Parts, lists: Iterable[MailingList]) -> Callable[[Recipient], Shape]:
    """How people on these lists are shown, each with its list under both of its names."""
    # A page may show one list thousands of times: it is written once.
    written_lists = {each.id: orjson.Fragment(orjson.dumps(list_shape(parts, each))) for each in lists}

    def shape(recipient: Recipient) -> Shape:
        mailing_list = written_lists[recipient.mailing_list_id]
        return {
            "id": recipient.id,
            "mailing_list_id": recipient.mailing_list_id,
            **written(recipient.person),
            **deliverability_of(recipient.person),
            "mailing-list": mailing_list,
            "mailing_list": mailing_list,
            "created_at": iso(recipient.created_at),
            "updated_at": iso(recipient.updated_at),
        }

    return shape
