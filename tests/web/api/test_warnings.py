"""Warnings travel with previews, estimates and sends: as a header for all, and as `warnings` where we can."""

import json
from io import BytesIO
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.web.api.responses import MAX_HEADER_LENGTH, build_warning_header
from support.factories import Account, Build, Clock, make_operator, person, read_warnings, run_jobs_for
from support.image_server import ImageServer
from support.uploads import upload

HARD_TO_READ = "The handwriting_color is hard to read"

SHRUNK = "The message was shrunk to fit"
LONG = "Thank you for stopping by, it was good to see you all again. " * 9


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def every_answer(owner: Account, piece: str = "postcard", **body: Any) -> list[list[str]]:
    """What the preview, the estimate, the send and the stored send of one body warn of, each by its header;
    and by its body, where the shape is ours."""
    shown = owner.send(piece, **body, preview=True)
    call = {"recipients": [person()], "message": "Hi!", "allow_duplicates": True} | body
    estimate = owner.post(f"/estimate/{piece}", call)
    sent = owner.send(piece, **body)
    stored = owner.post(f"/stored_send/{piece}", call)
    answers = (shown, estimate, sent, stored)
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    read = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    in_bodies = [shown.json()["data"]["warnings"], estimate.json()["data"]["warnings"], read]
    return [*map(read_warnings, answers), *in_bodies]


def test_low_resolution_is_reported_everywhere(owner: Account) -> None:
    file = BytesIO()
    Image.new("RGB", (300, 204), "white").save(file, "PNG")
    template = upload(owner, image=file.getvalue()).json()["id"]
    found = every_answer(owner, image_template=template)
    assert all("prints at 48 dpi" in warnings[0] for warnings in found)
    assert len({str(warnings) for warnings in found}) == 1


def test_characters_missing_in_a_style_are_reported_everywhere(owner: Account) -> None:
    found = every_answer(owner, message="Hi Жук!")
    assert all("has no Ж (cyrillic capital letter zhe)" in warnings[0] for warnings in found)


def test_a_shrunk_message_is_reported_everywhere(owner: Account) -> None:
    found = every_answer(owner, message=LONG)
    assert all(warnings[0].startswith(SHRUNK) for warnings in found), found
    for usual in ({"message": "Hi!"}, {"message": LONG, "size": "6x11"}):
        assert read_warnings(owner.send(**usual)) == []


def test_a_requested_font_size_is_not_shrunk(owner: Account) -> None:
    [style] = [
        each["handwriting_style_id"] for each in owner.get("/handwriting-styles").json()["data"] if each["type"] == "AI"
    ][:1]
    small = owner.send(message="Hi! " * 20, font_size="small", handwriting_style=style)
    assert (small.status_code, read_warnings(small)) == (200, [])


def test_other_words_take_the_warning_back(owner: Account) -> None:
    order = owner.send(message=LONG).json()["id"]
    changed = owner.put(f"/orders/{order}", {"message": "Hi!"}).json()
    assert changed["warnings"] == []
    longer = owner.put(f"/orders/{order}", {"message": LONG}).json()
    assert longer["warnings"][0].startswith(SHRUNK)


@pytest.mark.parametrize("color", ["#fdfdfd", "rgba(0,0,0,0.1)", "#ffee88"])
def test_ink_too_light_for_white_paper_is_reported_everywhere(owner: Account, color: str) -> None:
    found = every_answer(owner, handwriting_color=color)
    assert all(warnings[0].startswith(f"{HARD_TO_READ} on white paper") for warnings in found), found


def test_ink_lost_on_the_art_is_reported_everywhere(owner: Account, art: ImageServer) -> None:
    found = every_answer(owner, custom_background_image=art.picture("black"))
    assert all(warnings[0].startswith(f"{HARD_TO_READ} on custom_background_image") for warnings in found)
    light = every_answer(owner, custom_background_image=art.picture("black"), handwriting_color="#ffffff")
    assert light == [[]] * len(light)


def test_the_picture_under_a_letters_cover_counts(owner: Account, art: ImageServer) -> None:
    under = owner.send("letter", front_image_url=art.picture("navy"))
    assert any(each.startswith(f"{HARD_TO_READ} on front_image_url") for each in read_warnings(under))
    beside = owner.send("postcard", front_image_url=art.picture("navy"))
    assert not any(HARD_TO_READ in each for each in read_warnings(beside))


def test_each_recipients_own_picture_is_looked_at(owner: Account, art: ImageServer) -> None:
    url = art.picture("~CUSTOM1~")
    people = [person(custom1="white"), person(address="13 Main St", custom1="black")]
    messages = read_warnings(owner.send(recipients=people, custom_background_image=url))
    assert [each.partition(":")[0] for each in messages if HARD_TO_READ in each] == [
        f"{HARD_TO_READ} on custom_background_image (for recipient 1)"
    ]


def contrast(container: Container, order_id: int) -> float | None:
    with container.db.system_transaction() as tx:
        query = sa.select(orders.c.lowest_contrast).where(orders.c.id == order_id)
        found: float | None = tx.execute(query).scalar_one()
    return found


@pytest.mark.parametrize(
    ("color", "background", "is_held"),
    [
        ("#fdfdfd", None, True),
        ("rgba(0,0,0,0.2)", None, True),
        ("#e08030", None, False),  # warned of, and yet to be seen
        ("blue", None, False),
        ("blue", "black", True),
        ("#ffffff", "black", False),
        ("#fdfdfd", "white", True),
    ],
)
def test_ink_that_is_nearly_invisible_holds_its_order(
    owner: Account,
    container: Container,
    clock: Clock,
    art: ImageServer,
    color: str,
    background: str | None,
    is_held: bool,
) -> None:
    url = art.picture(background) if background else None
    order = owner.send(handwriting_color=color, custom_background_image=url).json()["id"]
    run_jobs_for(container, clock, seconds=11)
    read = owner.get(f"/orders/{order}").json()
    assert (read["status"] == "Paused") is is_held
    assert not is_held or "nearly invisible: its contrast is 1" in read["warnings"][-1]
    operator = make_operator(container, owner.http)
    assert operator.post(f"/orders/{order}/release").status_code == (200 if is_held else 409)


def test_a_blank_message_has_no_ink_to_read(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    sent = owner.send(message="", custom_background_image=art.picture("black"))
    assert not any(HARD_TO_READ in each for each in read_warnings(sent))
    run_jobs_for(container, clock, seconds=11)
    assert owner.get(f"/orders/{sent.json()['id']}").json()["status"] != "Paused"


def test_words_that_come_later_are_looked_at(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    order = owner.send(message="", custom_background_image=art.picture("black")).json()["id"]
    assert owner.put(f"/orders/{order}", {"message": "Hello!"}).status_code == 200
    run_jobs_for(container, clock, seconds=11)
    assert owner.get(f"/orders/{order}").json()["status"] == "Paused"


def test_a_letter_of_a_pdf_alone_is_written_on_its_envelope(
    owner: Account, container: Container, art: ImageServer
) -> None:
    faint = {"pdf_only_url": art.letter(), "handwriting_color": "#fdfdfd"}
    closed, windowed = (owner.send(piece, **faint).json()["id"] for piece in ("windowless-letter", "letter"))
    assert contrast(container, closed) == pytest.approx(1.0, abs=0.1)
    assert contrast(container, windowed) is None


def test_the_header_is_a_json_array_in_ascii() -> None:
    header = build_warning_header(["Grüße an Жук", 'a "quote"\nand a line', "Grüße an Жук"])["X-Warnings"]
    assert header.isascii()
    assert header.isprintable()
    assert json.loads(header) == ["Grüße an Жук", 'a "quote"\nand a line']
    assert build_warning_header([]) == {}


@pytest.mark.parametrize("warnings", [["x" * 5_000], ["Ж" * 900] * 1, [f"{n} " + "Ж" * 60 for n in range(99)]])
def test_a_header_stays_short_and_whole(warnings: list[str]) -> None:
    header = build_warning_header(warnings)["X-Warnings"]
    assert len(header) <= MAX_HEADER_LENGTH
    messages = json.loads(header)
    assert messages[0][:20] == warnings[0][:20]
    if len(messages) < len(warnings):
        assert messages[-1] == f"{len(warnings) - len(messages) + 1} more warnings have no room here."


def test_a_header_tells_no_secret() -> None:
    token = "qp_live_" + "a" * 43
    assert token not in build_warning_header([f"The field {token} is odd."])["X-Warnings"]
