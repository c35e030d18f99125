"""Pictures that a send names by address: fetched, judged, kept, or refused by the field's name."""

from collections.abc import Iterator
from io import BytesIO

import pytest
from PIL import Image

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account
from support.scripted_server import Answer, ScriptedServer, reply_with, reset_connection
from support.test_client import TestClient
from support.traces import traces


def picture(form: str) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (1875, 1275), "teal").save(buffer, form)
    return buffer.getvalue()


@pytest.fixture
def container(build: Build) -> Container:
    """Pictures may be on loopback here."""
    return build(allow_private_urls=True)


@pytest.fixture(scope="module")
def gallery() -> Iterator[ScriptedServer]:
    body = picture("PNG")
    with ScriptedServer(reply_with("HTTP/1.1 200 OK\nContent-Type: image/png", body)) as server:
        yield server


@pytest.mark.parametrize("field", ["front_image_url", "custom_background_image"])
def test_a_good_picture_is_kept_with_the_order(
    owner: Account, container: Container, gallery: ScriptedServer, field: str
) -> None:
    url = gallery.url("/front.png")
    answer = owner.send(**{field: url}).json()
    shown = {"front_image_url": "front_image", "custom_background_image": "custom_background_url"}[field]
    assert answer[shown] == url
    (kept,) = container.storage.store.keys("creative/")
    assert container.storage.store.get(kept) == picture("PNG")


def test_an_unused_background_is_not_fetched(owner: Account, gallery: ScriptedServer) -> None:
    saved = {"type": "postcard", "name": "Saved", "content": "Hi!"}
    saved["custom_background_url"] = gallery.url("/not-wanted.png")
    template = owner.post("/message-templates", saved).json()["id"]
    common = {"message_template": template, "use_custom_background": False}
    assert owner.send(**common).json()["custom_background_url"] is None
    own = gallery.url("/own.png")
    assert owner.send(**common, custom_background_image=own).json()["custom_background_url"] == own
    assert not any(b"not-wanted" in request for request in gallery.requests)
    assert any(b"/own.png" in request for request in gallery.requests)


@pytest.mark.parametrize("field", ["front_image_url", "custom_background_image"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply_with("HTTP/1.1 404 Not Found"), "status 404"),
        (reply_with("HTTP/1.1 200 OK\nContent-Type: image/png", b"no picture at all"), "cannot be printed"),
        (reply_with("HTTP/1.1 200 OK\nContent-Type: image/png"), "cannot be printed"),
        (reply_with("HTTP/1.1 200 OK\nContent-Type: image/gif", picture("GIF")), "cannot be printed"),
        (reply_with("HTTP/1.1 200 OK\nContent-Type: image/png", picture("PNG")[:200]), "cannot be printed"),
        (reply_with("HTTP/1.1 302 Found\nLocation: /elsewhere"), "redirects"),
        (reset_connection, "could not be fetched"),
    ],
    ids=["missing", "text", "empty", "gif", "torn", "redirect", "reset"],
)
def test_a_picture_that_cannot_be_used_is_refused_by_its_field(
    owner: Account, container: Container, field: str, answer: Answer, reason: str
) -> None:
    before = traces(container)
    with ScriptedServer(answer) as server:
        refused = owner.send(**{field: server.url("/x.png")})
    assert refused.status_code == 422
    (named,) = refused.json()["errors"]
    assert named == field
    assert reason in refused.json()["errors"][field][0]
    assert traces(container) == before


def test_a_server_that_is_not_there_is_named(owner: Account, container: Container) -> None:
    with ScriptedServer(reset_connection) as server:
        gone = server.url("/x.png")
    before = traces(container)
    refused = owner.send(front_image_url=gone)
    assert refused.status_code == 422
    assert "127.0.0.1 could not be reached" in refused.json()["errors"]["front_image_url"][0]
    assert traces(container) == before


BAD_URLS = [
    "example.com/x.png",
    "ftp://example.com/x.png",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://",
    "https://user:pass@example.com/x.png",
    "https://example.com/a b.png",
    "https://example.com:99999/x.png",
    "https://example.com/" + "x" * 2_100,
    "http://localhost/x.png",
    "http://127.0.0.1:5432/",
    "http://10.0.0.1/x.png",
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]/x.png",
]


def test_a_bad_or_private_url_is_refused_by_its_field(build: Build) -> None:
    guarded = build()
    with TestClient(create_app(guarded), base_url="http://quillpost.test") as http:
        owner = make_account(guarded, http, "owner@example.com")
        before = traces(guarded)
        for field in ("front_image_url", "custom_background_image", "qrcode_url"):
            for url in BAD_URLS:
                refused = owner.send(**{field: url})
                assert refused.status_code == 422, url
                assert list(refused.json()["errors"]) == [field], url
        assert traces(guarded) == before


def test_a_picture_that_is_sent_again_is_kept_once(
    owner: Account, container: Container, gallery: ScriptedServer
) -> None:
    before = len(list(container.storage.store.keys("creative/")))
    url = gallery.url("/front.png")
    orders = [owner.send(front_image_url=url, custom_background_image=url).json()["id"] for _ in range(2)]
    assert len(set(orders)) == 2
    assert len(list(container.storage.store.keys("creative/"))) - before == 1
