import io
from dataclasses import replace
from itertools import combinations

import numpy as np
import pikepdf
import pytest
import segno
import zxingcpp
from cards import (
    JENNY,
    QR_URL,
    TRACKING,
    copy,
    cropped,
    design,
    image_of,
    letters_on,
    page_text,
    picture,
)
from PIL import Image

from quillpost.composition import compose
from quillpost.composition.art.image import Picture, prepare_picture
from quillpost.composition.compose import (
    check_address_fits,
    check_message_fits,
    check_sender_fits,
    compose_batch,
    pages_of,
    plain_front_png,
    preview,
)
from quillpost.composition.content import Addressee, ReturnAddress, Sender
from quillpost.composition.marks.barcode import encode
from quillpost.composition.marks.qr import QrEncoder
from quillpost.composition.pages.layout import DoesNotFit
from quillpost.composition.pages.pieces import INCH, PIECES, PieceTemplate
from quillpost.composition.pdf.raster import rasterise

WHITE = (255, 255, 255)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_nothing_on_a_template_overlaps(piece: PieceTemplate) -> None:
    places = {
        "message": piece.message_box(qr=True),
        "qr": piece.qr,
        "divider": piece.divider,
        "return address": piece.return_address,
        "indicia": piece.indicia,
        "address": piece.address,
        "barcode": piece.barcode,
    }
    clashes = [
        (one, other)
        for (one, a), (other, b) in combinations(places.items(), 2)
        if a.left <= b.right and b.left <= a.right and a.bottom <= b.top and b.bottom <= a.top
    ]
    assert clashes == []
    safe = piece.trim.grown(-3 / 16 * INCH)
    assert [name for name, box in places.items() if not safe.contains(box)] == []


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_only_address_and_barcode_are_in_the_ink_free_zone(piece: PieceTemplate) -> None:
    zone = piece.ink_free
    assert zone.contains(piece.address)
    # 1/8 in must be clear on both sides of the bars.
    assert zone.left + INCH / 8 <= piece.barcode.left
    assert piece.barcode.right <= zone.right - INCH / 8
    assert max(piece.message.right, piece.divider.right, piece.qr.right) < zone.left
    assert zone.top < min(piece.return_address.bottom, piece.indicia.bottom)


@pytest.mark.parametrize("key", PIECES)
def test_neither_background_nor_handwriting_enters_the_ink_free_zone(key: str) -> None:
    look = replace(design(key, background=picture()), ink=(1.0, 0.0, 0.0))
    nobody = copy(addressee=Addressee(), tracking=None, qr_url=QR_URL)
    back = image_of(preview(look, nobody, dpi=72)["back"])
    zone = cropped(back, PIECES[key].ink_free.grown(-1), 72)
    assert set(zone.get_flattened_data()) == {WHITE}
    assert back.getpixel((2, 2)) == (0, 0, 0)


@pytest.mark.parametrize("key", PIECES)
@pytest.mark.parametrize("qr_url", [None, QR_URL])
def test_every_letter_of_the_back_is_in_a_box_of_its_own(key: str, qr_url: str | None) -> None:
    piece = PIECES[key]
    pdf = compose_batch({0: design(key)}, [copy(qr_url=qr_url)])
    boxes = (
        piece.message_box(qr=qr_url is not None),
        piece.address,
        piece.return_address,
        piece.indicia,
    )
    letters = letters_on(pdf, 1)
    assert len(letters) > 200
    strays = [
        (letter, ink) for letter, ink in letters if not any(box.grown(0.35).contains(ink) for box in boxes)
    ]
    assert strays == []


def test_names_can_be_read_back_as_text() -> None:
    text = page_text(compose_batch({0: design()}, [copy()]), 1)
    for line in (
        "JENNY SKINNER\nSKINNER & SÖHNE\n8380 HARMON UNDERPASS\nPORT STEVENBURY SD 98227-5874",
        "Dana Whitfield\nPO Box 1180\nAustin, TX 78701",
        "Hi Jenny,",
        "Warmly, Dana",
        "U.S. POSTAGE PAID",
    ):
        assert line in text


def test_a_foreign_address_names_its_country_and_a_domestic_one_does_not() -> None:
    canada = replace(JENNY, province="ON", country="Canada")
    pdf = compose_batch(
        {0: design()}, [copy(addressee=canada, tracking=None), copy(addressee=replace(JENNY, country="us"))]
    )
    assert "\nCANADA" in page_text(pdf, 1)
    assert "\nUS" not in page_text(pdf, 3)


def test_every_piece_has_two_pages_in_the_order_given() -> None:
    people = [replace(JENNY, name=name) for name in ("Ann Alder", "Bob Birch", "Cy Cedar")]
    copies = [copy(i, person, design=i % 2) for i, person in enumerate(people)]
    pdf = compose_batch({0: design(), 1: design("postcard-6x9")}, copies)
    assert [pages_of(i) for i in range(3)] == [(1, 2), (3, 4), (5, 6)]
    for index, name in enumerate(("ANN ALDER", "BOB BIRCH", "CY CEDAR")):
        assert name in page_text(pdf, pages_of(index)[1] - 1)


def test_pages_carry_their_trim_and_bleed_boxes() -> None:
    pdf = compose_batch({0: design("postcard-6x9")}, [copy()])
    with pikepdf.open(io.BytesIO(pdf)) as document:
        assert len(document.pages) == 2
        for page in document.pages:
            assert [float(x) for x in page.trimbox] == [9, 9, 657, 441]
            assert [float(x) for x in page.mediabox] == [0, 0, 666, 450]
            assert [float(x) for x in page.bleedbox] == [0, 0, 666, 450]
        assert document.check_pdf_syntax() == []


def test_a_large_batch_is_sound_and_shares_what_is_the_same() -> None:
    art = picture(size=(600, 400))
    copies = [copy(i, qr_url=f"https://q.example.com/s/{i:06d}") for i in range(300)]
    pdf = compose_batch({0: design(front=art, background=art)}, copies)
    with pikepdf.open(io.BytesIO(pdf)) as document:
        assert document.check_pdf_syntax() == []
        assert len(document.pages) == 600
        fronts = {page.obj.Contents[0].objgen for page in document.pages[::2]}
        assert len(fronts) == 1
        images = [o for o in document.objects if _is_image(o)]
        assert len(images) == 1
    one = compose_batch({0: design(front=art, background=art)}, copies[:1])
    assert len(pdf) - len(one) < 300 * 3000


def test_designs_with_equal_art_share_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def prepare(data: bytes) -> Picture:
        decoded.append(data)
        return prepare_picture(data)

    monkeypatch.setattr(compose, "prepare_picture", prepare)
    noise = np.random.default_rng(1).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG")
    # Every design has read its art from the shelf by itself: equal bytes, other objects.
    designs = {
        key: design(front=file.getvalue(), background=bytes(bytearray(file.getvalue()))) for key in range(50)
    }
    copies = [copy(key, design=key) for key in designs]
    pdf = compose_batch(designs, copies)
    assert len(decoded) == 1
    one = compose_batch(designs, copies[:1])
    assert len(pdf) - len(one) < 50 * 5000 < 2 * len(file.getvalue())
    with pikepdf.open(io.BytesIO(pdf)) as document:
        assert len([o for o in document.objects if _is_image(o)]) == 1


def test_one_picture_on_two_sizes_covers_both() -> None:
    art = picture()
    designs = {0: design(front=art), 1: design("postcard-6x11", front=art)}
    both = compose_batch(designs, [copy(1), copy(2, design=1)])
    for page in (0, 2):
        assert set(image_of(rasterise(both, dpi=36)[page]).get_flattened_data()) == {(0, 0, 0)}


def test_the_same_pieces_give_the_same_bytes() -> None:
    designs = {0: design(front=picture(), background=picture("PNG"))}
    copies = [copy(i, qr_url=QR_URL) for i in range(3)]
    assert compose_batch(designs, copies) == compose_batch(designs, copies)


def test_a_piece_looks_the_same_in_any_batch() -> None:
    alone = compose_batch({0: design()}, [copy(5)])
    among_others = compose_batch({0: design()}, [copy(4), copy(5)])
    assert letters_on(alone, 1) == letters_on(among_others, 3)


@pytest.mark.parametrize("key", PIECES)
@pytest.mark.parametrize("background", [None, picture()], ids=["paper", "art"])
def test_the_qr_code_can_be_scanned_from_a_preview(key: str, background: bytes | None) -> None:
    look = design(key, background=background)
    back = image_of(preview(look, copy(qr_url=QR_URL))["back"])
    assert [found.text for found in zxingcpp.read_barcodes(back)] == [QR_URL]


def test_learned_qr_codes_are_those_that_a_full_encoding_gives() -> None:
    encoder = QrEncoder()
    for url in (QR_URL, "https://q.example.com/s/zzzzzz", "https://q.example.com/x/aB3-_9", "HI"):
        full = segno.make(url, error="m", mode="byte", mask=2, micro=False, boost_error=False)
        rows = ["".join("1" if module else "0" for module in row) for row in full.matrix]
        assert encoder.encode(url).rows() == rows


def test_the_printed_bars_are_the_barcode() -> None:
    place_of_bars = PIECES["postcard-4x6"].barcode
    dpi = 600
    back = image_of(preview(design(), copy(addressee=Addressee()), dpi=dpi)["back"])
    bars = cropped(back, place_of_bars, dpi).convert("L")
    top, bottom, letters = 12, bars.height - 12, []
    for place in range(65):
        x = round((place * INCH / 22 + INCH / 100) * dpi / INCH)
        ascends, descends = (bars.getpixel((x, y)) == 0 for y in (top, bottom))
        letters.append({(0, 0): "T", (1, 0): "A", (0, 1): "D", (1, 1): "F"}[ascends, descends])
    assert "".join(letters) == encode(TRACKING, "98227587412")


def test_previews_have_the_finished_size() -> None:
    sides = preview(design("postcard-6x11"), copy(), dpi=100)
    assert {side: image_of(png).size for side, png in sides.items()} == {
        "front": (1100, 600),
        "back": (1100, 600),
    }


@pytest.mark.parametrize("key", PIECES)
def test_the_plain_front_is_the_printed_one_and_is_drawn_once(key: str) -> None:
    unsigned = replace(design(key), sender=Sender())
    front = plain_front_png(key, 50)
    assert front == preview(unsigned, copy(), dpi=50)["front"]
    assert plain_front_png(key, 50) is front


def test_without_realism_every_piece_is_written_alike_on_level_lines() -> None:
    look = replace(design(message="zzz zzz zzz\nzzz zzz"), realism=False)
    one, other = (letters_on(compose_batch({0: look}, [copy(i)]), 1) for i in (1, 2))
    assert one == other
    written = [ink for letter, ink in one if letter == "z"]
    assert len(written) == 15
    assert len({round(ink.bottom, 1) for ink in written}) == 2
    assert len({round(ink.height, 1) for ink in written}) == 1
    lively = compose_batch({0: replace(look, realism=True)}, [copy(1)])
    assert letters_on(lively, 1) != one


def test_a_front_without_art_is_not_an_empty_page() -> None:
    pdf = compose_batch({0: design()}, [copy()])
    assert page_text(pdf, 0).split("\n") == ["a note for you", "MAPLE & MAIN REALTY"]


def test_what_passes_the_check_composes_with_and_without_a_qr_code() -> None:
    words = 10
    while True:
        look = design(message="word " * words)
        try:
            check_message_fits(look, JENNY, qr=True)
        except DoesNotFit:
            break
        compose_batch({0: look}, [copy(qr_url=QR_URL), copy()])
        words += 40
    check_message_fits(look, JENNY, qr=False)


def test_a_long_address_is_set_smaller_and_wrapped_but_an_endless_one_is_refused() -> None:
    long = replace(JENNY, company="Incorporated Society of Very Long Company Names and Successors")
    check_address_fits(design(), long)
    compose_batch({0: design()}, [copy(addressee=long)])
    with pytest.raises(DoesNotFit, match="The address is too long"):
        check_address_fits(design(), replace(JENNY, company="Endless " * 60))


def test_an_endless_return_address_is_refused() -> None:
    look = replace(design(), return_address=ReturnAddress(name="Endless " * 80))
    with pytest.raises(DoesNotFit, match="The return address is too long"):
        check_sender_fits(look)


def _is_image(thing: pikepdf.Object) -> bool:
    return isinstance(thing, pikepdf.Stream) and thing.get("/Subtype") == "/Image"
