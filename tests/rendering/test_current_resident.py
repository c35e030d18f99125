"""Mail for a person or, where that person has moved, for whoever lives there now."""

from dataclasses import replace

import pytest

from quillpost.rendering.models import Addressee
from support.designs import JENNY, PIECES, SHORT_MESSAGE, compose_item, copy, design, make_renderer, page_text

RESIDENT = replace(JENNY, company=None, or_current_resident=True)
LONG = "Wilhelmina Alexandrina Featherstonehaugh-Cholmondeley"


def printed_address(piece: str, whom: Addressee) -> str:
    """Everything on the side, or the envelope, that the address is on."""
    drawn = compose_item(design(piece, SHORT_MESSAGE), [copy(addressee=whom)])
    if PIECES[piece].envelope and any(side.address for side in [PIECES[piece].envelope] if side):
        assert drawn.envelopes is not None
        return page_text(drawn.envelopes, 0)
    [place] = [place for place, side in enumerate(PIECES[piece].sides) if side.address]
    return page_text(drawn.sheets, place)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(
    ("whom", "expected"),
    [
        (RESIDENT, "JENNY SKINNER or current resident 8380 Harmon"),
        (replace(RESIDENT, name=None), "Current resident 8380 Harmon"),
        (replace(RESIDENT, name=None, company="Acme Inc"), "Current resident Acme Inc 8380 Harmon"),
        (replace(RESIDENT, name=LONG), f"{LONG} or current resident 8380 Harmon"),
    ],
    ids=["named", "nobody", "company", "long"],
)
def test_every_piece_says_so(piece: str, whom: Addressee, expected: str) -> None:
    found = " ".join(printed_address(piece, whom).split()).upper().replace(" ", "")
    assert expected.upper().replace(" ", "") in found


@pytest.mark.parametrize("piece", PIECES)
def test_a_name_that_does_not_fit_with_it_is_reported_before_anything_is_printed(piece: str) -> None:
    endless = replace(RESIDENT, name=f"{LONG} " * 40)
    assert 0 in make_renderer().find_misfits(design(piece, SHORT_MESSAGE), [endless], qr=False).addresses
