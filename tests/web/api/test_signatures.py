"""Signatures: drawn or from a picture, they close messages of their account."""

import io
from typing import Any

import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw

from quillpost.app.container import Container
from quillpost.fulfillment.batches.files import PRINT_FILE
from quillpost.privacy.service import delete_removed_handwriting
from support.factories import Account, Clock, make_sub_account, make_teammate, run_jobs_for
from support.own_handwriting import STROKES, sign
from support.production import files_of
from support.rows import scalar
from support.traces import assert_refused
from support.uploads import png

SIGNATURES = "/signatures"


def photograph() -> bytes:
    """A signature on paper that is not quite white."""
    picture = Image.new("RGB", (900, 400), (236, 233, 226))
    for stroke in STROKES:
        ImageDraw.Draw(picture).line([(2 * x + 60, 2 * y + 60) for x, y in stroke], (30, 40, 90), 9, "curve")
    file = io.BytesIO()
    picture.save(file, "JPEG")
    return file.getvalue()


def names(account: Account) -> list[str]:
    return [signature["name"] for signature in account.get(SIGNATURES).json()["data"]]


def preview(account: Account, **fields: Any) -> bytes:
    """The side with the message."""
    drawn = account.post("/preview", {"piece": "postcard", "message": "See you soon!"} | fields)
    assert drawn.status_code == 200, drawn.text
    data = drawn.json()["data"]
    url = dict(zip(data["sides"], data["previews"], strict=True))["back"]
    return account.http.get(url).content


def test_a_drawn_and_a_photographed_signature_close_messages(owner: Account, stranger: Account) -> None:
    drawn = sign(owner)
    picture = owner.call("POST", SIGNATURES, data={"name": "Photo"}, files={"picture": ("s.jpg", photograph())})
    assert picture.status_code == 201, picture.text
    assert names(owner) == ["Photo", "Dana"]
    looks = {preview(owner), preview(owner, signature=drawn), preview(owner, signature=picture.json()["id"])}
    assert len(looks) == 3
    assert preview(owner, signature_id=drawn) in looks, "the name that other fields have"

    assert (names(stranger), stranger.delete(f"{SIGNATURES}/{drawn}").status_code) == ([], 404)
    refused = stranger.send(signature=drawn)
    assert (refused.status_code, refused.json()["message"]) == (400, "Signature does not exist")


@pytest.mark.usefixtures("clean_database")
def test_an_order_keeps_its_signature_to_the_paper(owner: Account, container: Container, clock: Clock) -> None:
    plain, signed = owner.send().json()["id"], owner.send(signature=sign(owner)).json()["id"]
    owner.put(f"/orders/{signed}", {"message": "Hi %FIRST_NAME%, see you very soon!"})
    [number] = [each["id"] for each in owner.get(SIGNATURES).json()["data"]]
    assert owner.delete(f"{SIGNATURES}/{number}").status_code == 200
    assert owner.send(signature=number).status_code == 400
    delete_removed_handwriting(container.db)
    assert scalar(container, "select count(*) from signatures") == 1, "an order waits"
    run_jobs_for(container, clock, seconds=45)
    assert {owner.get(f"/orders/{each}").json()["status"] for each in (plain, signed)} == {"Fulfilled"}
    forms = [count_forms(page) for page in pdfium.PdfDocument(printed(container))]
    assert sorted(forms) == [0, 0, 0, 1], "the back of one card has a form more"
    delete_removed_handwriting(container.db)
    assert scalar(container, "select count(*) from signatures") == 0
    assert "deleted" in owner.post(f"/orders/{signed}/replay").json()["message"]
    assert owner.post(f"/orders/{plain}/replay").status_code == 200


def printed(container: Container) -> bytes:
    batch_id = scalar(container, "select max(id) from batches")
    [pdf] = [data for name, data in files_of(container, batch_id).items() if name.endswith(PRINT_FILE)]
    return pdf


def count_forms(page: pdfium.PdfPage) -> int:
    return sum(each.type == pdfium.raw.FPDF_PAGEOBJ_FORM for each in page.get_objects())


def test_a_saved_message_brings_its_signature(owner: Account, container: Container) -> None:
    number = sign(owner)
    fields = {"type": "postcard", "name": "Thanks", "content": "See you soon!", "signature_id": number}
    template = owner.post("/message-templates", fields).json()
    sent = owner.send(message_template=template["id"])
    assert sent.status_code == 200, sent.text
    order = sent.json()["id"]
    assert scalar(container, f"select signature_id from orders where id = {order}") == number
    refused = owner.delete(f"{SIGNATURES}/{number}")
    assert (refused.status_code, "Thanks" in refused.json()["message"]) == (400, True)
    assert owner.put(f"/message-templates/{template['id']}", {"signature_id": None}).status_code == 200
    assert owner.delete(f"{SIGNATURES}/{number}").status_code == 200
    gone = owner.put(f"/message-templates/{template['id']}", {"signature_id": number})
    assert list(gone.json()["errors"]) == ["signature_id"]


def test_a_signature_of_a_sub_account_is_for_its_mail(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    theirs, shared = sign(teammate, "Theirs"), sign(owner, "Ours")
    assert (names(teammate), sorted(names(owner))) == (["Theirs"], ["Ours", "Theirs"])
    assert owner.send(signature=theirs).status_code == 400
    assert owner.send(signature=theirs, sub_account_id=branch).status_code == 200
    assert teammate.send(signature=shared).status_code == 400


def test_what_is_no_signature_is_refused_with_the_reason(
    subtests: pytest.Subtests, owner: Account, container: Container
) -> None:
    assert_refused(
        subtests,
        container,
        lambda body: owner.post(SIGNATURES, body),
        [
            ({"name": "Dana"}, "picture", "draw it"),
            ({"name": "Dana", "strokes": []}, "picture"),
            ({"name": "Dana", "strokes": [[]]}, "picture"),
            ({"name": "", "strokes": STROKES}, "name"),
            ({"name": "Dana", "strokes": [[[5, 5]]]}, "strokes", "larger"),
            ({"name": "Dana", "strokes": [[[5]]]}, "strokes.0.0"),
            ({"name": "Dana", "strokes": [[[5, 1e9]]]}, "strokes.0.0.1"),
            ({"name": "Dana", "strokes": STROKES, "pen_width": 0}, "pen_width"),
        ],
    )
    assert_refused(
        subtests,
        container,
        lambda picture: owner.call("POST", SIGNATURES, data={"name": "Dana"}, files={"picture": ("s.png", picture)}),
        [(png((255, 255, 255)), "picture"), (b"no picture", "picture")],
    )
