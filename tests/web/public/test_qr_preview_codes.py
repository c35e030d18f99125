"""Where the codes lead that somebody scans from a screen: those of a preview, and those of a proof."""

import io
from collections.abc import Sequence
from urllib.parse import urlsplit

import pypdfium2 as pdfium
import zxingcpp
from PIL import Image
from test_public_pages import BROWSER

from quillpost.app.container import Container
from quillpost.core.tokens import PREVIEW_CODE, UNAMBIGUOUS_CHARS
from support.factories import Account, count_rows
from support.page_parser import ParsedPage
from support.qr_scans import codes_of, count_scans, inbox_rows, scan
from support.test_client import TestClient

PAGE = "https://shop.example.com/hi"


def codes_in(pictures: Sequence[Image.Image]) -> list[str]:
    """What a phone reads there, the host aside."""
    formats = zxingcpp.BarcodeFormats(zxingcpp.QRCode)
    found = [code.text for picture in pictures for code in zxingcpp.read_barcodes(picture, formats)]
    return [text.rpartition("/q/")[2] for text in found]


def test_a_preview_s_code_leads_to_a_page_that_says_so_and_counts_nowhere(
    owner: Account, http: TestClient, container: Container
) -> None:
    shown = owner.send(qrcode_url=PAGE, preview=True).json()["data"]["previews"]
    pictures = [Image.open(io.BytesIO(http.get(urlsplit(url).path).content)) for url in shown]
    [code] = codes_in(pictures)
    assert code == PREVIEW_CODE
    before = count_rows(container)
    for method in ("GET", "HEAD"):
        response = scan(http, code, method)
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
    assert "preview" in scan(http, code).json()["message"]
    page = scan(http, code, **BROWSER)
    assert (page.status_code, page.headers["Cache-Control"]) == (200, "no-store")
    assert "This is a preview." in ParsedPage.of(page.text).words
    assert count_rows(container) == before


def test_no_piece_can_have_a_preview_s_code() -> None:
    assert set(PREVIEW_CODE) - set(UNAMBIGUOUS_CHARS)


def test_a_proof_carries_the_pieces_own_codes(owner: Account, http: TestClient, container: Container) -> None:
    order = owner.send(qrcode_url=PAGE).json()["id"]
    document = pdfium.PdfDocument(owner.get(f"/orders/{order}/proof").content)
    pictures = [page.render(scale=300 / 72).to_pil() for page in document]
    document.close()
    assert codes_in(pictures) == codes_of(container, order)
    assert scan(http, codes_in(pictures)[0]).headers["location"] == PAGE
    assert (len(inbox_rows(container)), count_scans(container)) == (1, 1)
    assert owner.get(f"/orders/{order}").json()["total_scans"] == 1
