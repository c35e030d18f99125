"""GET /handwriting-styles: the hands, each with a picture that opens."""

from pathlib import Path

from quillpost.app.container import Container
from quillpost.rendering.handwriting.models import STYLES
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account
from support.test_client import TestClient


def test_every_installed_hand_is_listed_with_its_sample(owner: Account, container: Container) -> None:
    answer = owner.get("/handwriting-styles")
    assert answer.status_code == 200
    assert set(answer.json()) == {"data"}
    listed = answer.json()["data"]
    assert [(row["handwriting_style_id"], row["name"], row["type"]) for row in listed] == [
        (style.number, style.name, style.kind) for style in container.renderer.hands.styles.values()
    ]
    assert listed[0] == {"handwriting_style_id": 1, "name": "Zeyada", "sample": listed[0]["sample"], "type": "AI"}
    assert {row["type"] for row in listed} == {"Realistic", "Bold", "International", "AI"}
    assert len({row["sample"] for row in listed}) == len(listed)


def test_a_sample_opens_without_a_token(owner: Account, http: TestClient) -> None:
    url = owner.get("/handwriting-styles").json()["data"][0]["sample"]
    assert url.startswith("http://quillpost.test/hands/1.png?v=")
    assert http.get(url).content.startswith(b"\x89PNG")


def test_hands_whose_fonts_are_not_installed_are_not_listed(build: Build, tmp_path: Path) -> None:
    container = build(font_packages=tmp_path / "nothing here")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        listed = make_account(container, http, "owner@example.com").get("/handwriting-styles").json()["data"]
        absent = next(style for style in STYLES if style.source.is_from_npm)
        assert http.get(f"/hands/{absent.number}.png").status_code == 404
    assert {row["name"] for row in listed} == {style.name for style in STYLES if not style.source.is_from_npm}


def test_a_stranger_sees_the_same_hands_and_nobody_sees_them_without_a_token(
    owner: Account, stranger: Account, http: TestClient
) -> None:
    assert stranger.get("/handwriting-styles").json() == owner.get("/handwriting-styles").json()
    assert http.get("/api/v2/handwriting-styles").status_code == 401


def test_a_token_needs_the_scope(container: Container, http: TestClient) -> None:
    reader = make_account(container, http, "reader@example.com", scopes=["templates:read"])
    sender = make_account(container, http, "sender@example.com", scopes=["send:write"])
    assert reader.get("/handwriting-styles").status_code == 200
    assert sender.get("/handwriting-styles").status_code == 403


def test_a_send_takes_each_listed_id_and_no_other(owner: Account) -> None:
    listed = owner.get("/handwriting-styles").json()["data"]
    plain = next(row["handwriting_style_id"] for row in listed if row["type"] == "Bold")
    assert owner.send(handwriting_style_id=plain).json()["style"] == plain
    refused = owner.send(handwriting_style_id=len(STYLES) + 1)
    assert refused.status_code == 422
    assert "handwriting_style" in refused.json()["errors"]
