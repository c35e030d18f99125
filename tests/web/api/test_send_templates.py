"""Templates and sub accounts in sends: the call wins, then the template, then the house; and blank messages."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from httpx2 import Response
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database.tables.base import sub_accounts
from quillpost.orders.drafts.rules import BLANK_MESSAGE_WARNING
from quillpost.orders.queries import read_order
from quillpost.orders.requests.queries import BACKGROUND_SETTINGS
from support.factories import GIFT, Account, Clock, make_sub_account, person, run_jobs_for
from support.images import ImageServer
from support.rows import execute, run
from support.traces import unchanged

pytestmark = pytest.mark.usefixtures("loopback_urls")

TEAL = (0, 128, 128)


def message_template(owner: Account, **fields: Any) -> int:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Saved", "content": "Saved words"} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def image_template(owner: Account, art: ImageServer, **fields: Any) -> int:
    made = owner.post("/image-templates", {"type": "postcard", "name": "Saved", "image": art.picture()} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def picture(owner: Account, url: str) -> Image.Image:
    return Image.open(BytesIO(owner.http.get(url).content)).convert("RGB")


def is_teal_somewhere(image: Image.Image) -> bool:
    width, height = image.size
    return TEAL in {image.getpixel((x, y)) for x in range(0, width, 20) for y in range(0, height, 20)}


def test_a_message_template_says_what_the_call_does_not(owner: Account, container: Container, art: ImageServer) -> None:
    saved = message_template(
        owner, handwriting_style_id=2, font_size="small", font_color="red", qrcode_url="https://example.com/saved",
        custom_background_url=art.picture("gold"), cc_emails=["scan@example.com"], handwriting_realism=False,
    )  # fmt: skip
    common = {"message": None, "front_image_url": art.picture(), "message_template": saved}
    sent = owner.send(**common, notification_emails=["own@example.com", "scan@example.com"]).json()
    order = run(container, read_order, sent["id"])
    assert order.notification_emails == ["own@example.com", "scan@example.com"]
    assert order.handwriting_manner == "neat"
    shown = ("message", "style", "font_size", "handwriting_color", "qrcode_url", "custom_background_url")
    assert [sent[name] for name in (*shown, "message_template_id")] == [
        "Saved words", 2, "small", "rgba(176,30,40,1)", "https://example.com/saved", art.picture("gold"), saved,
    ]  # fmt: skip
    own = {
        "message": "Own words", "handwriting_style": 1, "font_size": "large", "handwriting_color": "#000000",
        "qrcode_url": "https://example.com/own", "custom_background_image": art.picture("pink"),
    }  # fmt: skip
    answer = owner.send(**common | own).json()
    assert [answer[name] for name in shown] == [
        "Own words", 1, "large", "rgba(0,0,0,1)", "https://example.com/own", art.picture("pink"),
    ]  # fmt: skip
    assert owner.send(**common, use_custom_background=False).json()["custom_background_url"] is None


@pytest.mark.usefixtures("clean_database")
def test_an_image_template_is_printed_and_shown(owner: Account, container: Container, art: ImageServer) -> None:
    image = image_template(owner, art)
    kept = list(container.storage.store.keys("creative/"))
    front, _ = owner.send(image_template=image, preview=True).json()["data"]["previews"]
    assert picture(owner, front).getpixel((30, 30)) == TEAL
    sent = owner.send(image_template=image).json()
    by_other_names = owner.send(message=None, message_template_id=message_template(owner), image_template_id=str(image))
    assert by_other_names.json()["image_template_id"] == sent["image_template_id"] == image
    assert by_other_names.json()["message"] == "Saved words"
    assert picture(owner, sent["front_image"]).getpixel((30, 30)) == TEAL
    assert owner.get(f"/orders/{sent['id']}").json()["front_image"] == sent["front_image"]
    assert list(container.storage.store.keys("creative/")) == kept
    own = owner.send(image_template=image, front_image_url=art.picture("gold"))
    assert (own.json()["front_image"], own.headers["X-Ignored-Fields"]) == (art.picture("gold"), "image_template")
    assert "X-Ignored-Fields" not in owner.send(image_template=image).headers


def test_a_template_of_another_type_is_refused(
    subtests: pytest.Subtests, owner: Account, container: Container, art: ImageServer
) -> None:
    saved, image = message_template(owner), image_template(owner, art)
    folded = image_template(owner, art, type="notecard")
    large: dict[str, Any] = {"size": "6x11"}
    with unchanged(container):
        for piece, changes, kind in (("notecard", {}, "notecard"), ("letter", {}, "letter"),
                                     ("postcard", large, "postcard6x11")):  # fmt: skip
            with subtests.test(kind):
                refused = owner.send(piece, message_template=saved, **changes)
                error = f"This template is of type postcard; this piece needs one of type {kind}."
                assert (refused.status_code, refused.json()["errors"]) == (422, {"message_template": [error]})
        assert list(owner.send(image_template=folded).json()["errors"]) == ["image_template"]
    for piece, changes in (("postcard", large), ("magnacard", {})):
        assert owner.send(piece, image_template=image, **changes).status_code == 200


def test_a_template_that_is_unknown_or_a_strangers_is_refused(
    owner: Account, stranger: Account, container: Container, art: ImageServer
) -> None:
    elsewhere = make_sub_account(container, owner)
    kinds: list[tuple[str, Callable[[Account], int], str]] = [
        ("message_template", message_template, "Message Template does not exist"),
        ("image_template", lambda account: image_template(account, art), "Image Template does not exist"),
    ]
    for field, make, sentence in kinds:
        theirs, ours = make(stranger), make(owner)
        owner.put(f"/{field.replace('_', '-')}s/{ours}", {"sub_account_id": elsewhere})
        with unchanged(container):
            for number in (theirs, 10**9, ours):
                refused = owner.send(**{field: number})
                assert (refused.status_code, refused.json()) == (400, {"message": sentence})
        assert owner.send(sub_account_id=elsewhere, **{field: ours}).status_code == 200


def test_what_is_wrong_with_a_template_or_gone_is_named_at_once(owner: Account, art: ImageServer) -> None:
    saved = message_template(owner, custom_background_url=art.url("/gone"))
    [error] = owner.send(message_template=saved).json()["errors"]["message_template"]
    assert error.endswith("(its custom_background_url)")
    long = message_template(owner, content="A long story. " * 200)
    refused = owner.send(message=None, front_image_url=art.picture(), message_template=long)
    assert list(refused.json()["errors"]) == ["message_template"]
    wide = message_template(owner, type="postcard6x11", custom_background_url=art.picture())
    sent = owner.send(size="6x11", message_template=wide)
    assert "message_template (its custom_background_url)" in sent.headers["X-Warnings"]
    for piece, field in (("postcard", "custom_background_image"), ("letter", "additional_pages_url")):
        refused = owner.send(piece, **dict.fromkeys(("front_image_url", field), art.url("/gone")))
        assert set(refused.json()["errors"]) == {"front_image_url", field}


def test_the_pdfs_of_a_letter_may_come_from_its_template(owner: Account, art: ImageServer) -> None:
    more = message_template(owner, type="letter", additional_pages=art.letter(1))
    whole = message_template(owner, type="letter", content="", pdf_only_url=art.letter(2))
    body = {"recipients": [person()], "preview": True}
    extended = owner.post("/send/letter", body | {"message_template": more, "front_image_url": art.picture()})
    assert extended.json()["data"]["sides"] == ["cover", "page 2"]
    assert len(owner.post("/send/letter", body | {"message_template": whole}).json()["data"]["sides"]) == 3
    # With a message of the call it is a letter with a cover again.
    covered = owner.post("/send/letter", body | {"message_template": whole, "message": "Hi!"})
    assert covered.json()["data"]["sides"] == ["cover"]
    assert "the PDF of its template is not printed" in covered.headers["X-Warnings"]


BRANDING = {"accentColor": "#aa3300", "company": "Hill & Vale", "phone": "512 555 0100", "domain": "hill.example"}


def branch(owner: Account, **fields: Any) -> int:
    made = owner.post("/sub-accounts", {"title": "Branch"} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def test_a_sub_accounts_branding_is_on_the_front_and_signs_the_message(owner: Account, art: ImageServer) -> None:
    plain, branded = branch(owner), branch(owner, branding_fields=BRANDING)
    with_logo = branch(owner, branding_fields=BRANDING | {"logo": art.picture()})
    fronts = [
        picture(owner, owner.send(sub_account_id=number, preview=True).json()["data"]["previews"][0])
        for number in (plain, branded, with_logo)
    ]
    assert len({front.tobytes() for front in fronts}) == 3
    assert [is_teal_somewhere(front) for front in fronts] == [False, False, True]
    assert is_teal_somewhere(picture(owner, owner.send(sub_account_id=with_logo).json()["front_image"]))
    own = owner.send(sub_account_id=with_logo, front_image_url=art.picture("gold"))
    assert own.json()["front_image"] == art.picture("gold")
    # A logo that is only a word is not printed, and one that is gone is named.
    word, gone = (branch(owner, branding_fields={"logo": logo}) for logo in ("quill", art.url("/gone")))
    assert owner.send(sub_account_id=word, preview=True).status_code == 200
    [error] = owner.send(sub_account_id=gone).json()["errors"]["sub_account_id"]
    assert error.endswith("(its logo)")
    number = branch(owner, branding_fields={"name": "Vera Vale", "company": "Hill & Vale"})
    signed, written = (
        owner.send(message=message, sub_account_id=number, preview=True).json()["data"]["previews"][1]
        for message in ("Yours, %YOUR_NAME% of %YOUR_COMPANY%", "Yours, Vera Vale of Hill & Vale")
    )
    assert owner.http.get(signed).content == owner.http.get(written).content


def test_a_sub_accounts_background_is_the_default(subtests: pytest.Subtests, owner: Account, art: ImageServer) -> None:
    pieces: list[tuple[str, dict[str, str], str]] = [
        ("postcard", {}, "message"), ("postcard", {"size": "6x9"}, "postcard6x9"), ("notecard", {}, "notecard"),
        ("letter", {}, "windowedletter"), ("windowless-letter", {}, "windowlessletter"), ("magnacard", {}, "message"),
    ]  # fmt: skip
    for piece, changes, name in pieces:
        number = branch(owner, **{f"{name}_background_url": art.picture()})
        # Below the window of an envelope, through which a letter shows nothing but its address.
        side, place = (0, (8, 900)) if "letter" in piece else (1, (8, 300))
        for more, is_teal in (({}, True), ({"use_custom_background": False}, False)):
            with subtests.test(f"{piece} {changes} {more}"):
                answer = owner.send(piece, sub_account_id=number, preview=True, **changes, **more).json()
                assert (picture(owner, answer["data"]["previews"][side]).getpixel(place) == TEAL) is is_teal


def outcome(answer: Response) -> list[str] | str:
    """The message of what was sent, or the fields that are wrong."""
    assert answer.status_code in (200, 422), answer.text
    return answer.json()["message"] if answer.is_success else list(answer.json()["errors"])


@pytest.mark.usefixtures("clean_database")
def test_a_background_needs_no_message(owner: Account, container: Container, clock: Clock, art: ImageServer) -> None:
    background = {"front_image_url": art.picture(), "custom_background_image": art.picture()}
    orders = []
    for piece, blank in (("postcard", ""), ("notecard", " \n"), ("magnacard", " ")):
        shown = owner.send(piece, preview=True, message=blank, **background)
        assert (shown.status_code, len(shown.json()["data"]["previews"])) == (200, 2)
        sent = owner.send(piece, message=blank, **background)
        assert outcome(sent) == ""
        orders.append(sent.json()["id"])
        assert owner.get(f"/orders/{orders[-1]}").json()["warnings"][0] == BLANK_MESSAGE_WARNING
    run_jobs_for(container, clock, seconds=45)
    items = [owner.get(f"/orders/{order}/items").json()["data"] for order in orders]
    assert [[item["status"] for item in of_order] for of_order in items] == [["Delivered"]] * 3


def test_a_blank_message_needs_a_background_of_the_call_or_its_template(owner: Account, art: ImageServer) -> None:
    front = {"front_image_url": art.picture()}
    both = front | {"custom_background_image": art.picture()}
    assert outcome(owner.send(message="", **front)) == ["message"]
    assert outcome(owner.send(message=None, **both)) == ["message"]
    for piece in ("windowed-letter", "windowless-letter", "giftcard"):
        assert outcome(owner.send(piece, message="", **both)) == ["message"]
    lost = owner.send(message="%CUSTOM1%", custom_background_image=art.picture())
    assert lost.json()["errors"] == {"message": ["The message is empty (for recipient 0)."]}
    common: dict[str, Any] = {"message": None, "front_image_url": art.picture()}
    gold = {"content": "", "custom_background_url": art.picture("gold")}
    common |= {"message_template": message_template(owner, **gold)}
    assert outcome(owner.send(**common)) == ""
    assert outcome(owner.send(**common, use_custom_background=False)) == ["message_template"]
    gift = {"giftcard_brand_code": GIFT["giftcard_brand"], "giftcard_amount": GIFT["giftcard_amount"]}
    of_a_gift = message_template(owner, type="giftcard", **gold, **gift)
    assert outcome(owner.send("giftcard", **common | {"message_template": of_a_gift})) == ""


def test_a_background_of_a_sub_account_or_order_counts(owner: Account, container: Container, art: ImageServer) -> None:
    home = make_sub_account(container, owner)
    backgrounds = {BACKGROUND_SETTINGS["notecard"]: art.picture("gold")}
    execute(container, sub_accounts.update().where(sub_accounts.c.id == home).values(backgrounds=backgrounds))
    body = {"message": "", "front_image_url": art.picture(), "sub_account_id": home}
    assert outcome(owner.send("notecard", **body)) == ""
    assert outcome(owner.send("postcard", **body)) == ["message"]
    assert outcome(owner.send("notecard", **body, use_custom_background=False)) == ["message"]
    with_art = owner.send(custom_background_image=art.picture("gold")).json()["id"]
    changed = owner.put(f"/orders/{with_art}", {"message": ""})
    assert (outcome(changed), BLANK_MESSAGE_WARNING in changed.json()["warnings"]) == ("", True)
    assert owner.put(f"/orders/{owner.send().json()['id']}", {"message": ""}).status_code == 422
