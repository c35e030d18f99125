"""Ink that is hard to read on the picture under it: warned of, and held where it is nearly invisible."""

import re

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.orders.drafts.rules import DARK_INK_ADVICE, LIGHT_INK_ADVICE
from support.factories import Account, Clock, person, read_warnings, run_jobs_for
from support.images import ImageServer, saved
from support.rows import execute
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("clean_database", "loopback_urls")

HARD_TO_READ = "The handwriting_color is hard to read"


def test_only_the_picture_under_the_words_of_each_recipient_counts(owner: Account, art: ImageServer) -> None:
    under = owner.send("letter", front_image_url=art.picture("navy"))
    assert any(each.startswith(f"{HARD_TO_READ} on front_image_url") for each in read_warnings(under))
    beside = owner.send("postcard", front_image_url=art.picture("navy"))
    assert not any(HARD_TO_READ in each for each in read_warnings(beside))
    people = [person(custom1="white"), person(address="13 Main St", custom1="black")]
    messages = read_warnings(owner.send(recipients=people, custom_background_image=art.picture("~CUSTOM1~")))
    assert [each.partition(":")[0] for each in messages if HARD_TO_READ in each] == [
        f"{HARD_TO_READ} on custom_background_image (for recipient 1)"
    ]


def banded(color: str, *, share: float) -> bytes:
    """White letter paper with a band across, over that share of the height of the message's box."""
    image = Image.new("RGB", (875, 1125), "white")
    image.paste(color, (0, 600, 875, 600 + round(650 * share)))
    return saved(image, "PNG")


@pytest.mark.parametrize(
    ("color", "band", "share", "says"),
    [
        ("blue", "black", 0.05, None),
        ("blue", "black", 0.15, DARK_INK_ADVICE),
        ("blue", "#f0f0f0", 1.0, None),
        ("#ffd000", "white", 0.15, LIGHT_INK_ADVICE),
    ],
)
def test_ink_over_art_is_warned_of_where_some_of_it_is_lost_and_says_what_helps(
    owner: Account, container: Container, color: str, band: str, share: float, says: str | None
) -> None:
    template = upload(owner, image=banded(band, share=share), type="letter").json()["id"]
    sent = owner.send("letter", image_template=template, handwriting_color=color)
    found = [warning for warning in read_warnings(sent) if HARD_TO_READ in warning]
    if says is None:
        assert found == []
        return
    [warning] = found
    assert f": {says} Its contrast is below 3 to 1 on " in warning
    [percent] = re.findall(r"on (\d+)% of the message area", warning)
    expected = 100 if band == "white" else 100 * share
    assert int(percent) == pytest.approx(expected, abs=2)
    [row] = execute(container, sa.select(orders.c.lowest_contrast))
    assert (row.lowest_contrast is None) is (band == "black"), "most of it is read well: nobody has to look at it"


def test_ink_that_is_nearly_invisible_holds_its_order(
    owner: Account, operator: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    cases: list[tuple[str, str | None, str, bool]] = [
        ("#fdfdfd", None, "Hi!", True),
        ("rgba(0,0,0,0.2)", None, "Hi!", True),
        ("#e08030", None, "Hi!", False),  # warned of, and yet to be seen
        ("blue", None, "Hi!", False),
        ("blue", "black", "Hi!", True),
        ("#ffffff", "black", "Hi!", False),
        ("#fdfdfd", "white", "Hi!", True),
        ("blue", "black", "", False),  # there is no ink to read
    ]
    sent = [
        owner.send(handwriting_color=color, message=message, custom_background_image=url and art.picture(url))
        for color, url, message, _ in cases
    ]
    assert not any(HARD_TO_READ in each for each in read_warnings(sent[-1]))
    later = owner.send(message="", custom_background_image=art.picture("black")).json()["id"]
    assert owner.put(f"/orders/{later}", {"message": "Hello!"}).status_code == 200
    run_jobs_for(container, clock, seconds=11)
    for case, order in zip(cases, [each.json()["id"] for each in sent], strict=True):
        is_held, read = case[-1], owner.get(f"/orders/{order}").json()
        assert (read["status"] == "Paused") is is_held, case
        assert not is_held or "nearly invisible: its contrast is 1" in read["warnings"][-1], case
        assert operator.post(f"/orders/{order}/release").status_code == (200 if is_held else 409), case
    assert owner.get(f"/orders/{later}").json()["status"] == "Paused", "words that come later are looked at"


def test_a_pdf_letter_is_written_on_its_envelope(owner: Account, container: Container, art: ImageServer) -> None:
    faint = {"pdf_only_url": art.letter(), "handwriting_color": "#fdfdfd"}
    closed, windowed = (owner.send(piece, **faint).json()["id"] for piece in ("windowless-letter", "letter"))
    rows = execute(container, sa.select(orders.c.id, orders.c.lowest_contrast))
    found = {row.id: row.lowest_contrast for row in rows}
    assert found[closed] == pytest.approx(1.0, abs=0.1)
    assert found[windowed] is None
