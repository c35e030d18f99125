"""The carrier of testing mode: the same seed, the same fate; and losses where they are asked for."""

from typing import Any

import pytest

from quillpost.integrations.carriers.sandbox import (
    AT_THE_DOOR,
    LAST_SIGHTING,
    SLOTS,
    USUAL,
    Chances,
    Sighting,
)

NAMES = ("Test Returned", "Test Rerouted", "Test Lost")


def piece(number: int = 1, name: str = "Jane Doe") -> dict[str, Any]:
    return {"item_id": number, "tracking": f"{number:020d}", "name": name}


def fates(chances: Chances, pieces: int = 2_000) -> list[list[Sighting]]:
    return [list(chances.sightings(piece(number))) for number in range(pieces)]


def test_without_losses_every_piece_is_seen_on_its_whole_way() -> None:
    for sightings in fates(Chances()):
        assert [sighting.leg for sighting in sightings] == list(USUAL)
        shares = [sighting.share for sighting in sightings]
        assert shares == sorted(shares)
        assert shares[-1] <= LAST_SIGHTING
        assert all(sighting.share <= LAST_SIGHTING * sighting.slot / SLOTS for sighting in sightings)
    assert not any(Chances().spoils(piece(number)) for number in range(2_000))


def test_pieces_take_different_times() -> None:
    arrivals = {sightings[-1].share for sightings in fates(Chances(), 100)}
    assert len(arrivals) > 90


def test_the_same_seed_gives_the_same_fate_and_another_another() -> None:
    assert fates(Chances(1, 0.3)) == fates(Chances(1, 0.3))
    assert fates(Chances(1, 0.3)) != fates(Chances(2, 0.3))


def test_losses_are_of_every_kind_and_as_many_as_were_asked_for() -> None:
    chances = Chances(1, 0.2)
    found = fates(chances)
    legs = [{sighting.leg for sighting in sightings} for sightings in found]
    missed = sum(AT_THE_DOOR not in seen for seen in legs) / len(legs)
    assert 0.15 < missed < 0.30
    words = {sighting.leg.words for sightings in found for sighting in sightings}
    assert words == {"", "Forwarded", "Return to sender", "Destroyed as dead mail"}
    assert any(len(sightings) != len({(s.leg, s.share) for s in sightings}) for sightings in found)
    assert any([s.slot for s in sightings] != sorted(s.slot for s in sightings) for sightings in found)
    assert 0 < sum(chances.spoils(piece(number)) for number in range(2_000)) < 40


def test_everything_can_be_lost() -> None:
    assert not any(fates(Chances(1, 1.0), 200))


@pytest.mark.parametrize("name", NAMES)
def test_a_reserved_name_fares_as_it_says_whatever_else_gets_lost(name: str) -> None:
    calm, wild = ([s.leg for s in Chances(1, losses).sightings(piece(name=name))] for losses in (0.0, 1.0))
    assert calm == wild != []
