"""What may follow what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, STATUS_COUNT_COLUMNS
from quillpost.orders.models import OrderRequest
from quillpost.orders.products import DISPLAY_TYPES, POSTCARD
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus

S = ItemStatus
WAY = (S.PROCESSING, S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED)
MAILED = (S.PRINTED, S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY)


def test_every_status_says_what_may_follow_it() -> None:
    assert set(NEXT_STATUSES) == set(ItemStatus)


def test_the_ends_are_delivered_returned_and_failed() -> None:
    assert set(FINAL_STATUSES) == {S.DELIVERED, S.RETURNED_TO_SENDER, S.FAILED}


@given(scans=st.lists(st.sampled_from(ItemStatus)))
def test_on_the_usual_way_a_piece_never_goes_backwards(scans: list[ItemStatus]) -> None:
    standing, furthest = S.PROCESSING, 0
    for scan in scans:
        if scan not in NEXT_STATUSES[standing]:
            continue
        # A piece that is sent on starts again from wherever it turns up.
        furthest = 0 if standing is S.RE_ROUTED else furthest
        standing = scan
        if standing in WAY:
            assert WAY.index(standing) > furthest
            furthest = WAY.index(standing)


@pytest.mark.parametrize("status", ItemStatus)
def test_a_repeated_scan_never_follows(status: ItemStatus) -> None:
    assert status not in NEXT_STATUSES[status]


def test_nothing_is_mailed_that_was_not_printed() -> None:
    assert NEXT_STATUSES[S.PROCESSING] == {S.PRINTED, S.FAILED}
    assert all(S.PROCESSING not in following for following in NEXT_STATUSES.values())


@pytest.mark.parametrize("status", MAILED)
def test_from_the_mail_a_piece_may_skip_ahead_be_sent_on_returned_or_lost(status: ItemStatus) -> None:
    ahead = set(WAY[WAY.index(status) + 1 :])
    assert NEXT_STATUSES[status] == ahead | {S.RE_ROUTED, S.RETURNED_TO_SENDER, S.FAILED}


def test_a_piece_that_was_sent_on_travels_again() -> None:
    again = {S.IN_TRANSIT, S.IN_LOCAL_AREA, S.PROCESSED_FOR_DELIVERY, S.DELIVERED}
    assert NEXT_STATUSES[S.RE_ROUTED] == again | {S.RETURNED_TO_SENDER, S.FAILED}


def test_an_order_counts_its_items_by_every_status() -> None:
    assert tuple(f"n_{status.count_name}" for status in ItemStatus) == STATUS_COUNT_COLUMNS


@pytest.mark.parametrize("status", OrderStatus)
def test_only_an_order_that_waits_can_be_cancelled(status: OrderStatus) -> None:
    assert status.is_held_back == (status in (OrderStatus.REVIEWING, OrderStatus.PAUSED))
    assert status.is_held_back == (status in CHANGEABLE_ORDER_STATUSES)


@pytest.mark.parametrize(
    ("size", "kind", "shown"),
    [
        ("4x6", "postcard", "Postcard-4x6"),
        ("6x9", "postcard", "Postcard-6x9"),
        ("6x11", "postcard6x11", "Postcard-6x11"),
    ],
)
def test_large_postcards_are_a_type_of_their_own(size: str, kind: str, shown: str) -> None:
    assert OrderRequest(product=POSTCARD, size=size).type == kind
    assert DISPLAY_TYPES[kind, size] == shown
