"""The composer's look: each piece's form is the body that the API takes, and its picture is the true one."""

import base64
import re
import threading
from collections.abc import Hashable
from contextlib import ExitStack
from html import unescape
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from PIL import Image

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.orders.drafts import previews as order_previews
from quillpost.orders.models import CARD_BUILDER_METHOD
from quillpost.orders.templates.images import PreviewFetchCache
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.models import STYLES
from quillpost.rendering.previews import shrink_picture
from quillpost.web.api.send.endpoints import draft_from_body
from quillpost.web.application import create_app
from quillpost.web.dashboard import previews as shared_previews
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose import previews
from quillpost.web.dashboard.compose.forms import compose_send, draft_composed_order
from quillpost.web.dashboard.compose.pages import default_fields
from quillpost.web.dashboard.previews import MAX_CONCURRENT_PREVIEWS, PreviewLimiter, PreviewSuperseded
from quillpost.web.forms import Form
from support.factories import Build, make_sub_account, person
from support.images import ImageServer, make_picture
from support.pages import OWNER, AccountPages, assert_hides, assert_shows
from support.test_client import TestClient
from support.uploads import upload
from support.waiting import wait_until

UTC = ZoneInfo("UTC")
JANE = {"audience": "person", **{f"to_{name}": str(value) for name, value in person().items()}}
HTMX = {"HX-Request": "true"}
GIFT = {"giftcard_brand": "brindlewick", "giftcard_amount": "2500"}
OF_A_PIECE: dict[str, dict[str, str]] = {
    "postcard-4x6": {"color": "green"}, "postcard-6x9": {"qrcode_url": "https://example.com/offer"},
    "postcard-6x11": {"font_size": "small"}, "letter": {"message_template_id": ""},
    "windowless-letter": {"manner": "neat"}, "notecard": {"style": "2"}, "giftcard": GIFT,
    "magnacard": {"color": "own", "color_own": "#112233"},
}  # fmt: skip


def filled(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {name: values[0] for name, values in default_fields().items() if values}
    return fields | {"message": "Hi %FIRST_NAME%,\r\nsee you soon!"} | JANE | changes


def compose(container: Container, **changes: Any) -> Any:
    return compose_send(Form({name: [value] for name, value in filled(**changes).items()}), container, UTC)


def pictures(page: str) -> list[bytes]:
    """All that a page shows and nobody else has."""
    return [base64.b64decode(each) for each in re.findall(r"data:image/png;base64,([^\"]+)", page)]


def field_error(page: Any, field: str) -> str:
    """What is beside a field."""
    found = re.search(rf'id="{field}-told"[^>]*>(.*?)</div>', page.text, re.DOTALL)
    assert found is not None, field
    return unescape(re.sub(r"<[^>]+>", " ", found[1])).strip()


def preview(browser: Any, **changes: Any) -> Any:
    return browser.post("/compose/preview", headers=HTMX, **filled(**changes))


def test_each_piece_s_form_is_the_body_that_the_api_would_take(house: AccountPages, container: Container) -> None:
    assert list(OF_A_PIECE) == list(compose_forms.PRODUCT_CHOICES)
    caller = Caller(account_id=house.account.id, mode="test")
    for piece, own in OF_A_PIECE.items():
        made = compose(container, piece=piece, **own)
        assert made.payload["message"] == "Hi %FIRST_NAME%,\nsee you soon!"
        drafted = draft_composed_order(made, caller, container)
        choice = compose_forms.PRODUCT_CHOICES[piece]
        assert (drafted.request.type, drafted.request.size) == (choice.type, choice.size)
        assert (drafted.request.method, drafted.request.metadata) == (CARD_BUILDER_METHOD, None)
        estimated = house.account.post(f"/estimate/{choice.offer.product.paths[0]}", made.payload)
        assert estimated.status_code == 200, (piece, estimated.text)
        assert "X-Ignored-Fields" not in estimated.headers, piece
    pdf = "https://example.com/a.pdf"
    letter = compose(container, piece="letter", pdf_url=pdf, **GIFT).payload
    assert (letter["additional_pages_url"], "giftcard_brand" in letter) == (pdf, False)
    assert compose(container, piece="letter", pdf_url=pdf, pdf_is="whole").payload["pdf_only_url"] == pdf
    with pytest.raises(Invalid) as wrong:
        compose(container, piece="letter", image="url", style="none", audience="")
    assert wrong.value.fields.keys() == {"style", "audience"}


def test_the_picture_is_the_true_one_and_is_kept_nowhere(house: AccountPages, container: Container) -> None:
    with house.unchanged():
        shown = preview(house.owner)
        assert shown.status_code == 200, shown.text
        assert_shows(unescape(shown.text), "For Jane Doe.", "which reads: Hi Jane,\nsee you soon!")
        assert "HX-Retarget" not in shown.headers
        caller = Caller(account_id=house.account.id, mode="test")
        made = compose(container)
        drafted = draft_from_body(made.offer.product, made.body, caller, container)
        drawn = order_previews.draw_preview(container.orders, caller, drafted)
        assert pictures(shown.text) == list(drawn.sides.values())
        # Whoever has a picture already does not get it again, and another word is another picture of one side.
        marks = re.findall(r'name="seen" value="(\w+)"', shown.text)
        again = house.owner.post("/compose/preview", headers=HTMX, **filled(message="Bye!"), seen=marks)
        assert len(pictures(again.text)) == 1
        assert (marks[0] in again.text, marks[1] in again.text) == (True, False)
        for piece in ("notecard", "windowless-letter", "giftcard"):
            assert_shows(preview(house.owner, piece=piece, **GIFT), "<figcaption>Envelope</figcaption>")


def test_handwriting_and_lettering_are_listed_apart(house: AccountPages) -> None:
    page = house.owner.get("/compose").text
    listed = {
        title: [int(number) for number in re.findall(r'name="style" value="(\d+)"', group)]
        for title, group in re.findall(r'<p id="styles-\d">([^<]+)</p>(.*?)</ul>', page, re.DOTALL)
    }
    assert listed == {
        "Natural handwriting": [style.number for style in STYLES if style.movement],
        "Lettering": [style.number for style in STYLES if style.lettering],
    }
    warned = preview(house.owner, style="13", font_size="small")
    assert "The style Grace is lettering: its size and manner can’t be chosen." in unescape(warned.text)


def test_before_anything_is_chosen_a_sample_stands_in(house: AccountPages) -> None:
    page = house.owner.get("/compose").text
    assert_shows(page, 'hx-post="/compose/preview"')
    assert pictures(page) == []  # drawn when the page is there: to open it costs little
    shown = preview(house.owner, message="", audience="", image="template")
    assert_shows(shown, "For Jane Sample, who is made up", "The words are a sample, too.", status=200)
    for unfinished in ({"to_address": ""}, {"to_city": "", "to_province": "", "to_postal_code": ""}):
        assert_shows(preview(house.owner, **unfinished), "For Jane Sample")
    again = house.owner.post("/compose", **filled(find="preview"))
    assert (again.status_code, len(pictures(again.text))) == (200, 2)
    assert "img-src 'self' data:" in again.headers["Content-Security-Policy"]
    assert_shows(again, 'value="12 Main St"')


ERRORS: dict[str, dict[str, Any]] = {
    "message": {"message": "far too long " * 300},
    "qrcode_url": {"qrcode_url": "nothing"},
    "style": {"style": "999"},
    "color": {"color": "own", "color_own": "mud"},
    "front_image_url": {"image": "url", "front_image_url": "file:///etc/passwd"},
    "giftcard_amount": {"piece": "giftcard", "giftcard_brand": "brindlewick", "giftcard_amount": "7"},
    "image_template_id": {"image": "template", "image_template_id": "999999"},
    "message_template_id": {"message_template_id": "999999"},
    "piece": {"piece": "parcel"},
}


def test_errors_are_beside_their_fields_and_the_preview_stays(house: AccountPages, subtests: pytest.Subtests) -> None:
    with house.unchanged():
        for field, typed in ERRORS.items():
            with subtests.test(field):
                shown = preview(house.owner, **typed)
                assert shown.status_code == 422
                assert [each for each in ERRORS if field_error(shown, each)] == [field]
                assert (shown.headers["HX-Retarget"], pictures(shown.text)) == ("#preview-told", [])
                whole = house.owner.post("/compose", **filled(**typed))
                assert (whole.status_code, field_error(whole, field)) == (422, field_error(shown, field))
        misspelt = preview(house.owner, message="Hi %FISRT_NAME%, ok")
        assert field_error(misspelt, "message") == "%FISRT_NAME% is not known. Did you mean %FIRST_NAME%?"
        assert misspelt.text.count("FISRT") == 1  # beside its field, and not over the picture as well


def test_what_a_refused_form_lacks_stands_beside_its_field_until_it_is_there(house: AccountPages) -> None:
    refused = house.owner.post("/compose/send", **filled(message="", image="template"))
    assert (refused.status_code, field_error(refused, "message")) == (422, "")
    assert field_error(refused, "image_template_id") == "Choose one of your images, or upload one."
    refused = house.owner.post("/compose/send", **filled(message=""))
    assert field_error(refused, "message") == "Write a message."
    mark = re.compile(r'name="refused" value="([^"]+)"')
    first = preview(house.owner, message="", refused=mark.findall(refused.text)[0])
    assert (first.status_code, len(pictures(first.text)), "-told" in first.text) == (200, 2, True)
    assert_hides(first, 'id="message-told"')  # what the page says stays as it is
    [now] = mark.findall(first.text)
    later = preview(house.owner, message="", to_name="Bob", image="template", refused=now)
    assert (later.status_code, len(pictures(later.text))) == (200, 2)
    assert field_error(later, "image_template_id")
    assert field_error(preview(house.owner, message="", to_name="Bob", refused=now), "message")
    assert field_error(preview(house.owner, message="Hello", refused=now), "message") == ""
    assert field_error(preview(house.owner, message=""), "message") == ""  # nobody has tried to send it yet


def test_a_warning_that_would_hold_the_order_is_in_plain_words(house: AccountPages) -> None:
    image = upload(house.account, image=make_picture(size=(100, 80))).json()["id"]
    typed = filled(image="template", image_template_id=str(image))
    pages = [preview(house.owner, **typed), *(house.owner.post(f"/compose/{to}", **typed) for to in ("price", "send"))]
    for page in pages:
        assert_shows(page, "The picture on the front is 100 x 80 pixels", hides=["image_template is"])
    for page in pages[:2]:
        assert_shows(page, "held until somebody has looked")
    soft = upload(house.account, image=make_picture(size=(900, 600))).json()["id"]
    assert_hides(preview(house.owner, image="template", image_template_id=str(soft)), "held until")


def test_it_starts_from_what_is_there_and_never_from_a_stranger_s(house: AccountPages) -> None:
    words = {"type": "notecard", "name": "Thanks", "content": "Thank you, %FIRST_NAME%!", "font_color": "red"}
    template = house.account.post("/message-templates", words).json()["id"]
    image = upload(house.account, type="letter", name="Skyline").json()["id"]
    mailing_list = house.account.post("/mailing-lists", {"description": "Neighbors"}).json()["id"]
    order = house.account.send("postcard", size="6x9", message="As before", handwriting_color="#112233").json()["id"]
    for query, shown in {
        f"template={template}": ["Thank you, %FIRST_NAME%!</textarea>", 'value="red" checked', ">Thanks (Notecard)"],
        f"image={image}": ["Skyline", f'value="{image}" checked', 'value="letter" data-images="letter"'],
        f"list={mailing_list}": ["Neighbors", 'value="lists" checked'],
        f"order={order}": ["As before</textarea>", 'value="own" checked', 'value="#112233"'],
    }.items():
        assert_shows(house.owner.get(f"/compose?{query}"), *shown)
        assert house.stranger.get(f"/compose?{query}").status_code == 404, query
        assert house.owner.get(f"/compose?{query.partition('=')[0]}=zero").status_code == 404, query
    for query, piece in ((f"template={template}", "notecard"), (f"order={order}", "postcard-6x9")):
        assert re.search(rf'value="{piece}"[^>]*checked', house.owner.get(f"/compose?{query}").text)
    # A stranger's is as one that is not there.
    for typed in (
        {"message_template_id": str(template), "piece": "notecard"},
        {"image_template_id": str(image), "piece": "letter", "image": "template"},
    ):
        assert preview(house.owner, **typed).status_code == 200, typed
        assert field_error(preview(house.stranger, **typed), next(iter(typed))), typed
    taken = house.owner.post("/compose", **filled(find="template", message_template_id=str(template)))
    assert_shows(taken, "Thank you, %FIRST_NAME%!</textarea>")
    # In the other mode that order is not there; and another branch's message is not a limited teammate's.
    house.owner.post("/session/switch", mode="live")
    assert house.owner.get(f"/compose?order={order}").status_code == 404
    other = make_sub_account(house.parts, house.account, "Houston")
    theirs = {"type": "notecard", "name": "Theirs", "content": "x", "sub_account_id": other}
    hidden = house.account.post("/message-templates", theirs).json()["id"]
    assert house.limited.get(f"/compose?template={hidden}").status_code == 404
    assert_hides(house.limited.get("/compose"), "Theirs")


def test_a_picture_is_fetched_once_per_reader(build: Build, art: ImageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "_fetch_cache", PreviewFetchCache(clock=lambda: 0.0))  # its time stands still
    container = build(allow_private_urls=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        house = AccountPages(container, http)
        orange: dict[str, Any] = {"image": "url", "front_image_url": art.picture("orange")}
        for n in range(3):
            assert preview(house.owner, **orange, message=f"Hello {n}").status_code == 200
        assert len(art.requests) == 1
        assert preview(house.stranger, **orange).status_code == 200
        assert len(art.requests) == 2
        assert_shows(preview(house.owner, piece="letter", pdf_url=art.letter(2)), "<figcaption>Page 3</figcaption>")
        for _ in range(2):
            gone = preview(house.owner, image="url", front_image_url=art.url("/gone"))
            assert "could not be fetched" in field_error(gone, "front_image_url")
        assert len(art.requests) == 4


def test_a_large_picture_is_made_as_small_as_a_screen_is() -> None:
    """And stands upright in its own colors; nothing of its shape is lost."""
    small = shrink_picture(DecoderSandbox(), make_picture("teal", (3000, 2000)), max_pixels=600)
    with Image.open(BytesIO(small)) as seen:
        assert (seen.size, seen.convert("RGB").getpixel((300, 200))) == ((600, 400), (0, 128, 128))
    tiny = make_picture("teal", (60, 40))
    assert shrink_picture(DecoderSandbox(), tiny, max_pixels=600) == tiny


def test_of_previews_that_wait_the_newest_waits_on_and_those_before_it_are_let_go() -> None:
    """A few at a time for each reader."""
    line, events = PreviewLimiter(), list[str]()

    def ask(name: str) -> None:
        try:
            with line.slot("dana"):
                events.append(f"{name} drawn")
        except PreviewSuperseded:
            events.append(f"{name} overtaken")

    older, newer = (threading.Thread(target=ask, args=[name]) for name in ("older", "newer"))
    with ExitStack() as busy:
        for _ in range(MAX_CONCURRENT_PREVIEWS):
            busy.enter_context(line.slot("dana"))
        older.start()
        wait_until(lambda: line.count_waiting("dana") == 1)
        newer.start()
        older.join(10)
        assert events == ["older overtaken"]
        wait_until(lambda: line.count_waiting("dana") == 1)
        with line.slot("finn"):
            pass  # another reader waits for none of them
    newer.join(10)
    assert events == ["older overtaken", "newer drawn"]
    assert line._queues == {}


def test_an_overtaken_preview_changes_nothing_shown(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    callers = list[Hashable]()

    def overtaken(caller: Hashable) -> None:
        callers.append(caller)
        raise PreviewSuperseded

    monkeypatch.setattr(shared_previews.preview_limiter, "slot", overtaken)
    for path in ("/compose", "/compose/preview", "/templates/messages/preview"):
        answer = house.owner.post(path, message="Hi", headers=HTMX)
        assert (answer.status_code, answer.text) == (204, ""), path
    assert callers == [house.person(OWNER)] * 3
