"""The pages that anyone may open: found, safe, and complete in themselves."""

import re

import pytest
from fastapi import FastAPI

from quillpost.app.container import Container
from quillpost.web.application import create_app
from quillpost.web.assets import ASSETS
from quillpost.web.rendering import CONTENT_SECURITY_POLICY
from support.factories import Account, Build
from support.page_parser import ParsedPage
from support.test_client import TestClient

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
HERE = ("127.0.0.1", 50_000)
COMMENT = re.compile(r"(?:^|\s)// [A-Z0-9a-z].*")


@pytest.fixture
def with_receiver(build: Build) -> Container:
    return build(receiver=True)


def test_every_page_is_safe_and_complete_in_itself(with_receiver: Container) -> None:
    visitor = TestClient(create_app(with_receiver), base_url="http://localhost", client=HERE)
    receiver = f"/receiver/{with_receiver.receiver_key}"
    for path, status in {
        "/": 200,
        "/docs": 200,
        "/lists/import": 200,  # to whoever is not signed in, the page on which one does
        "/sign-in": 200,
        "/forgot": 200,
        "/reset/nonsense": 404,
        "/join/nonsense": 404,
        receiver: 200,
        "/nowhere": 404,
    }.items():
        shown = visitor.get(path, headers=BROWSER)
        assert shown.status_code == status, path
        assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
        assert shown.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        seen = ParsedPage.of(shown.text)
        assert seen.inline_code == []
        assert not [name for name in seen.attributes if name == "style" or name.startswith("on")]
        assert len(seen.ids) == len(set(seen.ids)), path
        for address in seen.addresses:
            if address.startswith("#"):
                assert address[1:] in seen.ids, f"{path} points to {address}"
            else:
                assert address.startswith("/"), f"{path} points to {address}"
                assert not address.startswith("//")


def test_what_a_page_points_to_is_there(with_receiver: Container) -> None:
    visitor = TestClient(create_app(with_receiver), base_url="http://localhost", client=HERE, headers=BROWSER)
    receiver = f"/receiver/{with_receiver.receiver_key}"
    addresses = {
        a
        for path in ("/", "/docs", "/sign-in", "/forgot", receiver)
        for a in ParsedPage.of(visitor.get(path).text).addresses
    }
    assert receiver in addresses
    # /ready is 503 here: no worker runs in this test.
    found = {a: visitor.get(a).status_code for a in addresses if not a.startswith("#") and a != "/ready"}
    assert set(found.values()) == {200}, found


def test_the_policy_lets_pages_reach_this_service_alone() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def test_assets_name_no_other_host() -> None:
    for asset in ASSETS.values():
        text = asset.body.decode().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "://" not in text, asset.name
        assert "//" not in COMMENT.sub("", text), asset.name
        assert "url(" not in text


def test_an_asset_may_be_kept_for_ever_and_an_unknown_one_is_not_found(http: TestClient) -> None:
    style = ASSETS["quillpost.css"]
    served = http.get(style.path)
    assert served.content == style.body
    assert served.headers["Content-Type"].startswith("text/css")
    assert "immutable" in served.headers["Cache-Control"]
    assert http.get("/assets/../render.py").status_code == 404
    assert http.get("/assets/render.py").status_code == 404


def test_a_lost_browser_gets_a_page_and_a_program_gets_json(http: TestClient, owner: Account) -> None:
    assert "no page at this address" in http.get("/files/expired", headers=BROWSER).text
    assert http.get("/nowhere").json() == {"message": "Not Found"}
    assert owner.get("/nowhere", headers=BROWSER).json() == {"message": "Not Found"}
    assert http.get("/api/nowhere", headers=BROWSER).json() == {"message": "Not Found"}


def test_home_says_the_release_and_leads_to_the_docs(app: FastAPI, http: TestClient) -> None:
    seen = ParsedPage.of(http.get("/").text)
    assert f"Quillpost {app.state.release}" in seen.words
    assert "/docs" in seen.addresses
    assert "Event receiver" not in seen.words


@pytest.mark.parametrize(
    ("host", "client"), [("http://localhost", ("203.0.113.9", 50_000)), ("http://rebound.example", HERE)]
)
def test_home_tells_the_receivers_key_to_nobody_from_elsewhere(
    with_receiver: Container, host: str, client: tuple[str, int]
) -> None:
    shown = TestClient(create_app(with_receiver), base_url=host, client=client).get("/").text
    assert with_receiver.receiver_key is not None
    assert with_receiver.receiver_key not in shown
    assert "Its address is private" in shown
