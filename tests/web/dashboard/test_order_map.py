"""Where pieces are, on a map: the projection, and whose place is which."""

import pytest

from quillpost.web.dashboard.orders.maps import (
    LOST_STATUS,
    MAP_HEIGHT,
    MAP_WIDTH,
    MapGroup,
    build_order_map,
    project_to_map,
)

AUSTIN, CHICAGO = "78701", "60601"


@pytest.mark.parametrize(
    ("latitude", "longitude", "x", "y"),
    [
        (40.7128, -74.0060, 869.8, 215.7),
        (37.7749, -122.4194, 34.8, 261.4),
        (30.2672, -97.7431, 464.0, 497.5),
        (61.2181, -149.9003, 112.3, 544.2),
        (21.3069, -157.8583, 267.0, 549.2),
        (38.7, -96.6, MAP_WIDTH / 2, MAP_HEIGHT / 2),
    ],
)
def test_known_cities_lie_where_the_map_has_them(latitude: float, longitude: float, x: float, y: float) -> None:
    found = project_to_map(latitude, longitude)
    assert found == pytest.approx((x, y), abs=0.3)


@pytest.mark.parametrize("where", [(18.47, -66.11), (13.44, 144.79), (48.85, 2.35), (51.05, -114.07)])
def test_what_is_not_in_the_states_is_not_on_the_map(where: tuple[float, float]) -> None:
    assert project_to_map(*where) is None


def test_a_piece_is_where_the_mail_last_saw_it_and_once_delivered_at_its_address() -> None:
    found = build_order_map(
        [
            ("Delivered", "US", AUSTIN, None, 3),
            ("In Transit", "US", AUSTIN, "Chicago P&DC, Chicago, IL 60601", 2),
            ("In Local Area", "US", AUSTIN, None, 1),
            ("In Transit", "US", AUSTIN, None, 4),
            ("Returned to Sender", "US", AUSTIN, "ZIP 60601", 1),
            ("Delivered", "CA", "K1A", None, 5),
            ("Delivered", "US", "00901", None, 6),
            ("Processing", "US", AUSTIN, None, 7),
            ("Printed", "US", None, None, 8),
            ("Failed", "US", AUSTIN, None, 9),
            (LOST_STATUS, "US", AUSTIN, None, 10),
        ]
    )
    assert found.sampled_count == 56
    counts = {town.name: town.counts for town in found.towns}
    assert counts["Austin, TX"] == {MapGroup.DELIVERED: 3, MapGroup.IN_TRANSIT: 1}
    assert counts["Chicago, IL"] == {MapGroup.IN_TRANSIT: 2, MapGroup.RETURNED: 1}
    assert sorted(circle.label for circle in found.circles) == [
        "Austin, TX: 1 on the way",
        "Austin, TX: 3 delivered",
        "Chicago, IL: 1 came back",
        "Chicago, IL: 2 on the way",
    ]
    assert found.off_map_counts == {
        "somewhere that the mail has not told": 4,
        "outside this map": 11,
        "not mailed yet": 7,
        "printed, and not scanned by the mail yet": 8,
        "not mailed": 9,
        "lost in the mail": 10,
    }


def test_towns_that_are_near_each_other_are_one_circle() -> None:
    found = build_order_map([("Delivered", "US", zip5, None, 1) for zip5 in ("10001", "10002", "07030", AUSTIN)])
    assert len(found.circles) == 2
    assert any("and around: 3 delivered" in circle.label for circle in found.circles)
