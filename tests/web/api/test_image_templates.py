"""Saved images: by URL or upload, read, changed and deleted."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import files, image_templates, orders
from quillpost.core.errors import Refused
from quillpost.orders.templates.service import IMAGE_TEMPLATES
from support.factories import Account, Build, Clock, make_account, make_sub_account, make_teammate, read_warnings
from support.scripted_server import ScriptedServer
from support.test_client import TestClient
from support.traces import traces
from support.uploads import BLUE, RED, form_of, jpeg, png, print_sized, upload

JSON_TEMPLATE = {"type": "postcard", "name": "Spring"}


@pytest.fixture
def container(build: Build) -> Container:
    """Pictures may be on loopback here."""
    return build(allow_private_urls=True)


@pytest.fixture
def gallery() -> Iterator[ScriptedServer]:
    def show(connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + png(BLUE))

    with ScriptedServer(show) as server:
        yield server


def colour_of(http: TestClient, url: str) -> tuple[int, ...]:
    """What the picture behind a link shows to someone without a token."""
    shown = http.get(url)
    assert shown.status_code == 200
    pixel = Image.open(io.BytesIO(shown.content)).convert("RGB").getpixel((4, 4))
    assert isinstance(pixel, tuple)
    return pixel


def test_an_uploaded_image_is_shown_at_a_link_that_stays(owner: Account, http: TestClient, clock: Clock) -> None:
    made = upload(owner, design_tool_id="design-7")
    assert made.status_code == 201, made.text
    body = made.json()
    assert body == {
        "id": body["id"],
        "user_id": owner.id,
        "sub_account_id": None,
        "type": "postcard",
        "name": "Spring",
        "image": body["image"],
        "design_tool_id": "design-7",
        "created_at": "2026-05-04 12:00:00",
        "updated_at": "2026-05-04 12:00:00",
    }
    assert body["image"].startswith("http://quillpost.test/files/")
    clock.advance(days=3_000)
    assert owner.get(f"/image-templates/{body['id']}").json() == body
    assert owner.get("/image-templates").json()["data"] == [body]
    assert colour_of(http, body["image"]) == RED


def test_an_image_comes_by_its_url_in_json_or_in_a_form(
    owner: Account, http: TestClient, gallery: ScriptedServer
) -> None:
    url = gallery.url("/spring.png")
    ways = [
        owner.post("/image-templates", JSON_TEMPLATE | {"image": url}),
        owner.post("/image-templates", JSON_TEMPLATE | {"image_url": url}),
        owner.call("POST", "/image-templates", data=JSON_TEMPLATE | {"image": url}),
    ]
    assert [made.status_code for made in ways] == [201] * 3, [made.text for made in ways]
    assert len({made.json()["image"] for made in ways}) == 1
    assert colour_of(http, ways[0].json()["image"]) == BLUE


def test_an_image_is_kept_once_for_all_its_templates(owner: Account, container: Container) -> None:
    first, second = upload(owner).json(), upload(owner, name="Again").json()
    assert first["id"] != second["id"]
    assert first["image"] == second["image"]
    assert len(list(container.storage.store.keys("creative/"))) == 1


def test_conversions_of_a_picture_are_reported(owner: Account) -> None:
    made = upload(owner, image=print_sized(), colour="red")
    assert made.status_code == 201
    assert read_warnings(made)[0].startswith("image: The image was converted from CMYK")
    assert made.headers["X-Ignored-Fields"] == "colour"


def test_the_type_of_a_file_depends_only_on_its_bytes(owner: Account, http: TestClient, container: Container) -> None:
    made = upload(owner, image=jpeg(), filename="../../etc/passwd\x00.svg").json()
    assert http.get(made["image"]).headers["Content-Type"] == "image/jpeg"
    before = traces(container)
    for fake in (b"<svg/>", b"GIF89a" + b"\0" * 50, b"", png()[:40]):
        refused = upload(owner, image=fake)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["image"]), fake
    assert traces(container) == before


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": None}, "image"),
        ({"image": ""}, "image"),
        ({"image": 5}, "image"),
        ({"image": ["https://example.com/a.png"]}, "image"),
        ({"image": "ftp://example.com/a.png"}, "image"),
        ({"image": "http://user:secret@example.com/a.png"}, "image"),
        ({"type": "magnacard"}, "type"),
        ({"type": None}, "type"),
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "\x00"}, "name"),
        ({"design_tool_id": 7}, "design_tool_id"),
        ({"sub_account_id": "x"}, "sub_account_id"),
    ],
)
def test_a_wrong_value_is_named(owner: Account, container: Container, changes: dict[str, Any], field: str) -> None:
    before = traces(container)
    good = JSON_TEMPLATE | {"image": "https://example.com/a.png"}
    refused = owner.post("/image-templates", good | changes)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
    assert traces(container) == before


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"name": ""}, "name"), ({"name": None}, "name"), ({"type": "bad"}, "type"), ({"type": None}, "type")],
)
def test_a_wrong_change_is_named_by_its_field_alone(owner: Account, changes: dict[str, Any], field: str) -> None:
    refused = owner.put("/image-templates/1", changes)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
    assert len(refused.json()["errors"][field]) == 1


def test_all_missing_fields_are_named_at_once(owner: Account) -> None:
    refused = owner.post("/image-templates", {})
    assert (refused.status_code, set(refused.json()["errors"])) == (422, {"type", "name", "image"})


def test_an_image_that_cannot_be_fetched_leaves_nothing(owner: Account, container: Container) -> None:
    before = traces(container)
    refused = owner.post("/image-templates", JSON_TEMPLATE | {"image": "http://127.0.0.1:1/a.png"})
    assert refused.status_code == 422
    assert "could not be fetched" in refused.json()["errors"]["image"][0]
    assert traces(container) == before


def test_an_update_changes_what_it_names(owner: Account, http: TestClient, clock: Clock) -> None:
    made = upload(owner, design_tool_id="design-7").json()
    clock.advance(hours=1)
    path = f"/image-templates/{made['id']}"
    renamed = owner.call("PUT", path, json={"name": "Summer", "type": "notecard"})
    assert renamed.status_code == 200
    assert renamed.json() == made | {"name": "Summer", "type": "notecard", "updated_at": "2026-05-04 13:00:00"}
    cleared = owner.call("PUT", path, json={"design_tool_id": None}).json()
    assert (cleared["design_tool_id"], cleared["name"]) == (None, "Summer")
    replaced = upload(owner, image=png(BLUE), method="PUT", path=path).json()
    assert replaced["image"] != made["image"]
    assert colour_of(http, replaced["image"]) == BLUE
    assert colour_of(http, made["image"]) == RED
    for wrong in ({"name": None}, {"type": None}, {"image": None}):
        assert owner.call("PUT", path, json=wrong).status_code == 422
    assert owner.get(path).json() == replaced


@pytest.mark.parametrize(("mode", "status"), [("test", "reviewing"), ("live", "paused")])
def test_a_template_that_an_order_waits_with_is_not_deleted(
    owner: Account, container: Container, mode: str, status: str
) -> None:
    template = upload(owner).json()["id"]
    order = owner.send().json()["id"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(image_template_id=template, mode=mode, status=status))
    refused = owner.call("DELETE", f"/image-templates/{template}")
    assert refused.status_code == 400
    assert f"Order {order} " in refused.json()["message"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="fulfilled"))
    deleted = owner.call("DELETE", f"/image-templates/{template}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert owner.call("DELETE", f"/image-templates/{template}").status_code == 404


def test_the_image_outlives_its_template(owner: Account, http: TestClient) -> None:
    made = upload(owner).json()
    assert owner.call("DELETE", f"/image-templates/{made['id']}").status_code == 200
    assert colour_of(http, made["image"]) == RED


def test_the_list_is_filtered_and_newest_first(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    ids = [
        upload(owner, **how).json()["id"]
        for how in ({}, {"type": "letter"}, {"sub_account": branch}, {"type": "letter"})
    ]

    def listed(query: str = "") -> list[int]:
        return [row["id"] for row in owner.get(f"/image-templates{query}").json()["data"]]

    assert listed() == ids[::-1]
    assert listed("?type=letter") == [ids[3], ids[1]]
    assert listed(f"?sub_account_id={branch}") == listed(f"?sub_account={branch}") == [ids[2]]
    assert listed("?type=magnacard") == []
    assert owner.get("/image-templates?type=magnet").status_code == 422
    page = owner.get("/image-templates?items_per_page=3&page=2").json()
    assert ([row["id"] for row in page["data"]], page["meta"]["total"]) == ([ids[0]], 4)


def test_a_strangers_template_looks_like_none(owner: Account, stranger: Account, container: Container) -> None:
    template = upload(owner).json()["id"]
    for method in ("GET", "PUT", "DELETE"):
        answers = [
            stranger.call(method, f"/image-templates/{n}", json={} if method == "PUT" else None)
            for n in (template, template + 99, "x", 2**63)
        ]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}
    assert stranger.get("/image-templates").json()["data"] == []
    branch = make_sub_account(container, owner)
    refused = upload(stranger, sub_account_id=branch)
    assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
    assert stranger.get(f"/image-templates?sub_account_id={branch}").status_code == 400
    with (
        container.db.transaction(Tenant(stranger.id)) as tx,
        pytest.raises(Refused, match="Image Template does not exist"),
    ):
        IMAGE_TEMPLATES.find(tx, template)


def test_a_limited_token_keeps_to_its_sub_account(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    outside = [upload(owner).json()["id"], upload(owner, sub_account_id=other).json()["id"]]
    made = upload(teammate).json()
    assert made["sub_account_id"] == mine
    assert [row["id"] for row in teammate.get("/image-templates").json()["data"]] == [made["id"]]
    assert {teammate.get(f"/image-templates/{n}").status_code for n in outside} == {404}
    assert upload(teammate, sub_account_id=other).status_code == 400
    path = f"/image-templates/{made['id']}"
    assert teammate.call("PUT", path, json={"sub_account_id": other}).status_code == 400
    assert teammate.call("PUT", path, json={"sub_account_id": None}).json()["sub_account_id"] == mine


def test_an_image_goes_where_its_template_goes(owner: Account, http: TestClient, container: Container) -> None:
    """Whoever is limited to a sub account sees that one's files alone."""
    branch = make_sub_account(container, owner)
    made = upload(owner).json()
    moved = owner.call("PUT", f"/image-templates/{made['id']}", json={"sub_account_id": branch})
    assert (moved.status_code, moved.json()["sub_account_id"]) == (200, branch)
    assert colour_of(http, moved.json()["image"]) == RED
    with container.db.transaction(Tenant(owner.id, branch)) as tx:
        found = tx.execute(
            sa.select(files.c.id).join(image_templates, image_templates.c.image_file_id == files.c.id)
        ).all()
    assert len(found) == 1


def test_reading_and_writing_need_their_scopes(container: Container, http: TestClient) -> None:
    reader = make_account(container, http, "reader@example.com", scopes=["templates:read"])
    writer = make_account(container, http, "writer@example.com", scopes=["templates:write"])
    assert reader.get("/image-templates").status_code == 200
    assert upload(reader).status_code == 403
    assert upload(writer).status_code == 201
    assert writer.get("/image-templates").status_code == 403


def test_a_repeated_upload_is_saved_once(owner: Account, container: Container) -> None:
    """Every client divides a form by signs of its own, anew on each try."""
    parts_of_it = (('name="type"', b"postcard"), ('name="name"', b"Spring"), ('name="image"; filename="a"', png()))

    def post(boundary: str, *changes: tuple[str, bytes]) -> Any:
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Idempotency-Key": "k"}
        content = form_of(boundary, *parts_of_it, *changes)
        return owner.call("POST", "/image-templates", content=content, headers=kind)

    first, again = post("aaaa"), post("bbbb")
    assert (first.status_code, again.content) == (201, first.content)
    assert post("cccc", ('name="design_tool_id"', b"7")).status_code == 409
    assert owner.get("/image-templates").json()["meta"]["total"] == 1
