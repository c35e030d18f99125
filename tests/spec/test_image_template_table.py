"""The specification's table "Image template", row by row."""

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.writable_service import Writer, writing_service

Test = Callable[[Any], bool]
Template = dict[str, Any]


def integer(value: Any) -> bool:
    return type(value) is int


def string(value: Any) -> bool:
    return type(value) is str


def or_null(holds: Test) -> Test:
    return lambda value: value is None or holds(value)


def url(value: Any) -> bool:
    return string(value) and value.startswith("http://quillpost.test/")


def plain_time(value: Any) -> bool:
    return string(value) and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", value) is not None


# fmt: off
TABLE: list[tuple[tuple[str, ...], Test]] = [
    # Field                             Type and notes
    (("id", "user_id"),                 integer),
    (("sub_account_id",),               or_null(integer)),
    (("type",),                         string),
    (("name",),                         string),
    (("image",),                        url),
    (("design_tool_id",),               or_null(string)),
    (("created_at", "updated_at"),      plain_time),
]
TYPES = ("postcard", "letter", "notecard", "giftcard", "windowlessletter")
# fmt: on


@pytest.fixture(scope="module")
def writer(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with writing_service(postgres, template, tmp_path_factory.mktemp("image_table")) as service:
        yield service


def save(writer: Writer, **fields: Any) -> Any:
    picture = io.BytesIO()
    Image.new("RGB", (12, 8), "red").save(picture, "PNG")
    return writer.owner.call(
        "POST",
        "/image-templates",
        data={"type": "postcard", "name": "Spring"} | fields,
        files={"image": ("spring.png", picture.getvalue())},
    )


@pytest.fixture(scope="module")
def shown(writer: Writer) -> dict[str, list[Template]]:
    """The least and the most of a template, from every operation that shows one."""
    least = save(writer).json()
    most = save(writer, design_tool_id="design-7", sub_account_id=writer.branch).json()
    owner, paths = writer.owner, [f"/image-templates/{each['id']}" for each in (least, most)]
    return {
        "POST": [least, most],
        "GET": [owner.get(path).json() for path in paths],
        "GET list": owner.get("/image-templates").json()["data"],
        "PUT": [owner.call("PUT", path, json={}).json() for path in paths],
    }


@pytest.mark.parametrize(("fields", "holds"), TABLE, ids=[", ".join(names) for names, _ in TABLE])
def test_a_field_is_as_the_table_says(shown: dict[str, list[Template]], fields: tuple[str, ...], holds: Test) -> None:
    for operation, templates in shown.items():
        for template in templates:
            for field in fields:
                assert holds(template[field]), (operation, field, template[field])


def test_nothing_else_is_shown(shown: dict[str, list[Template]]) -> None:
    fields = {name for names, _ in TABLE for name in names}
    assert {frozenset(each) for templates in shown.values() for each in templates} == {frozenset(fields)}


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_of_the_table_is_saved(writer: Writer, kind: str) -> None:
    made = save(writer, type=kind)
    assert (made.status_code, made.json()["type"]) == (201, kind)


@pytest.mark.parametrize("kind", ["postcard6x11", "magnacard", "Postcard"])
def test_a_type_beyond_the_table_is_refused(writer: Writer, kind: str) -> None:
    assert save(writer, type=kind).status_code == 422
