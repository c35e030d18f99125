"""The tables of gift card brands: the group, the brand object and the flat list, one row one test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.writable_service import Writer, writing_service

Test = Callable[[Any], bool]


def string(value: Any) -> bool:
    return type(value) is str and value != ""


def url(value: Any) -> bool:
    return string(value) and value.startswith("http://quillpost.test/")


def cents(value: Any) -> bool:
    return type(value) is list and bool(value) and all(type(each) is int and each > 0 for each in value)


BRAND: dict[str, Test] = {"brand_code": string, "title": string, "image": url, "available_amounts": cents}
GROUP: dict[str, Test] = {"title": string, "brands": lambda value: type(value) is list}


@pytest.fixture(scope="module")
def writer(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with writing_service(postgres, template, tmp_path_factory.mktemp("brand_tables")) as writer:
        yield writer


@pytest.fixture(scope="module")
def groups(writer: Writer) -> list[dict[str, Any]]:
    return list(writer.owner.get("/giftcard-brands").json().values())


@pytest.fixture(scope="module")
def flat(writer: Writer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = writer.owner.get("/giftcard-brands-list").json()["brands"]
    return found


def test_a_group_is_as_the_table_says(groups: list[dict[str, Any]]) -> None:
    assert groups
    for group in groups:
        assert group.keys() == GROUP.keys()
        assert all(holds(group[name]) for name, holds in GROUP.items())


@pytest.mark.parametrize("field", BRAND)
def test_a_field_of_a_brand_is_as_the_table_says(groups: list[dict[str, Any]], field: str) -> None:
    brands = [brand for group in groups for brand in group["brands"]]
    assert brands
    assert [brand for brand in brands if not BRAND[field](brand[field])] == []
    assert all(brand.keys() == BRAND.keys() for brand in brands)


def test_the_flat_list_has_the_title_of_the_group_as_well(
    groups: list[dict[str, Any]], flat: list[dict[str, Any]]
) -> None:
    assert flat == [brand | {"group": group["title"]} for group in groups for brand in group["brands"]]


def test_the_code_and_the_amount_are_what_is_sent_to_the_api(writer: Writer, flat: list[dict[str, Any]]) -> None:
    for brand in (flat[0], flat[-1]):
        amount = brand["available_amounts"][-1]
        sent = writer.owner.send("giftcard", giftcard_brand=brand["brand_code"], giftcard_amount=amount)
        assert sent.status_code == 200, sent.text
        assert (sent.json()["giftcard_brand"], sent.json()["giftcard_amount"]) == (brand["brand_code"], amount)
        assert (sent.json()["giftcard_image"], sent.json()["giftcard_brand_longname"]) == (
            brand["image"],
            brand["title"],
        )
