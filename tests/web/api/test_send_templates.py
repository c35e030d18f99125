"""Templates and sub accounts in sends: what the call says wins, then the template, then the house."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from quillpost.app.container import Container
from quillpost.orders.queries import read_order
from support.factories import Account, Build, make_sub_account, person
from support.image_server import ImageServer
from support.traces import traces


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def message_template(owner: Account, **fields: Any) -> int:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Saved", "content": "Saved words"} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def image_template(owner: Account, art: ImageServer, **fields: Any) -> int:
    made = owner.post("/image-templates", {"type": "postcard", "name": "Saved", "image": art.picture()} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def colour_at(owner: Account, url: str, where: tuple[int, int] = (30, 30)) -> tuple[int, ...]:
    return Image.open(BytesIO(owner.http.get(url).content)).convert("RGB").getpixel(where)  # type: ignore[return-value]


TEAL = (0, 128, 128)


def test_a_message_template_says_what_the_call_does_not(owner: Account, container: Container, art: ImageServer) -> None:
    saved = message_template(
        owner,
        handwriting_style_id=2,
        font_size="small",
        font_color="red",
        qrcode_url="https://example.com/saved",
        custom_background_url=art.picture("gold"),
        cc_emails=["scan@example.com"],
        handwriting_realism=False,
    )
    common = {"message": None, "front_image_url": art.picture(), "message_template": saved}
    sent = owner.send(**common, notification_emails=["own@example.com", "scan@example.com"]).json()
    with container.db.system_transaction() as tx:
        order = read_order(tx, sent["id"])
    assert order.notification_emails == ["own@example.com", "scan@example.com"]
    assert order.handwriting_realism is False
    assert {name: sent[name] for name in ("message", "style", "font_size", "qrcode_url")} == {
        "message": "Saved words",
        "style": 2,
        "font_size": "small",
        "qrcode_url": "https://example.com/saved",
    }
    assert (sent["message_template_id"], sent["handwriting_color"]) == (saved, "rgba(176,30,40,1)")
    assert sent["custom_background_url"] == art.picture("gold")
    own = owner.send(
        **common
        | {
            "message": "Own words",
            "handwriting_style": 1,
            "font_size": "large",
            "handwriting_color": "#000000",
            "qrcode_url": "https://example.com/own",
            "custom_background_image": art.picture("pink"),
        }
    ).json()
    assert [own[n] for n in ("message", "style", "font_size", "handwriting_color", "qrcode_url")] == [
        "Own words", 1, "large", "rgba(0,0,0,1)", "https://example.com/own",
    ]  # fmt: skip
    assert own["custom_background_url"] == art.picture("pink")
    plain = owner.send(**common, use_custom_background=False).json()
    assert plain["custom_background_url"] is None


@pytest.mark.parametrize("name", ["message_template", "message_template_id"])
@pytest.mark.parametrize("image_name", ["image_template", "image_template_id"])
def test_templates_have_two_names(owner: Account, art: ImageServer, name: str, image_name: str) -> None:
    saved, image = message_template(owner), image_template(owner, art)
    sent = owner.send(message=None, **{name: saved, image_name: str(image)}).json()
    assert (sent["message_template_id"], sent["image_template_id"]) == (saved, image)


def test_an_image_template_is_printed_and_shown(owner: Account, container: Container, art: ImageServer) -> None:
    image = image_template(owner, art)
    kept = list(container.storage.store.keys("creative/"))
    front, _ = owner.send(image_template=image, preview=True).json()["data"]["previews"]
    assert colour_at(owner, front) == TEAL
    sent = owner.send(image_template=image).json()
    assert colour_at(owner, sent["front_image"]) == TEAL
    assert owner.get(f"/orders/{sent['id']}").json()["front_image"] == sent["front_image"]
    assert list(container.storage.store.keys("creative/")) == kept
    own = owner.send(image_template=image, front_image_url=art.picture("gold")).json()
    assert own["front_image"] == art.picture("gold")


@pytest.mark.parametrize(
    ("piece", "changes", "expected"),
    [("notecard", {}, "notecard"), ("letter", {}, "letter"), ("postcard", {"size": "6x11"}, "postcard6x11")],
)
def test_a_message_template_of_another_type_is_refused(
    owner: Account, container: Container, piece: str, changes: dict[str, str], expected: str
) -> None:
    saved = message_template(owner)
    before = traces(container)
    refused = owner.send(piece, message_template=saved, **changes)
    assert refused.status_code == 422
    assert refused.json()["errors"] == {
        "message_template": [f"This template is of type postcard; this piece needs one of type {expected}."]
    }
    assert traces(container) == before


def test_an_image_template_of_another_type_is_refused(owner: Account, art: ImageServer) -> None:
    image = image_template(owner, art, type="notecard")
    assert list(owner.send(image_template=image).json()["errors"]) == ["image_template"]
    postcards = image_template(owner, art)
    for piece, changes in (("postcard", {"size": "6x11"}), ("magnacard", {})):
        assert owner.send(piece, image_template=postcards, **changes).status_code == 200


@pytest.mark.parametrize(
    ("field", "sentence"),
    [("message_template", "Message Template does not exist"), ("image_template", "Image Template does not exist")],
)
def test_a_template_that_is_unknown_or_a_strangers_is_refused(
    owner: Account, stranger: Account, container: Container, art: ImageServer, field: str, sentence: str
) -> None:
    ways: dict[str, Callable[[Account], int]] = {
        "message_template": message_template,
        "image_template": lambda account: image_template(account, art),
    }
    make = ways[field]
    theirs, elsewhere = make(stranger), make_sub_account(container, owner)
    ours = make(owner)
    owner.put(f"/{field.replace('_', '-')}s/{ours}", {"sub_account_id": elsewhere})
    before = traces(container)
    for number in (theirs, 10**9, ours):
        refused = owner.send(**{field: number})
        assert (refused.status_code, refused.json()) == (400, {"message": sentence})
    assert traces(container) == before
    assert owner.send(sub_account_id=elsewhere, **{field: ours}).status_code == 200


def test_what_is_wrong_with_a_template_names_the_template(owner: Account, art: ImageServer) -> None:
    saved = message_template(owner, custom_background_url=art.url("/gone"))
    (error,) = owner.send(message_template=saved).json()["errors"]["message_template"]
    assert error.endswith("(its custom_background_url)")
    long = message_template(owner, content="A long story. " * 200)
    refused = owner.send(message=None, front_image_url=art.picture(), message_template=long)
    assert list(refused.json()["errors"]) == ["message_template"]


def test_every_picture_and_pdf_that_is_gone_is_named_at_once(owner: Account, art: ImageServer) -> None:
    gone = art.url("/gone")
    card = owner.send(front_image_url=gone, custom_background_image=gone)
    assert set(card.json()["errors"]) == {"front_image_url", "custom_background_image"}
    letter = owner.send("letter", front_image_url=gone, additional_pages_url=gone)
    assert set(letter.json()["errors"]) == {"front_image_url", "additional_pages_url"}


def test_a_warning_about_a_templates_background_names_its_field(owner: Account, art: ImageServer) -> None:
    saved = message_template(owner, type="postcard6x11", custom_background_url=art.picture())
    sent = owner.send(size="6x11", message_template=saved)
    assert "message_template (its custom_background_url)" in sent.headers["X-Warnings"]


def test_a_template_with_a_pdf_is_a_letter_with_a_cover_again_when_the_call_has_a_message(
    owner: Account, art: ImageServer
) -> None:
    saved = message_template(owner, type="letter", content="", pdf_only_url=art.letter(2))
    body = {"recipients": [person()], "message_template": saved, "preview": True}
    assert len(owner.post("/send/letter", body).json()["data"]["sides"]) == 3
    covered = owner.post("/send/letter", body | {"message": "Hi!"})
    assert covered.json()["data"]["sides"] == ["cover"]
    assert "the PDF of its template is not printed" in covered.headers["X-Warnings"]


def test_an_image_template_beside_the_calls_own_picture_is_named_as_ignored(owner: Account, art: ImageServer) -> None:
    saved = image_template(owner, art)
    both = owner.send(image_template_id=saved, front_image_url=art.picture())
    assert (both.status_code, both.headers["X-Ignored-Fields"]) == (200, "image_template_id")
    assert "X-Ignored-Fields" not in owner.send(image_template_id=saved).headers


def test_additional_pages_may_come_from_the_template(owner: Account, art: ImageServer) -> None:
    saved = message_template(owner, type="letter", additional_pages=art.letter(1))
    body = {"recipients": [person()], "message_template": saved, "front_image_url": art.picture(), "preview": True}
    assert owner.post("/send/letter", body).json()["data"]["sides"] == ["cover", "page 2"]


BRANDING = {"accentColor": "#aa3300", "company": "Hill & Vale", "phone": "512 555 0100", "domain": "hill.example"}


def branch(owner: Account, **fields: Any) -> int:
    made = owner.post("/sub-accounts", {"title": "Branch"} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def test_a_front_without_art_shows_the_sub_accounts_branding(owner: Account, art: ImageServer) -> None:
    plain, branded = branch(owner), branch(owner, branding_fields=BRANDING)
    with_logo = branch(owner, branding_fields=BRANDING | {"logo": art.picture()})
    fronts = [
        owner.http.get(owner.send(sub_account_id=number, preview=True).json()["data"]["previews"][0]).content
        for number in (plain, branded, with_logo)
    ]
    assert len(set(fronts)) == 3
    logo = Image.open(BytesIO(fronts[2])).convert("RGB")
    assert TEAL in {logo.getpixel((x, y)) for x in range(0, 900, 20) for y in range(0, 600, 20)}
    sent = owner.send(sub_account_id=with_logo).json()
    shown = Image.open(BytesIO(owner.http.get(sent["front_image"]).content)).convert("RGB")
    assert TEAL in {shown.getpixel((x, y)) for x in range(0, 600, 20) for y in range(0, 400, 20)}
    assert owner.send(sub_account_id=with_logo, front_image_url=art.picture("gold")).json()[
        "front_image"
    ] == art.picture("gold")


def test_a_logo_that_is_only_a_word_is_not_printed(owner: Account) -> None:
    number = branch(owner, branding_fields={"logo": "quill"})
    assert owner.send(sub_account_id=number, preview=True).status_code == 200


def test_a_logo_that_is_gone_is_named(owner: Account, art: ImageServer) -> None:
    number = branch(owner, branding_fields={"logo": art.url("/gone")})
    (error,) = owner.send(sub_account_id=number).json()["errors"]["sub_account_id"]
    assert error.endswith("(its logo)")


def test_the_branding_signs_the_message(owner: Account) -> None:
    number = branch(owner, branding_fields={"name": "Vera Vale", "company": "Hill & Vale"})
    body = {"recipients": [person()], "message": "Yours, %YOUR_NAME% of %YOUR_COMPANY%", "preview": True}
    signed = owner.post("/send/postcard", body | {"sub_account_id": number}).json()["data"]["previews"][1]
    written = body | {"sub_account_id": number, "message": "Yours, Vera Vale of Hill & Vale"}
    same = owner.post("/send/postcard", written).json()["data"]["previews"][1]
    assert owner.http.get(signed).content == owner.http.get(same).content


@pytest.mark.parametrize(
    ("piece", "changes", "name", "side"),
    [
        ("postcard", {}, "message_background_url", 1),
        ("postcard", {"size": "6x9"}, "postcard6x9_background_url", 1),
        ("notecard", {}, "notecard_background_url", 1),
        ("letter", {}, "windowedletter_background_url", 0),
        ("windowless-letter", {}, "windowlessletter_background_url", 0),
        ("magnacard", {}, "message_background_url", 1),
    ],
)
def test_a_piece_falls_back_to_the_sub_accounts_background(
    owner: Account, art: ImageServer, piece: str, changes: dict[str, str], name: str, side: int
) -> None:
    number = branch(owner, **{name: art.picture()})

    def shown(**more: Any) -> tuple[int, ...]:
        answer = owner.send(piece, sub_account_id=number, preview=True, **changes, **more).json()
        # Below the window of an envelope, through which a letter shows nothing but its address.
        place = (8, 900) if "letter" in piece else (8, 300)
        return colour_at(owner, answer["data"]["previews"][side], place)

    assert shown() == TEAL
    assert shown(use_custom_background=False) != TEAL


def test_the_return_address_is_the_calls_then_the_sub_accounts_then_the_accounts(owner: Account) -> None:
    number = branch(owner, return_name="Branch", return_address="9 Branch Rd", return_state="TX")
    sent = owner.send(sub_account_id=number).json()
    assert (sent["return_address"], sent["return_province"]) == ("9 Branch Rd", "TX")
    named = owner.send(sub_account_id=number, return_name="Dana").json()
    assert (named["return_name"], named["return_address"]) == ("Dana", "9 Branch Rd")
    own = owner.send(sub_account_id=number, return_address="1 Own Rd, Tulsa, OK 74101").json()
    assert (own["return_address"], own["return_province"]) == ("1 Own Rd", "OK")
