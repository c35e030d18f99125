"""The carrier of testing mode: the same seed, the same fate; and losses where they are asked for."""

from typing import Any

import pytest

from quillpost.integrations.carriers.sandbox import (
    DELIVERED,
    MAX_PACE,
    REPORTS_PER_JOURNEY,
    USUAL_JOURNEY,
    MailSimulation,
    SimulatedScan,
)

NAMES = ("Test Returned", "Test Rerouted", "Test Lost")


def piece(number: int = 1, name: str = "Jane Doe") -> dict[str, Any]:
    return {"item_id": number, "tracking": f"{number:020d}", "name": name}


def fates(chances: MailSimulation, pieces: int = 2_000) -> list[list[SimulatedScan]]:
    return [list(chances.simulate_scans(piece(number))) for number in range(pieces)]


def test_without_losses_every_piece_is_seen_on_its_whole_way() -> None:
    for sightings in fates(MailSimulation()):
        assert [sighting.journey_leg for sighting in sightings] == list(USUAL_JOURNEY)
        shares = [sighting.share for sighting in sightings]
        assert shares == sorted(shares)
        assert shares[-1] <= MAX_PACE
        assert all(sighting.share <= MAX_PACE * sighting.slot / REPORTS_PER_JOURNEY for sighting in sightings)
    assert not any(MailSimulation().is_spoiled(piece(number)) for number in range(2_000))


def test_pieces_take_different_times() -> None:
    arrivals = {sightings[-1].share for sightings in fates(MailSimulation(), 100)}
    assert len(arrivals) > 90


def test_the_same_seed_gives_the_same_fate_and_another_another() -> None:
    assert fates(MailSimulation(1, 0.3)) == fates(MailSimulation(1, 0.3))
    assert fates(MailSimulation(1, 0.3)) != fates(MailSimulation(2, 0.3))


def test_losses_are_of_every_kind_and_at_the_configured_rate() -> None:
    chances = MailSimulation(1, 0.2)
    found = fates(chances)
    legs = [{sighting.journey_leg for sighting in sightings} for sightings in found]
    missed = sum(DELIVERED not in seen for seen in legs) / len(legs)
    assert 0.15 < missed < 0.30
    words = {sighting.journey_leg.description for sightings in found for sighting in sightings}
    assert words == {"", "Forwarded", "Return to sender", "Destroyed as dead mail"}
    assert any(len(sightings) != len({(s.journey_leg, s.share) for s in sightings}) for sightings in found)
    assert any([s.slot for s in sightings] != sorted(s.slot for s in sightings) for sightings in found)
    assert 0 < sum(chances.is_spoiled(piece(number)) for number in range(2_000)) < 40


def test_everything_can_be_lost() -> None:
    assert not any(fates(MailSimulation(1, 1.0), 200))


@pytest.mark.parametrize("name", NAMES)
def test_a_reserved_name_fares_as_it_says_whatever_else_gets_lost(name: str) -> None:
    calm, wild = (
        [s.journey_leg for s in MailSimulation(1, losses).simulate_scans(piece(name=name))] for losses in (0.0, 1.0)
    )
    assert calm == wild != []
