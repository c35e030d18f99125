"""Warnings travel with previews, estimates and sends: as a header for all, and as `warnings` where we can."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.web.api.responses import MAX_HEADER_LENGTH, build_warning_header
from support.factories import Account, Clock, person, read_warnings, run_jobs_for
from support.images import ImageServer, make_picture
from support.uploads import upload

pytestmark = pytest.mark.usefixtures("loopback_urls")

HARD_TO_READ = "The handwriting_color is hard to read"
SHRUNK = "The message was shrunk to fit"
LONG = "Thank you for stopping by, it was good to see you all again. " * 9


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


def test_what_will_not_look_well_is_reported_everywhere(
    owner: Account, art: ImageServer, subtests: pytest.Subtests
) -> None:
    template = upload(owner, image=make_picture("white", (300, 204))).json()["id"]
    black = {"custom_background_image": art.picture("black")}
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "low resolution": ({"image_template": template}, "prints at 48 dpi"),
        "missing characters": ({"message": "Hi Жук!"}, "has no Ж (cyrillic capital letter zhe)"),
        "shrunk": ({"message": LONG}, SHRUNK),
        "white ink": ({"handwriting_color": "#fdfdfd"}, f"{HARD_TO_READ} on white paper"),
        "thin ink": ({"handwriting_color": "rgba(0,0,0,0.1)"}, f"{HARD_TO_READ} on white paper"),
        "yellow ink": ({"handwriting_color": "#ffee88"}, f"{HARD_TO_READ} on white paper"),
        "ink lost on the art": (black, f"{HARD_TO_READ} on custom_background_image"),
    }
    for name, (body, words) in cases.items():
        with subtests.test(name):
            found = every_answer(owner, **body)
            assert all(words in warnings[0] for warnings in found), found
            assert len({str(warnings) for warnings in found}) == 1
    assert every_answer(owner, **black, handwriting_color="#ffffff") == [[]] * 7


def test_what_looks_well_is_not_warned_of(owner: Account) -> None:
    styles = owner.get("/handwriting-styles").json()["data"]
    style = next(each["handwriting_style_id"] for each in styles if each["type"] == "AI")
    requested_size = {"message": "Hi! " * 20, "font_size": "small", "handwriting_style": style}
    for usual in ({"message": "Hi!"}, {"message": LONG, "size": "6x11"}, requested_size):
        sent = owner.send(**usual)
        assert (sent.status_code, read_warnings(sent)) == (200, [])


def test_other_words_take_the_warning_back(owner: Account) -> None:
    order = owner.send(message=LONG).json()["id"]
    changed = owner.put(f"/orders/{order}", {"message": "Hi!"}).json()
    assert changed["warnings"] == []
    longer = owner.put(f"/orders/{order}", {"message": LONG}).json()
    assert longer["warnings"][0].startswith(SHRUNK)


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


@pytest.mark.usefixtures("clean_database")
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


def test_a_letter_of_a_pdf_alone_is_written_on_its_envelope(
    owner: Account, container: Container, art: ImageServer
) -> None:
    faint = {"pdf_only_url": art.letter(), "handwriting_color": "#fdfdfd"}
    closed, windowed = (owner.send(piece, **faint).json()["id"] for piece in ("windowless-letter", "letter"))
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(orders.c.id, orders.c.lowest_contrast))
        found = {row.id: row.lowest_contrast for row in rows}
    assert found[closed] == pytest.approx(1.0, abs=0.1)
    assert found[windowed] is None


def test_the_header_is_a_short_json_array_in_ascii_without_secrets() -> None:
    header = build_warning_header(["Grüße an Жук", 'a "quote"\nand a line', "Grüße an Жук"])["X-Warnings"]
    assert header.isascii()
    assert header.isprintable()
    assert json.loads(header) == ["Grüße an Жук", 'a "quote"\nand a line']
    assert build_warning_header([]) == {}
    token = "qp_live_" + "a" * 43
    assert token not in build_warning_header([f"The field {token} is odd."])["X-Warnings"]
    for warnings in (["x" * 5_000], ["Ж" * 900], [f"{n} " + "Ж" * 60 for n in range(99)]):
        header = build_warning_header(warnings)["X-Warnings"]
        assert len(header) <= MAX_HEADER_LENGTH
        messages = json.loads(header)
        assert messages[0][:20] == warnings[0][:20]
        left_out = len(warnings) - len(messages)
        assert not left_out or messages[-1] == f"{left_out + 1} more warnings have no room here."
