"""The nearest addresses are exactly the nearest, wherever on the globe."""

import numpy as np
import pytest

from quillpost.app.container import Container
from quillpost.recipients.leads.queries import (
    DENSITY_COLUMNS,
    DENSITY_ROWS,
    LeadDensity,
    TagFilters,
    find_nearest,
    read_density,
)
from quillpost.recipients.leads.rules import (
    GRID_COLUMNS,
    GRID_ROWS,
    HALF_EARTH_METERS,
    Floats,
    Integers,
    compute_distances,
    find_cells,
    find_cells_within,
    subtract_runs,
)
from support.lead_points import brute_force, store_points

Points = tuple[Floats, Floats, Integers]
CORNERS = (
    (90.0, 0.0), (-90.0, 17.0), (89.9999, -179.9999), (-89.995, 180.0), (0.0, 180.0), (0.0, -180.0),
    (51.5, 179.9999), (-16.8, -179.995), (0.0, 0.0), (30.27, -97.74), (89.2, 45.0),
)  # fmt: skip


def some_points(seed: int, count: int) -> Points:
    """Towns, fields, both sides of the antimeridian, and polar stations; a few exactly as far as others."""
    chance = np.random.default_rng(seed)
    everywhere = np.degrees(np.arcsin(chance.uniform(-1, 1, count))), chance.uniform(-180, 180, count)
    many = count // 8
    towns = [
        (chance.normal(lat, 0.05, many).clip(-90, 90), (chance.normal(lng, 0.05, many) + 540) % 360 - 180)
        for lat, lng in ((30.27, -97.74), (51.5, 179.99), (-16.8, -179.99), (89.9, 10.0), (-89.9, -100.0))
    ]  # fmt: skip
    latitudes = np.concatenate([everywhere[0], *(town[0] for town in towns), np.full(40, 30.3)])
    longitudes = np.concatenate([everywhere[1], *(town[1] for town in towns), np.full(40, -97.7)])
    return latitudes, longitudes, chance.integers(0, 8, len(latitudes))


@pytest.fixture
def points(container: Container) -> Points:
    made = some_points(1, 4_000)
    store_points(container.db, *made)
    return made


def test_the_nearest_equal_those_found_by_measuring_to_everyone(container: Container, points: Points) -> None:
    chance = np.random.default_rng(2)
    random_ones = [(float(np.degrees(np.arcsin(u))), float(v)) for u, v in chance.uniform(-1, 1, (22, 2)) * (1, 180)]
    with container.db.anonymous_transaction() as tx:
        density = read_density(tx)
        for place, (lat, lng) in enumerate([*CORNERS, *random_ones]):
            count = (1, 30, 500)[place % 3]
            filters = (TagFilters(), TagFilters(any_of=3), TagFilters(all_of=4, none_of=1))[place // 3 % 3]
            found = find_nearest(tx, lat, lng, count, filters=filters, density=density)
            expected = brute_force(lat, lng, count, points, filters)
            assert found.ids.tolist() == expected.ids.tolist(), (lat, lng, count)
            assert found.meters.tolist() == expected.meters.tolist()


def test_a_wrong_guess_of_how_many_there_are_changes_nothing(container: Container, points: Points) -> None:
    guesses = [
        LeadDensity(np.arange(DENSITY_ROWS * DENSITY_COLUMNS), np.full(DENSITY_ROWS * DENSITY_COLUMNS, each))
        for each in (0, 1, 300)
    ]
    with container.db.anonymous_transaction() as tx:
        for lat, lng in ((30.27, -97.74), (51.5, 179.99), (-89.9, -100.0)):
            expected = brute_force(lat, lng, 450, points, TagFilters())
            for density in guesses:
                found = find_nearest(tx, lat, lng, 450, filters=TagFilters(), density=density, max_meters=200_000.0)
                assert found.ids.tolist() == expected.ids.tolist()


def test_a_first_look_is_as_wide_as_those_around_lie_apart() -> None:
    evenly = LeadDensity(
        np.arange(DENSITY_ROWS * DENSITY_COLUMNS), np.full(DENSITY_ROWS * DENSITY_COLUMNS, 100)
    )  # one in about 1.1 square kilometres
    assert evenly.estimate_radius(0.05, 0.05, 100) == pytest.approx(6_270, rel=0.02)
    assert evenly.estimate_radius(0.0, 180.0, 10_000) == pytest.approx(62_700, rel=0.02)
    assert evenly.estimate_radius(60.05, -179.99, 10_000) == pytest.approx(62_700 / 2**0.5, rel=0.05)
    assert 0 < evenly.estimate_radius(90.0, 0.0, 100) < evenly.estimate_radius(0.0, 0.0, 100)
    one_town = LeadDensity(np.array([DENSITY_COLUMNS // 2 + DENSITY_ROWS // 2 * DENSITY_COLUMNS]), np.array([1_000]))
    assert one_town.estimate_radius(0.05, 3.05, 500) == pytest.approx(335_000, rel=0.3)
    assert one_town.estimate_radius(0.05, 3.05, 2_000) == HALF_EARTH_METERS


def test_a_second_look_reads_just_the_cells_that_the_first_has_not() -> None:
    for lat, lng in CORNERS:
        for near, far in ((500.0, 900.0), (20_000.0, 40_000.0), (90_000.0, 1_200_000.0), (9e6, HALF_EARTH_METERS)):
            small, large = find_cells_within(lat, lng, near), find_cells_within(lat, lng, far)
            ring = subtract_runs(large, small)
            first, last = (np.concatenate(both) for both in zip(small, ring, strict=True))
            order = np.argsort(first)
            assert (first[order][1:] > last[order][:-1]).all()
            assert (last - first + 1).sum() == (large[1] - large[0] + 1).sum()
            assert np.isin(first[order][0], large[0])


def test_nobody_is_found_farther_away_than_is_looked(container: Container, points: Points) -> None:
    near = brute_force(30.27, -97.74, 10**6, points, TagFilters())
    with container.db.anonymous_transaction() as tx:
        found = find_nearest(
            tx, 30.27, -97.74, 5_000, filters=TagFilters(), density=read_density(tx), max_meters=8_000.0
        )
    assert found.ids.tolist() == near.ids[near.meters <= 8_000].tolist()


@pytest.mark.parametrize("metres", [10.0, 1_500.0, 90_000.0, 4_000_000.0, 12_000_000.0])
def test_whoever_is_in_the_circle_is_in_its_cells_and_no_cell_is_read_twice(metres: float) -> None:
    latitudes, longitudes, _ = some_points(3, 3_000)
    cells = find_cells(latitudes, longitudes)
    for lat, lng in CORNERS:
        first, last = find_cells_within(lat, lng, metres)
        order = np.argsort(first)
        first, last = first[order], last[order]
        assert (first <= last).all()
        assert (first[1:] > last[:-1]).all()
        assert 0 <= first[0] <= last[-1] < GRID_ROWS * GRID_COLUMNS
        run = np.searchsorted(first, cells, side="right") - 1
        is_read = (run >= 0) & (cells <= last[run])
        inside = compute_distances(lat, lng, latitudes, longitudes) <= metres
        assert is_read[inside].all()
    # Small circles read little: a run of a few cells, not a row around the globe.
    if metres == 1_500.0:
        first, last = find_cells_within(30.27, -97.74, metres)
        assert (last - first + 1).sum() <= 20
