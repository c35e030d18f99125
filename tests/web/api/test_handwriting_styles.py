"""GET /handwriting-styles: the hands, each with a picture that opens."""

from pathlib import Path

from quillpost.app.container import Container
from quillpost.rendering.handwriting.models import STYLES
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account
from support.test_client import TestClient


def test_every_installed_hand_is_listed_for_everybody_with_a_sample_that_opens_and_can_be_sent(
    owner: Account, stranger: Account, container: Container, http: TestClient
) -> None:
    answer = owner.get("/handwriting-styles")
    assert (answer.status_code, list(answer.json())) == (200, ["data"])
    assert stranger.get("/handwriting-styles").json() == answer.json()
    listed = answer.json()["data"]
    assert [(row["handwriting_style_id"], row["name"], row["type"]) for row in listed] == [
        (style.number, style.name, style.kind) for style in container.renderer.hands.styles.values()
    ]
    assert listed[0] == {"handwriting_style_id": 1, "name": "Zeyada", "sample": listed[0]["sample"], "type": "AI"}
    assert {row["type"] for row in listed} == {"Realistic", "Bold", "International", "AI"}
    assert len({row["sample"] for row in listed}) == len(listed)
    assert listed[0]["sample"].startswith("http://quillpost.test/hands/1.png?v=")
    assert http.get(listed[0]["sample"]).content.startswith(b"\x89PNG"), "without a token"
    bold = next(row["handwriting_style_id"] for row in listed if row["type"] == "Bold")
    assert owner.send(handwriting_style_id=bold).json()["style"] == bold
    refused = owner.send(handwriting_style_id=len(STYLES) + 1)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["handwriting_style"])


def test_hands_whose_fonts_are_not_installed_are_not_listed(build: Build, tmp_path: Path) -> None:
    container = build(font_packages=tmp_path / "nothing here")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        listed = make_account(container, http, "owner@example.com").get("/handwriting-styles").json()["data"]
        absent = next(style for style in STYLES if style.source.is_from_npm)
        assert http.get(f"/hands/{absent.number}.png").status_code == 404
    assert {row["name"] for row in listed} == {style.name for style in STYLES if not style.source.is_from_npm}
