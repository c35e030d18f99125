"""The specification's table of the sub account, row by row, and the sentence below it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.factories import Account
from support.shared_service import shared_account

BRANDING = (
    "accentColor", "symbol", "logo", "disclaimer", "headshot", "name", "email", "phone", "company",
    "domain", "set", "first_name",
)  # fmt: skip
BACKGROUNDS = (
    "message_background_url", "postcard6x9_background_url", "notecard_background_url",
    "windowedletter_background_url", "windowlessletter_background_url",
)  # fmt: skip


@pytest.fixture(scope="module")
def owner(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with shared_account(postgres, template, tmp_path_factory.mktemp("sub-account-table")) as (owner, _):
        yield owner


def read(owner: Account, **body: Any) -> dict[str, Any]:
    """A sub account that was made of this, as it is read."""
    made = owner.post("/sub-accounts", {"title": "Branch"} | body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = owner.get(f"/sub-accounts/{made.json()['id']}").json()
    return found


@pytest.mark.parametrize("field", ["id", "user_id"])
def test_an_integer(owner: Account, field: str) -> None:
    assert type(read(owner)[field]) is int


def test_the_title_a_string_required_on_create(owner: Account) -> None:
    assert read(owner, title="Austin office")["title"] == "Austin office"
    refused = owner.post("/sub-accounts", {"return_name": "Dana"})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["title"])


@pytest.mark.parametrize(
    "field", ["return_name", "return_address", "return_address2", "return_city", "return_state", "return_postal_code"]
)
def test_a_string_optional_on_create(owner: Account, field: str) -> None:
    street = {"return_address": "9 Branch Rd"}
    assert read(owner, **street | {field: "78701"})[field] == "78701"
    assert read(owner)[field] is None


@pytest.mark.parametrize("field", BACKGROUNDS)
def test_a_read_additionally_carries(owner: Account, field: str) -> None:
    assert read(owner, **{field: "https://example.com/a.png"})[field] == "https://example.com/a.png"
    assert read(owner)[field] is None


@pytest.mark.parametrize("field", BRANDING)
def test_a_branding_fields_object_carries(owner: Account, field: str) -> None:
    value = "#1f4e79" if field == "accentColor" else "ours"
    branding = read(owner, branding_fields={field: value})["branding_fields"]
    assert branding == dict.fromkeys(BRANDING) | {field: value}


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
def test_a_time_as_year_to_second(owner: Account, field: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", read(owner)[field])


def test_no_other_key(owner: Account) -> None:
    assert set(read(owner)) == {
        "id", "user_id", "title", "name", "return_name", "return_address", "return_address2", "return_city",
        "return_state", "return_postal_code", *BACKGROUNDS, "branding_fields", "created_at", "updated_at",
    }  # fmt: skip
