"""A newcomer's first card, from the link that the terminal shows to the door, all of it in a browser. The service is
our wheel, installed where there is no checkout: so it is the whole product."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

from quillpost.rendering.handwriting.models import FALLBACK_FACES, STYLES
from quillpost.web.assets import PACKAGE_FILES
from support.chromium import ROOT, go_to, new_page, picture, read_figure, watch_page
from support.processes import Service, free_port

BUNDLED = "quillpost/node_modules/"
FACES = {f"{face.source.package}/{face.source.path}" for face in FALLBACK_FACES}

HANDS = "quillpost/rendering/handwriting/hands/"
PASSWORD = "a few words in a row"
MESSAGE = "Hi %FIRST_NAME%, the tomatoes are ripe. Come by!"
# Long enough for the order's page to be drawn while its review goes on, however busy the machine.
REVIEW_SECONDS = "15"
IN_REVIEW = "It goes to print"
ITS_WAY = ["Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered"]
STEPS = ("Write a first card", "Watch it arrive")


@pytest.mark.timeout(900)  # all that the wheel depends on is installed
def test_a_newcomer_installs_our_wheel_and_follows_a_first_card_to_its_delivery(home: Path, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    assert_complete(wheel)
    program = install(wheel, tmp_path / "environment")
    listed = run(program, "hands", cwd=tmp_path)
    assert [style.name for style in STYLES if style.name not in listed] == []
    settings = {"QUILLPOST_HOME": str(home), "QUILLPOST_TEST_REVIEW_SECONDS": REVIEW_SECONDS}
    log = tmp_path / "service.log"
    service = Service(log, "--welcome", port=free_port(), settings=settings, program=[str(program)])
    try:
        service.ready()
        for name in PACKAGE_FILES:
            assert httpx2.get(f"{service.url}/assets/{name}").status_code == 200
        with new_page() as page:
            walk(page, service)
        assert service.stop() == 0, service.output
    finally:
        service.kill()


def build_wheel(folder: Path) -> Path:
    run(sys.executable, ROOT / "tools" / "bootstrap.py", "wheel", folder)
    [built] = folder.glob("*.whl")
    return built


def assert_complete(wheel: Path) -> None:
    """It carries every script, every typeface and every hand with its license."""
    files = zipfile.ZipFile(wheel).namelist()
    forms = {f"{style.movement.forms}.hand" for style in STYLES if style.movement}
    assert {"LICENSES.md", *forms} <= {name.removeprefix(HANDS) for name in files}
    names = {name.removeprefix(BUNDLED) for name in files if BUNDLED in name}
    assert {name for name in names if name.endswith(".ttf")} == FACES
    assert set(PACKAGE_FILES.values()) <= names
    packages = set(json.loads((ROOT / "package.json").read_text())["dependencies"])
    licensed = {name.rpartition("/")[0] for name in names if name.rpartition("/")[2].startswith("LICENSE")}
    assert packages - licensed == set()
    assert {f"{face.rpartition('/400Regular')[0]}/LICENSE_FONT" for face in FACES if "/400Regular/" in face} <= names


def install(wheel: Path, environment: Path) -> Path:
    """With just what the wheel asks for, in the versions that we test with; its program."""
    uv = ROOT / ".tools" / "uv" / "bin" / "uv"
    python = environment / "bin" / "python"
    run(uv, "venv", "--python", sys.executable, environment)
    run(uv, "pip", "install", "--python", python, "--constraints", ROOT / "requirements" / "run.txt", wheel)
    return environment / "bin" / "quillpost"


def run(*command: object, cwd: Path = Path("/")) -> str:
    """What it printed; started from a folder that is in no checkout."""
    unlike_ours = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    words = [str(word) for word in command]
    done = subprocess.run(words, env=unlike_ours, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def walk(page: Page, service: Service) -> None:
    join = re.search(r"Set password (\S+)", service.output)
    assert join, service.output
    page.goto(join[1])
    page.get_by_label("Your name").fill("Mel Ortiz")
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same once more").fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("status").first).to_contain_text("Welcome.")
    see_what_to_do_first(page)
    write_and_see_it_written(page)
    choose_the_recipient(page)
    see_the_price(page)
    send(page)
    watch_it_arrive(page)
    read_its_way(page)
    come_home_to_what_happened(page)


def see_what_to_do_first(page: Page) -> None:
    for title in STEPS:
        expect(first_steps(page).get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(read_figure(page, "Delivered")).to_contain_text("0")
    expect(page.get_by_role("group", name="Sent, delivered and scans")).to_be_visible()  # drawn by uPlot
    assert page.evaluate("htmx.version")
    picture(page, "first-card-1-newcomer")
    first_steps(page).get_by_role("link", name="Write a card").first.click()
    expect(page.get_by_role("heading", level=1, name="Write")).to_be_visible()


def write_and_see_it_written(page: Page) -> None:
    """The words are on the picture while they are typed; those of a sample are gone."""
    page.get_by_role("radio", name="Postcard 4").check()
    expect(preview(page)).to_contain_text("The words are a sample, too.")
    sample = drawn(page).get_attribute("id")
    page.get_by_label("Message", exact=True).press_sequentially(MESSAGE)
    expect(drawn(page)).to_have_accessible_name(re.compile("Hi Jane, the tomatoes are ripe. Come by!"))
    expect(preview(page)).not_to_contain_text("The words are a sample, too.")
    assert drawn(page).get_attribute("id") != sample
    assert_drawn(drawn(page))


def choose_the_recipient(page: Page) -> None:
    page.get_by_role("radio", name="One person").check()
    person = page.get_by_role("group", name="One person")
    for label, text in (
        ("Name", "Ada Reed"), ("Street and number", "1100 Congress Ave"), ("City", "Austin"),
        ("State", "TX"), ("ZIP code", "78701"),
    ):  # fmt: skip
        person.get_by_label(label, exact=True).fill(text)
    page.keyboard.press("Tab")
    expect(preview(page)).to_contain_text("For Ada Reed.")
    expect(drawn(page)).to_have_accessible_name(re.compile("Hi Ada, the tomatoes are ripe. Come by!"))
    assert_drawn(drawn(page))


def see_the_price(page: Page) -> None:
    price = page.get_by_role("region", name="What it costs")
    expect(price).to_contain_text(re.compile(r"1 piece at \$1\.09\s*\$1\.09"))
    expect(price).to_contain_text("nothing is billed")
    picture(page, "first-card-2-composer")


def send(page: Page) -> None:
    with page.expect_response(lambda answer: answer.ok and "/orders/" in answer.url) as shown:
        page.get_by_role("button", name="Send it as a test").click()
    assert IN_REVIEW in shown.value.text()
    expect(page.get_by_role("status").first).to_contain_text("Sent, as a test")
    picture(page, "first-card-3-sent")


def watch_it_arrive(page: Page) -> None:
    """From its review to the door, and the page is not loaded again. The map was drawn when nothing had been mailed,
    and follows."""
    where = page.get_by_role("region", name="Where it is")
    with watch_page(page):
        expect(read_figure(page, "Delivered")).to_contain_text("100% of those mailed")
        history = page.get_by_role("region", name="History").get_by_role("listitem")
        expect(history).to_contain_text(["Reviewing", "Processing", "Printing", "Mailed", "Fulfilled"])
        expect(page.get_by_text(IN_REVIEW)).to_have_count(0)
        expect(page.get_by_role("link", name="Cancel the order")).to_have_count(0)
        expect(where.get_by_role("row", name="Austin, TX")).to_have_text(re.compile(r"0\s*1\s*0\s*$"))
        expect(where.get_by_role("img", name="Map of the United States")).to_be_visible()
        expect(page.get_by_role("region", name="How it looks").get_by_role("img").first).to_be_visible()
    picture(page, "first-card-4-delivered")


def read_its_way(page: Page) -> None:
    page.get_by_role("link", name="1 person").click()
    page.get_by_role("link", name="Ada Reed").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("to Ada Reed")
    expect(page.get_by_role("region", name="Its way").get_by_role("listitem")).to_contain_text(ITS_WAY)
    expect(page.get_by_role("region", name="Whom it goes to")).to_contain_text("1100 Congress Ave")
    picture(page, "first-card-5-its-way")


def come_home_to_what_happened(page: Page) -> None:
    go_to(page, "Home")
    for title in STEPS:
        expect(first_steps(page).get_by_role("heading", name=f"{title} (done)")).to_be_visible()
    expect(read_figure(page, "Sent")).to_contain_text("1")
    expect(read_figure(page, "Delivered")).to_contain_text("1")
    page.get_by_role("group", name="Sent, delivered and scans").focus()
    page.keyboard.press("End")
    expect(page.locator(".chart-told")).to_contain_text(re.compile(r"Sent 1\s*Delivered 1\s*Scans 0"))
    latest = page.get_by_role("region", name="Latest orders")
    expect(latest.get_by_role("listitem").first).to_contain_text("the tomatoes are ripe")
    picture(page, "first-card-6-home")


def first_steps(page: Page) -> Locator:
    return page.get_by_role("region", name="First steps")


def preview(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Preview")


def drawn(page: Page) -> Locator:
    """The side of the card that has the words."""
    return preview(page).get_by_role("img", name="which reads")


def assert_drawn(image: Locator) -> None:
    """Not only named: the browser has drawn it."""
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
