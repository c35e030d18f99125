"""How long somebody waits who types in the composer: from a key to the new picture on the screen.

In Chromium, with the page's own wait for a pause in it. `python -m benchmarks.pages.typing` measures this
alone, and puts it into the result of the pages.
"""

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from starlette.types import ASGIApp

from benchmarks.harness import RESULTS, save
from benchmarks.pages.filled_database import sign_in
from benchmarks.paging import new_database
from quillpost.accounts import service
from quillpost.accounts.models import Caller
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.cli.server import QuillpostProtocol
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.orders.drafts.previews import build_preview_copy
from quillpost.rendering.handwriting.models import DEFAULT_STYLE
from quillpost.web.api.send.endpoints import draft_from_body
from quillpost.web.api.send.requests import SENDABLE_PRODUCTS
from quillpost.web.application import create_app
from quillpost.web.security import SESSION

MAX_SECONDS = 0.5
ROUNDS, WARM_UP = 15, 3
MESSAGE = "Hi %FIRST_NAME%, your order is on its way. Thank you for shopping with us! "
PLAIN, PICTURE, CROWD = "a postcard", "with an image by URL", "to 5,000 pasted people"
CROWD_SIZE = 5_000
PATIENCE = 60_000

_FACES = Path(__file__).parents[2] / ".tools" / "faces"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_WATCH = """() => {
  const shown = document.querySelector("#preview-pictures");
  const written = () => shown.querySelector(".reads img");
  const before = written()?.id;
  window.waited = new Promise((resolve) => {
    let begun = null;
    addEventListener("keydown", (event) => { begun = event.timeStamp; }, { once: true, capture: true });
    const watcher = new MutationObserver(async () => {
      const picture = written();
      if (begun === null || !picture || picture.id === before) return;
      watcher.disconnect();
      await picture.decode();
      requestAnimationFrame(() => requestAnimationFrame(() => resolve((performance.now() - begun) / 1000)));
    });
    watcher.observe(shown, { childList: true, subtree: true });
  });
}"""
"""The second frame begins when the first is painted."""
_PASTE = """(field, text) => {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
"""To have Playwright type so much takes minutes."""


def settings(home: Path) -> Settings:
    """With hands that are prepared already, and a picture on this machine."""
    return Settings(home=home, faces_folder=_FACES, allow_private_urls=True, calls_a_minute=10**9)


def measure(container: Container, account_id: int, cookie: str) -> dict[str, Any]:
    """Medians; of an account that may have mailed much before."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        return {"absent": "no Chromium on the path"}
    container.renderer.hands.hand(DEFAULT_STYLE.number)
    with _picture_server() as picture, _served(create_app(container)) as here, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.context.add_cookies([{"name": SESSION, "value": cookie, "url": here}])
        ways: Mapping[str, Callable[[Page], None]] = {
            PLAIN: lambda _: None,
            PICTURE: partial(_choose_picture, picture=picture),
            CROWD: _paste_people,
        }
        seconds = {name: _typed(page, f"{here}/compose", prepare) for name, prepare in ways.items()}
        browser.close()
        caller = Caller(account_id, "test")
        plain = _drawn(container, caller)
        alone = {PLAIN: plain, PICTURE: _drawn(container, caller, front_image_url=picture), CROWD: plain}
    return {
        "wanted": MAX_SECONDS,
        "seconds": {name: round(each, 4) for name, each in seconds.items()},
        "drawing alone": {name: round(each, 4) for name, each in alone.items()},
        "ratios": {name: round(each / alone[name], 2) for name, each in seconds.items()},
    }


def show(typing: Mapping[str, Any]) -> None:
    if "absent" in typing:
        print(f"typing: not measured ({typing['absent']})")
        return
    print(f"typing: seconds from a key to the picture on the screen (wanted: within {MAX_SECONDS})")
    for name, seconds in typing["seconds"].items():
        alone, ratio = typing["drawing alone"][name], typing["ratios"][name]
        print(f"  {seconds:6.3f} s  {name}: {ratio:.2f} x drawing the piece alone ({alone:.3f} s)")


def _typed(page: Page, address: str, prepare: Callable[[Page], None]) -> float:
    page.goto(address)
    page.locator("#message").fill(MESSAGE)
    prepare(page)
    page.locator(".reads img").wait_for()
    page.wait_for_load_state("networkidle")
    page.locator("#message").focus()
    page.keyboard.press("End")
    waited = [_one_key(page, chr(ord("a") + place)) for place in range(WARM_UP + ROUNDS)]
    return statistics.median(waited[WARM_UP:])


def _one_key(page: Page, key: str) -> float:
    page.locator(".htmx-request").first.wait_for(state="detached")
    page.evaluate(_WATCH)
    page.keyboard.press(key)
    return float(page.evaluate("window.waited"))


def _choose_picture(page: Page, *, picture: str) -> None:
    page.get_by_label("From a link").check()
    page.locator("#front_image_url").fill(picture)


def _paste_people(page: Page) -> None:
    page.get_by_label("Paste several people").check()
    rows = (f"Person {n}, {n} Main St, Austin, TX 78701" for n in range(1, CROWD_SIZE + 1))
    page.locator("#people").evaluate(_PASTE, "\n".join(rows))
    page.get_by_text(f"{CROWD_SIZE:,} people found").wait_for()
    page.get_by_text(f"{CROWD_SIZE:,} pieces").wait_for()


def _drawn(container: Container, caller: Caller, **more: str) -> float:
    """The practical limit: the same piece drawn in this process, with nothing around it."""
    offer = next(offer for offer in SENDABLE_PRODUCTS if offer.product.name == "postcard")
    person = {"name": "Jane Sample", "address": "12 Main St, Austin, TX 78701"}
    passed = []
    for place in range(WARM_UP + ROUNDS):
        message = MESSAGE + "abcdefghijklmnopqrstuvwxyz"[: place + 1]
        sent = {"message": message, "size": "4x6", "recipients": [person], **more}
        draft = draft_from_body(offer.product, offer.body.model_validate(sent), caller, container)
        look = build_preview_copy(
            draft, 0, draft.people[0], qr_base=container.production.qr_base, opt_out=container.production.opt_out
        )
        started = time.perf_counter()
        container.renderer.preview(*look)
        passed.append(time.perf_counter() - started)
    return statistics.median(passed[WARM_UP:])


@contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    how: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "port": 0}
    server = uvicorn.Server(uvicorn.Config(app, http=QuillpostProtocol, **how))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def _picture_server() -> Iterator[str]:
    """The address of a picture that is as large as one of a camera that was cut to a postcard."""
    drawn = BytesIO()
    Image.effect_noise((1875, 1275), 40).convert("RGB").save(drawn, "JPEG", quality=88)

    class Showing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "image/jpeg")
            self.end_headers()
            self.wfile.write(drawn.getvalue())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Showing)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/front.jpg"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    configure_logging(as_json=False, level="warning")
    with new_database() as (home, conninfo):
        container = bootstrap.build_container(settings(home), conninfo)
        with container.db.system_transaction() as tx:
            account_id = service.create_account(tx, email="bench@example.com", name="Bench", now=container.clock())
        typing = measure(container, account_id, sign_in(container, account_id))
        container.db.close()
    show(typing)
    save(json.loads((RESULTS / "pages.json").read_text()) | {"typing": typing})


if __name__ == "__main__":
    main()
