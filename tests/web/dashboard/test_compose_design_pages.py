"""The composer's look: each piece's form is the body that the API takes, and its picture is the true one."""

import base64
import re
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
from quillpost.rendering.previews import shrink_picture
from quillpost.web.api.send.endpoints import draft_from_body
from quillpost.web.application import create_app
from quillpost.web.dashboard.compose import forms as compose_forms
from quillpost.web.dashboard.compose import previews
from quillpost.web.dashboard.compose.forms import compose_send, draft_composed_order
from quillpost.web.dashboard.compose.pages import default_fields
from quillpost.web.forms import Form
from support.account_pages import AccountPages
from support.factories import Build, make_sub_account, person
from support.image_server import ImageServer, make_picture
from support.test_client import TestClient
from support.uploads import upload

UTC = ZoneInfo("UTC")
JANE = {"audience": "person", **{f"to_{name}": str(value) for name, value in person().items()}}
HTMX = {"HX-Request": "true"}
GIFT = {"giftcard_brand": "brindlewick", "giftcard_amount": "2500"}
OF_A_PIECE: dict[str, dict[str, str]] = {
    "postcard-4x6": {"color": "green"},
    "postcard-6x9": {"qrcode_url": "https://example.com/offer"},
    "postcard-6x11": {"font_size": "small"},
    "letter": {"message_template_id": ""},
    "windowless-letter": {"realism": ""},
    "notecard": {"style": "2"},
    "giftcard": GIFT,
    "magnacard": {"color": "own", "color_own": "#112233"},
}


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def filled(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {name: values[0] for name, values in default_fields().items() if values}
    return fields | {"message": "Hi %FIRST_NAME%,\r\nsee you soon!"} | JANE | changes


def form(**changes: Any) -> Form:
    return Form({name: [value] for name, value in filled(**changes).items()})


def pictures(page: str) -> list[bytes]:
    """All that a page shows and nobody else has."""
    return [base64.b64decode(each) for each in re.findall(r"data:image/png;base64,([^\"]+)", page)]


def field_error(page: str, field: str) -> str:
    """What is said beside a field."""
    found = re.search(rf'id="{field}-told"[^>]*>(.*?)</div>', page, re.DOTALL)
    assert found is not None, field
    return unescape(re.sub(r"<[^>]+>", " ", found[1])).strip()


def preview(browser: Any, **changes: Any) -> Any:
    return browser.post("/compose/preview", headers=HTMX, **filled(**changes))


def test_each_piece_s_form_is_the_body_that_the_api_would_take(house: AccountPages, container: Container) -> None:
    assert list(OF_A_PIECE) == list(compose_forms.PRODUCT_CHOICES)
    caller = Caller(account_id=house.account.id, mode="test")
    for piece, own in OF_A_PIECE.items():
        made = compose_send(form(piece=piece, **own), container, UTC)
        assert made.payload["message"] == "Hi %FIRST_NAME%,\nsee you soon!"
        drafted = draft_composed_order(made, caller, container)
        choice = compose_forms.PRODUCT_CHOICES[piece]
        assert (drafted.request.type, drafted.request.size) == (choice.type, choice.size)
        assert (drafted.request.method, drafted.request.metadata) == (CARD_BUILDER_METHOD, None)
        path = choice.offer.product.paths[0]
        estimated = house.account.post(f"/estimate/{path}", made.payload)
        assert estimated.status_code == 200, (piece, estimated.text)
        assert "X-Ignored-Fields" not in estimated.headers, piece
    letter = compose_send(form(piece="letter", pdf_url="https://example.com/a.pdf", **GIFT), container, UTC).payload
    assert letter["additional_pages_url"] == "https://example.com/a.pdf"
    assert "giftcard_brand" not in letter
    whole = compose_send(
        form(piece="letter", pdf_url="https://example.com/a.pdf", pdf_is="whole"), container, UTC
    ).payload
    assert whole["pdf_only_url"] == "https://example.com/a.pdf"
    with pytest.raises(Invalid) as wrong:
        compose_send(form(piece="letter", image="url", style="none", audience=""), container, UTC)
    assert wrong.value.fields.keys() == {"style", "audience"}


def test_the_picture_is_the_true_one_and_is_kept_nowhere(house: AccountPages, container: Container) -> None:
    before = house.everything()
    shown = preview(house.owner)
    assert shown.status_code == 200, shown.text
    assert "For Jane Doe." in shown.text
    assert "which reads: Hi Jane,\nsee you soon!" in unescape(shown.text)
    assert "HX-Retarget" not in shown.headers
    caller = Caller(account_id=house.account.id, mode="test")
    made = compose_send(form(), container, UTC)
    drafted = draft_from_body(made.offer.product, made.body, caller, container)
    drawn = order_previews.draw_preview(container.orders, caller, drafted)
    assert pictures(shown.text) == list(drawn.sides.values())
    # Whoever has a picture already does not get it again, and another word is another picture of one side.
    marks = re.findall(r'name="seen" value="(\w+)"', shown.text)
    again = house.owner.post("/compose/preview", headers=HTMX, **filled(message="Bye!"), seen=marks)
    assert len(pictures(again.text)) == 1
    assert marks[0] in again.text
    assert marks[1] not in again.text
    for piece in ("notecard", "windowless-letter", "giftcard"):
        sides = preview(house.owner, piece=piece, **GIFT).text
        assert "<figcaption>Envelope</figcaption>" in sides, piece
    assert house.everything() == before


def test_before_anything_is_chosen_a_sample_stands_in(house: AccountPages) -> None:
    page = house.owner.get("/compose").text
    assert 'hx-post="/compose/preview"' in page
    assert pictures(page) == []  # drawn when the page is there: to open it costs little
    shown = preview(house.owner, message="", audience="", image="template")
    assert shown.status_code == 200
    assert "For Jane Sample, who is made up" in shown.text
    assert "The words are a sample, too." in shown.text
    assert "For Jane Sample" in preview(house.owner, to_address="").text
    again = house.owner.post("/compose", **filled(find="preview"))
    assert again.status_code == 200
    assert "img-src 'self' data:" in again.headers["Content-Security-Policy"]
    assert len(pictures(again.text)) == 2
    assert 'value="12 Main St"' in again.text


def test_errors_are_shown_beside_their_fields_and_the_last_preview_stays(house: AccountPages) -> None:
    before = house.everything()
    errors = {
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
    for field, typed in errors.items():
        shown = preview(house.owner, **typed)
        assert shown.status_code == 422, field
        assert field_error(shown.text, field), field
        assert (shown.headers["HX-Retarget"], pictures(shown.text)) == ("#preview-told", []), field
        assert all(not field_error(shown.text, other) for other in errors if other != field), field
        whole = house.owner.post("/compose", **filled(**typed))
        assert whole.status_code == 422, field
        assert field_error(whole.text, field) == field_error(shown.text, field)
    misspelt = preview(house.owner, message="Hi %FISRT_NAME%, ok").text
    assert field_error(misspelt, "message") == "%FISRT_NAME% is not known. Did you mean %FIRST_NAME%?"
    assert misspelt.count("FISRT") == 1  # beside its field, and not over the picture as well
    assert house.everything() == before


def test_what_a_refused_form_lacks_stands_beside_its_field_until_it_is_there(house: AccountPages) -> None:
    refused = house.owner.post("/compose/send", **filled(message="", image="template"))
    assert (refused.status_code, field_error(refused.text, "message")) == (422, "")
    assert field_error(refused.text, "image_template_id") == "Choose one of your images, or upload one."
    refused = house.owner.post("/compose/send", **filled(message=""))
    assert field_error(refused.text, "message") == "Write a message."
    [mark] = re.findall(r'name="refused" value="([^"]+)"', refused.text)
    first = preview(house.owner, message="", refused=mark)
    assert (first.status_code, len(pictures(first.text)), "-told" in first.text) == (200, 2, True)
    assert 'id="message-told"' not in first.text  # what the page says stays as it is
    [mark] = re.findall(r'name="refused" value="([^"]+)"', first.text)
    later = preview(house.owner, message="", to_name="Bob", image="template", refused=mark)
    assert (later.status_code, len(pictures(later.text))) == (200, 2)
    assert field_error(later.text, "image_template_id")
    assert field_error(preview(house.owner, message="", to_name="Bob", refused=mark).text, "message")
    assert field_error(preview(house.owner, message="Hello", refused=mark).text, "message") == ""
    assert field_error(preview(house.owner, message="").text, "message") == ""  # nobody has tried to send it yet


def test_a_warning_that_would_hold_the_order_is_in_plain_words(house: AccountPages) -> None:
    image = upload(house.account, image=make_picture(size=(100, 80))).json()["id"]
    typed = filled(image="template", image_template_id=str(image))
    pages = [
        preview(house.owner, **typed).text,
        house.owner.post("/compose/price", **typed).text,
        house.owner.post("/compose/send", **typed).text,
    ]
    for page in pages:
        assert "The picture on the front is 100 x 80 pixels" in page
        assert "image_template is" not in page
    assert ["held until somebody has looked" in page for page in pages[:2]] == [True, True]
    soft = upload(house.account, image=make_picture(size=(900, 600))).json()["id"]
    assert "held until" not in preview(house.owner, image="template", image_template_id=str(soft)).text


def test_it_starts_from_what_is_there_and_never_from_a_stranger_s(house: AccountPages, container: Container) -> None:
    template = house.account.post(
        "/message-templates",
        {"type": "notecard", "name": "Thanks", "content": "Thank you, %FIRST_NAME%!", "font_color": "red"},
    ).json()["id"]
    image = upload(house.account, type="letter", name="Skyline").json()["id"]
    mailing_list = house.account.post("/mailing-lists", {"description": "Neighbors"}).json()["id"]
    order = house.account.send("postcard", size="6x9", message="As before", handwriting_color="#112233").json()
    order_id = order["id"]
    starts = {
        f"template={template}": ["Thank you, %FIRST_NAME%!</textarea>", 'value="red" checked', ">Thanks (Notecard)"],
        f"image={image}": ["Skyline", f'value="{image}" checked', 'value="letter" data-images="letter"'],
        f"list={mailing_list}": ["Neighbors", 'value="lists" checked'],
        f"order={order_id}": ["As before</textarea>", 'value="own" checked', 'value="#112233"'],
    }
    for query, words in starts.items():
        page = house.owner.get(f"/compose?{query}")
        assert page.status_code == 200, query
        assert all(each in page.text for each in words), query
        assert house.stranger.get(f"/compose?{query}").status_code == 404, query
        assert house.owner.get(f"/compose?{query.partition('=')[0]}=zero").status_code == 404, query
    assert re.search(r'value="notecard"[^>]*checked', house.owner.get(f"/compose?template={template}").text)
    assert re.search(r'value="postcard-6x9"[^>]*checked', house.owner.get(f"/compose?order={order_id}").text)
    # A stranger's is as one that is not there.
    for typed in (
        {"message_template_id": str(template), "piece": "notecard"},
        {"image_template_id": str(image), "piece": "letter", "image": "template"},
    ):
        assert preview(house.owner, **typed).status_code == 200, typed
        assert field_error(preview(house.stranger, **typed).text, next(iter(typed))), typed
    taken = house.owner.post("/compose", **filled(find="template", message_template_id=str(template)))
    assert "Thank you, %FIRST_NAME%!</textarea>" in taken.text
    # In the other mode that order is not there; and another branch's message is not a limited teammate's.
    house.owner.post("/session/switch", mode="live")
    assert house.owner.get(f"/compose?order={order_id}").status_code == 404
    other = make_sub_account(container, house.account, "Houston")
    hidden = house.account.post(
        "/message-templates", {"type": "notecard", "name": "Theirs", "content": "x", "sub_account_id": other}
    ).json()["id"]
    assert house.limited.get(f"/compose?template={hidden}").status_code == 404
    assert "Theirs" not in house.limited.get("/compose").text


def test_while_somebody_types_a_picture_is_fetched_once_and_for_them_alone(
    build: Build, art: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "_fetch_cache", PreviewFetchCache(clock=lambda: 0.0))  # its time stands still
    container = build(allow_private_urls=True)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        house = AccountPages(container, http)
        url = art.picture("orange")
        for n in range(3):
            shown = preview(house.owner, image="url", front_image_url=url, message=f"Hello {n}")
            assert shown.status_code == 200, shown.text
        assert len(art.requests) == 1
        assert preview(house.stranger, image="url", front_image_url=url).status_code == 200
        assert len(art.requests) == 2
        pages = preview(house.owner, piece="letter", pdf_url=art.letter(2))
        assert "<figcaption>Page 3</figcaption>" in pages.text
        gone = [preview(house.owner, image="url", front_image_url=art.url("/gone")) for _ in range(2)]
        assert all("could not be fetched" in field_error(each.text, "front_image_url") for each in gone)
        assert len(art.requests) == 4


def test_a_large_picture_is_made_as_small_as_a_screen_is() -> None:
    """And stands upright in its own colours; nothing of its shape is lost."""
    small = shrink_picture(DecoderSandbox(), make_picture("teal", (3000, 2000)), max_pixels=600)
    with Image.open(BytesIO(small)) as seen:
        assert seen.size == (600, 400)
        assert seen.convert("RGB").getpixel((300, 200)) == (0, 128, 128)
    tiny = make_picture("teal", (60, 40))
    assert shrink_picture(DecoderSandbox(), tiny, max_pixels=600) == tiny
