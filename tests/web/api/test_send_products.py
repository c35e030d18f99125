"""Every piece by every name: estimated, sent, previewed, printed and delivered."""

from io import BytesIO
from typing import Any

import pikepdf
import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import prints
from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import GIFT, Account, Clock, people, person, postcard, read_warnings, run_jobs_for
from support.images import ImageServer

PRODUCTS: list[tuple[str, str, str | None, str, int]] = [
    ("postcard", "postcard", "4x6", "Postcard-4x6", 109),
    *((path, "letter", None, "Windowed Letter", 179)
      for path in ("windowed-letter", "windowedletter", "letter", "letter/windowed")),
    *((path, "windowlessletter", None, "Windowless Letter", 199)
      for path in ("windowless-letter", "windowlessletter", "letter/windowless")),
    ("notecard", "notecard", None, "Notecard", 299),
    ("giftcard", "giftcard", None, "Gift Card", 349),
    ("magnacard", "magnacard", None, "Magnacard", 219),
]  # fmt: skip


def test_each_name_estimates_and_sends_its_piece(subtests: pytest.Subtests, owner: Account) -> None:
    audience = [*people(2), person(address="1 main st."), {"email": "e@example.com"}]
    for path, type_, size, display, cents in PRODUCTS:
        with subtests.test(path):
            gift = GIFT if path == "giftcard" else {}
            body, value = postcard(recipients=audience, **gift), 2 * int(gift.get("giftcard_amount", 0))
            answer = owner.post(f"/estimate/{path}", body)
            data, sent = answer.json()["data"], owner.post(f"/send/{path}", body).json()
            read = owner.get(f"/orders/{sent['id']}").json()
            assert (answer.status_code, answer.json()["message"]) == (200, "OK")
            assert data == {
                "type": type_, "total_recipients": 2, "suppressed": 0, "duplicates": 1, "undeliverable": 1,
                "unit_price": cents, "leads_fee": 0, "giftcard_total": value, "test_mode": True,
                "authorization_total": 2 * cents + value, "warnings": read["warnings"],
            }  # fmt: skip
            assert sent["authorization_total"] == 2 * cents + value
            for shown in (sent, read):
                assert (shown["type"], shown["size"], shown["display_type"]) == (type_, size, display)


CANADIAN = person(country="CA", province="ON", postal_code="K1A 0B1")
POSTCARDS: list[tuple[dict[str, Any], str, str, int]] = [
    ({"send_standard_mail": True}, "postcard", "Postcard-4x6", 94),
    ({"size": "6x9"}, "postcard", "Postcard-6x9", 134),
    ({"size": "6x11"}, "postcard6x11", "Postcard-6x11", 149),
    ({"size": "6x11", "send_standard_mail": True}, "postcard6x11", "Postcard-6x11", 121),
    ({"recipients": [CANADIAN]}, "postcard", "Postcard-4x6", 219),
    ({"recipients": [*people(2), person(country="DE", province=None, postal_code="10115")]},
     "postcard", "Postcard-4x6", 2 * 109 + 219),
]  # fmt: skip


def test_the_total_follows_size_class_and_country(owner: Account) -> None:
    for changes, type_, display, cents in POSTCARDS:
        answer = owner.send(**changes).json()
        found = answer["type"], answer["display_type"], answer["authorization_total"]
        assert found == (type_, display, cents), changes


# Previews


def pixels(owner: Account, url: str) -> tuple[int, int]:
    answer = owner.http.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    return Image.open(BytesIO(answer.content)).size


def test_a_preview_shows_every_side_and_the_envelope(subtests: pytest.Subtests, owner: Account) -> None:
    cases: list[tuple[str, dict[str, str], list[str], tuple[int, int], bool]] = [
        ("postcard", {}, ["front", "back"], (900, 600), False),
        ("postcard", {"size": "6x11"}, ["front", "back"], (1650, 900), False),
        ("magnacard", {}, ["front", "back"], (900, 600), False),
        ("notecard", {}, ["front", "back"], (638, 825), True),
        ("letter", {}, ["cover"], (1275, 1650), True),
        ("windowless-letter", {}, ["cover"], (1275, 1650), True),
        ("giftcard", {}, ["front", "back"], (638, 825), True),
    ]
    for path, changes, sides, size, has_envelope in cases:
        with subtests.test(f"{path} {changes}"):
            answer = owner.send(path, preview=True, **changes).json()
            data = answer["data"]
            assert (answer["success"], answer["code"], answer["message"]) == (True, 200, "OK")
            assert data["sides"] == sides
            assert [pixels(owner, url) for url in data["previews"]] == [size] * len(sides)
            assert ("envelope" in data) == has_envelope
            assert not has_envelope or pixels(owner, data["envelope"])[0] > 800
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_preview_without_an_audience_names_its_piece_anywhere(subtests: pytest.Subtests, owner: Account) -> None:
    cover, both = ["cover"], ["front", "back"]
    types = {"postcard": both, "6x11-postcard": both, "letter": cover, "letter/windowed": cover}
    types |= {"windowless-letter": cover, "notecard": both, "magnacard": both}
    paths = {"postcard": both, "letter/windowed": cover, "letter/windowless": cover, "windowedletter": cover}
    paths |= {"notecard": both, "giftcard": both}
    calls: list[tuple[str, dict[str, Any], list[str]]] = [
        *(("/preview", {"type": name}, sides) for name, sides in types.items()),
        *((f"/preview/{name}", GIFT if name == "giftcard" else {}, sides) for name, sides in paths.items()),
    ]
    for path, body, sides in calls:
        with subtests.test(f"{path} {body}"):
            shown = owner.post(path, {"message": "Hi %FIRST_NAME%!", **body})
            assert (shown.status_code, shown.headers.get(IGNORED_HEADER)) == (200, None), shown.text
            data = shown.json()["data"]
            assert (data["sides"], len(data["previews"])) == (sides, len(sides))
            assert owner.http.get(data["previews"][0]).headers["content-type"] == "image/png"
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_the_size_of_a_preview_comes_from_the_type_unless_given(owner: Account) -> None:
    fronts = []
    for path, body in (
        ("/preview", {"type": "postcard6x9"}),
        ("/preview/postcard", {"size": "6x9"}),
        ("/preview", {"type": None, "piece": "postcard6x9", "size": None}),
    ):
        shown = owner.post(path, {**body, "message": "Hi!", "recipients": [person()]})
        assert (shown.headers.get(IGNORED_HEADER), shown.json()["data"]["sides"]) == (None, ["front", "back"])
        fronts.append(owner.http.get(shown.json()["data"]["previews"][0]).content)
    assert fronts[0] == fronts[1] == fronts[2]


def test_what_is_wrong_with_a_preview_is_named(owner: Account) -> None:
    for body in ({"message": "Hi!"}, {"type": "poster", "message": "Hi!"}, {"type": None}):
        refused = owner.post("/preview", body)
        [error] = refused.json()["errors"]["type"]
        assert (refused.status_code, "postcard6x9" in error) == (422, True)
    assert "message" in owner.post("/preview", {"piece": "postcard"}).json()["errors"]
    unknown = owner.post("/preview", {"piece": "postcard", "message": "Hi!", "colour": 1, "pdf_only_url": "x"})
    assert unknown.headers[IGNORED_HEADER] == "colour, pdf_only_url"
    assert owner.post("/preview", [1]).status_code == 422


# The PDFs of letters


@pytest.mark.usefixtures("loopback_urls")
def test_the_pages_of_a_letter_follow_its_cover_or_are_all_of_it(owner: Account, art: ImageServer) -> None:
    for path in ("letter", "windowless-letter"):
        for name in ("additional_pages_url", "additional_pages"):
            shown = owner.send(path, preview=True, **{name: art.letter(2)}).json()["data"]
            assert shown["sides"] == ["cover", "page 2", "page 3"], (path, name)
    # A window shows an address: where the envelope has one, a sheet with the address is added.
    body = {"recipients": [person()], "pdf_only_url": art.letter(2), "preview": True}
    assert [
        len(owner.post(f"/send/{path}", body).json()["data"]["sides"]) for path in ("letter", "windowless-letter")
    ] == [3, 2]
    sent = owner.send("letter", pdf_only_url=art.letter())
    assert read_warnings(sent) == ["The PDF is the whole letter: the message is not printed."]
    assert sent.json()["message"] == ""


@pytest.mark.usefixtures("loopback_urls")
def test_a_pdf_that_cannot_be_printed_names_its_field(owner: Account, art: ImageServer) -> None:
    for field in ("additional_pages_url", "pdf_only_url"):
        for url, words in (
            (art.url("/gone"), "status 404"),
            (art.picture(), "cannot be printed"),
            (art.url("/~FIRST_NAME~.pdf"), "takes no variables"),
        ):
            refused = owner.send("letter", **{field: url})
            assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
            assert words in refused.json()["errors"][field][0]


# Printed


@pytest.mark.usefixtures("clean_database", "loopback_urls")
def test_each_piece_is_printed_and_delivered(
    subtests: pytest.Subtests, owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    pieces: list[tuple[str, dict[str, str], int, int]] = [
        ("letter", {"additional_pages_url": art.letter(2)}, 3, 1),
        ("windowless-letter", {"pdf_only_url": art.letter(2)}, 2, 1),
        ("notecard", {}, 2, 1),
        ("magnacard", {}, 2, 0),
    ]
    orders = [owner.send(path, **changes).json()["id"] for path, changes, *_ in pieces]
    run_jobs_for(container, clock, seconds=45)
    for (path, _, pages, envelopes), order in zip(pieces, orders, strict=True):
        with subtests.test(path):
            proof = owner.get(f"/orders/{order}/proof")
            with pikepdf.open(BytesIO(proof.content)) as pdf:
                assert len(pdf.pages) == pages + envelopes
            with container.db.system_transaction() as tx:
                own = sa.select(prints.c.batch_id).join(items, items.c.id == prints.c.item_id)
                batch = tx.execute(own.where(items.c.order_id == order)).scalar_one()
            storage = container.storage.store
            files = {key.rsplit("/")[-1]: storage.get(key) for key in storage.keys(f"batches/{batch}/")}
            with pikepdf.open(BytesIO(files["print.pdf"])) as pdf:
                assert len(pdf.pages) == pages
            assert ("envelopes.pdf" in files) == bool(envelopes)
            [item] = owner.get(f"/orders/{order}/items").json()["data"]
            assert (item["status"], item["delivery_date"]) == ("Delivered", "2026-05-04")
            assert owner.get(f"/orders/{order}").json()["status"] == "Fulfilled"


def test_the_picture_of_a_front_without_art_is_the_pieces_own(owner: Account) -> None:
    sizes = "4x6", "6x9", "6x11"
    fronts = [(name, owner.send(name)) for name in ("notecard", "letter", "magnacard")]
    fronts += [(f"postcard-{size}", owner.send(size=size)) for size in sizes]
    for drawn_as, sent in fronts:
        url = sent.json()["front_image"]
        assert url.endswith(f"/art/{drawn_as}.png")
        assert pixels(owner, url)[0] > 100
