"""A sender makes a style of their own handwriting and a signature, and writes a card with both."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from quillpost.app.container import Container
from quillpost.rendering.handwriting.words import NaturalHand
from support.chromium import go_to, open_dashboard, picture
from support.factories import Account
from support.handwriting_sheets import fill_in

pytestmark = pytest.mark.costly

WRITER = 27
READING_MS = 60_000


def test_a_sender_writes_in_their_own_hand_and_signs(
    address: str, container: Container, owner: Account, tmp_path: Path
) -> None:
    scan = tmp_path / "scan.pdf"
    hand = container.renderer.hands.hand(WRITER)
    assert isinstance(hand, NaturalHand)
    scan.write_bytes(fill_in(hand))
    with open_dashboard(address, container, owner) as page:
        go_to(page, "Templates")
        page.get_by_role("link", name="Handwriting", exact=True).click()
        picture(page, "handwriting-empty")
        page.get_by_role("link", name="Create your style").click()
        refuse_a_picture_of_something_else(page, tmp_path)
        read_the_sheet(page, scan)
        accept_the_letters(page)
        sign(page)
        write_a_card(page)


def refuse_a_picture_of_something_else(page: Page, folder: Path) -> None:
    wrong = folder / "cat.png"
    wrong.write_bytes(b"no picture")
    page.get_by_label("Name of the style").fill("Dana")
    page.get_by_label("Page 1").set_input_files(wrong)
    page.get_by_role("button", name="Read my handwriting").click()
    expect(page.get_by_role("alert")).to_be_visible()
    picture(page, "handwriting-refused")


def read_the_sheet(page: Page, scan: Path) -> None:
    page.get_by_label("Page 1").set_input_files(scan)
    page.get_by_role("button", name="Read my handwriting").click()
    expect(page.get_by_role("status").filter(has_text="Reading your letters")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Check the letters of Dana", timeout=READING_MS)


def accept_the_letters(page: Page) -> None:
    slip = page.get_by_role("checkbox", name=re.compile("^Leave out a, 2"))
    expect(slip).not_to_be_checked()
    slip.check()
    picture(page, "handwriting-letters")
    page.get_by_role("button", name="Create style").click()
    expect(page.get_by_role("status").first).to_contain_text("Your style is ready")
    expect(page.get_by_role("img", name="A line written in this style")).to_be_visible()
    picture(page, "handwriting-style")


def sign(page: Page) -> None:
    page.get_by_role("link", name="Handwriting", exact=True).click()
    page.get_by_role("link", name="Add your signature").click()
    page.get_by_label("Name").fill("Dana")
    save = page.get_by_role("button", name="Save signature")
    save.click()
    expect(page.get_by_role("alert")).to_contain_text("or draw it")
    box = page.get_by_role("img", name="Draw it").bounding_box()
    assert box is not None
    left, middle, step = box["x"] + 60, box["y"] + box["height"] / 2, box["width"] / 12
    page.mouse.move(left, middle)
    page.mouse.down()
    for number in range(1, 10):
        page.mouse.move(left + number * step, middle + (40 if number % 2 else -40), steps=4)
    page.mouse.up()
    picture(page, "signature-drawn")
    save.click()
    expect(page.get_by_role("status").first).to_contain_text("The signature is saved")
    expect(page.get_by_role("heading", name="Dana", level=3)).to_have_count(2)
    picture(page, "handwriting")


def write_a_card(page: Page) -> None:
    page.get_by_role("link", name="Dana", exact=True).click()
    page.get_by_role("link", name="Write with this").click()
    expect(page.get_by_role("radio", name="Dana")).to_be_checked()
    page.get_by_label("Message", exact=True).fill("Thank you for stopping by!")
    expect(page.get_by_role("radio", name="Natural")).to_be_checked()
    page.get_by_role("radio", name="Lively").check()
    page.get_by_label("Signature").select_option("Dana")
    drawn = page.get_by_role("img", name="Thank you for stopping by!")
    expect(drawn).to_be_visible()
    before = drawn.get_attribute("src")
    page.get_by_label("Signature").select_option("None")
    expect(drawn).not_to_have_attribute("src", before or "")
    page.get_by_label("Signature").select_option("Dana")
    expect(drawn).to_have_attribute("src", before or "")
    picture(page, "handwriting-composer")
