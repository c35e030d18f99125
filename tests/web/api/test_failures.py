"""Calls that fail have one answer, name what is wrong, and leave nothing behind."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, ValidationError

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.encryption import KeyFile
from quillpost.core.errors import Unavailable
from quillpost.core.settings import Settings
from quillpost.web.api.errors import error_response, to_invalid
from quillpost.web.api.schemas import Body, Id, Text
from quillpost.web.application import create_app
from support.factories import Account, person
from support.test_client import TestClient
from support.traces import capture_logs, unchanged

pytestmark = pytest.mark.usefixtures("clean_database", "loopback_urls")


def test_all_errors_of_a_body_are_named_at_once(owner: Account) -> None:
    refused = owner.send(size="9x9", message=5, preview="yes", recipients=[{"name": 5}])
    assert refused.status_code == 422
    body = refused.json()
    assert set(body) == {"message", "errors"}
    assert set(body["errors"]) == {"size", "message", "preview", "recipients.0.name"}
    assert all(isinstance(text, str) for texts in body["errors"].values() for text in texts)
    assert all(len(texts) == 1 for texts in body["errors"].values())
    assert body["message"].endswith("(and 3 more errors)")
    refused = owner.send(
        message="Hi %FRIST_NAME%", metadata={"k": "x" * 9_000}, schedule_for="soon", preview_recipient=9,
        qrcode_url="nowhere", handwriting_color="plaid", handwriting_style=99,
        recipients=[person(postal_code="1", province="XX", email="x", dob="never")],
    )  # fmt: skip
    assert set(refused.json()["errors"]) == {
        "message", "metadata", "schedule_for", "preview_recipient", "qrcode_url", "handwriting_color",
        "handwriting_style", *(f"recipients.0.{field}" for field in ("postal_code", "province", "email", "dob")),
    }  # fmt: skip


class Note(Body):
    text: Text = Field("", max_length=1_000)
    title: Text | None = Field(None, max_length=5)
    ids: Annotated[list[Id], Field(max_length=2)] | None = None
    body: dict[str, Id] | None = None
    either: Annotated[Text, Field(max_length=5), AfterValidator(str.strip)] | bool | list[Id] = True


def validation_errors(values: dict[str, Any]) -> Any:
    with pytest.raises(ValidationError) as caught:
        Note.model_validate(values)
    return caught.value.errors()


def shown_errors(errors: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(bytes(error_response(RequestValidationError(errors)).body))["errors"]
    return found


NOTES: list[tuple[dict[str, Any], dict[str, list[str]]]] = [
    ({"text": "x" * 1_001}, {"text": ["At most 1,000 characters, please."]}),
    ({"title": "sixsix"}, {"title": ["At most 5 characters, please."]}),
    ({"ids": [1, 2, 3]}, {"ids": ["At most 2 items, please."]}),
    # Which of several types was tried is nobody's field.
    ({"either": "sixsix"}, {"either": ["At most 5 characters, please.", "This must be true or false.",
                                       "This must be an array."]}),
    ({"either": [0]}, {"either": ["This must be a string.", "This must be true or false."],
                       "either.0": ["Input should be greater than or equal to 1."]}),
]  # fmt: skip


def test_an_error_says_what_is_wrong_under_the_name_of_its_field() -> None:
    """Only the part of the request is left out of its path: a field may be called body, query or path as well."""
    for values, expected in NOTES:
        assert to_invalid(validation_errors(values)).fields == expected, values
    found = validation_errors({"body": {"query": "one", "path": None}})
    sent = [error | {"loc": ("body", *error["loc"])} for error in found]
    assert list(shown_errors(sent)) == ["body.query", "body.path"] == list(to_invalid(found).fields)
    missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
    assert shown_errors([missing]) == {"body": ["This field is required."]}
    union_with_null: Any = [
        {"type": "bool_type", "loc": ("name", "bool"), "msg": "Input should be a valid boolean"},
        {"type": "none_required", "loc": ("name", "none"), "msg": "Input should be None"},
    ]
    assert to_invalid(union_with_null).fields == {"name": ["This must be true or false."]}


def test_a_database_out_of_reach_is_503_in_shape(tmp_path: Path, owner: Account) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home"})
    KeyFile(runtime.key_path(settings.home)).create_if_missing()  # else a start asks the database for secrets
    container = bootstrap.build_container(settings, f"host={tmp_path / 'nowhere'} dbname=quillpost")
    with TestClient(create_app(container)) as http:
        for headers in ({}, {"Authorization": f"Bearer {owner.token}"}):
            answer = http.get("/api/v2/ping", headers=headers)
            assert (answer.status_code, list(answer.json())) == (503, ["message"])
            assert str(tmp_path) not in answer.text
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.headers["X-Request-Id"]


def test_without_storage_nothing_is_kept(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_away(*_: object, **__: object) -> None:
        raise Unavailable("The storage does not answer.")

    with unchanged(container):
        monkeypatch.setattr(container.storage.store, "put", be_away)
        refused = owner.send(preview=True)
    assert (refused.status_code, list(refused.json())) == (503, ["message"])
    assert int(refused.headers["Retry-After"]) > 0


def crashing(url: str) -> str:
    raise RuntimeError(f"the inside of the house, at {url}")


def test_a_crash_shows_a_request_id_and_nothing_inside(app: FastAPI, container: Container, owner: Account) -> None:
    app.state.container = replace(container, check_url=crashing)
    given = {"headers": {"X-Request-Id": "my-own-id-1"}}
    with capture_logs() as lines:
        answer = owner.post("/webhooks", {"url": "https://example.com", "type": "*"}, **given)
    assert answer.status_code == 500
    assert answer.json() == {"message": "Something went wrong on our side. Quote the request id."}
    assert (answer.headers["X-Request-Id"], answer.headers["X-RateLimit-Limit"]) == ("my-own-id-1", "120")
    assert "inside" not in answer.text
    (failure,) = [line for line in lines() if line["event"] == "requests.failed"]
    assert failure["request_id"] == "my-own-id-1"
    assert "the inside of the house" in failure["exception"]


def test_every_answer_has_a_request_id_and_the_caller_s_own_where_it_is_safe(owner: Account, http: TestClient) -> None:
    answers = [owner.get("/ping"), owner.get("/ping"), http.get("/health"), http.get("/api/v2/ping")]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == len(answers)
    for given in ("order-4711.retry_2", "short", "x" * 65, "with space 1", "a\tb12345"):
        answer = owner.get("/ping", headers={"X-Request-Id": given}).headers["X-Request-Id"]
        assert (answer == given) is (given == "order-4711.retry_2"), given
