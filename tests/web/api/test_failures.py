"""Failures have one shape, and tell a caller what to do but nothing of our inside."""

from dataclasses import replace
from pathlib import Path

import pytest

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.factories import Account, Build, people, person
from support.test_client import TestClient
from support.traces import capture_logs, traces


def test_all_errors_of_a_body_are_named_at_once(owner: Account) -> None:
    refused = owner.send(size="9x9", message=5, preview="yes", recipients=[{"name": 5}])
    assert refused.status_code == 422
    body = refused.json()
    assert set(body) == {"message", "errors"}
    assert set(body["errors"]) == {"size", "message", "preview", "recipients.0.name"}
    assert all(isinstance(text, str) for texts in body["errors"].values() for text in texts)
    assert all(len(texts) == 1 for texts in body["errors"].values())
    assert body["message"].endswith("(and 3 more errors)")


def test_all_errors_of_the_content_are_named_at_once(owner: Account) -> None:
    refused = owner.send(
        message="Hi %FRIST_NAME%",
        metadata={"k": "x" * 9_000},
        schedule_for="soon",
        preview_recipient=9,
        qrcode_url="nowhere",
        handwriting_color="plaid",
        handwriting_style=99,
        recipients=[person(postal_code="1")],
    )
    assert set(refused.json()["errors"]) == {
        "message", "metadata", "schedule_for", "preview_recipient", "qrcode_url", "handwriting_color",
        "handwriting_style", "recipients.0.postal_code",
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [{"postal_code": "1"}, {"name": 5}], ids=["by us", "by type"])
def test_at_most_a_hundred_errors_are_named(owner: Account, wrong: dict[str, object]) -> None:
    refused = owner.send(recipients=[row | wrong for row in people(150)])
    assert refused.status_code == 422
    field = next(iter(wrong))
    assert list(refused.json()["errors"]) == [f"recipients.{n}.{field}" for n in range(100)]


def test_every_error_of_one_recipient_is_named(owner: Account) -> None:
    refused = owner.send(recipients=[person(postal_code="1", province="XX", email="x", dob="never")])
    assert set(refused.json()["errors"]) == {
        f"recipients.0.{field}" for field in ("postal_code", "province", "email", "dob")
    }


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/orders/1/cancel", "POST, PUT, DELETE, OPTIONS"),
        ("GET", "/send/postcard", "POST, OPTIONS"),
        ("PUT", "/webhooks", "GET, HEAD, POST, OPTIONS"),
        ("POST", "/webhooks/1", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("DELETE", "/orders/list", "GET, HEAD, OPTIONS"),
    ],
)
def test_the_error_for_a_wrong_method_names_the_allowed_ones(
    owner: Account, method: str, path: str, allowed: str
) -> None:
    refused = owner.call(method, path)
    assert (refused.status_code, refused.json()) == (405, {"message": "This method is not allowed here."})
    assert refused.headers["Allow"] == allowed


@pytest.mark.parametrize("path", ["/no/such/path", "/orders/1/2/3", "/send", "/v1/ping", "//ping"])
def test_an_unknown_path_is_not_found(owner: Account, path: str) -> None:
    refused = owner.get(path, headers={"Accept": "text/html"})
    assert (refused.status_code, refused.json()) == (404, {"message": "Not Found"})


def test_a_successful_response_has_no_errors(owner: Account) -> None:
    assert "errors" not in owner.send().json()
    assert "errors" not in owner.get("/orders/list").json()


def test_a_database_out_of_reach_is_503_in_shape(tmp_path: Path, owner: Account) -> None:
    settings = Settings.model_validate({"home": tmp_path / "home"})
    container = bootstrap.build_container(settings, f"host={tmp_path / 'nowhere'} dbname=quillpost")
    with TestClient(create_app(container)) as http:
        for headers in ({}, {"Authorization": f"Bearer {owner.token}"}):
            answer = http.get("/api/v2/ping", headers=headers)
            assert answer.status_code == 503
            assert list(answer.json()) == ["message"]
            assert str(tmp_path) not in answer.text
            assert int(answer.headers["Retry-After"]) > 0
            assert answer.headers["X-Request-Id"]


def test_storage_out_of_reach_is_503_and_nothing_is_half_written(
    owner: Account, container: Container, tmp_path: Path
) -> None:
    before = traces(container)
    files = tmp_path / "home" / "files"
    files.rename(tmp_path / "away")
    refused = owner.send(preview=True)
    (tmp_path / "away").rename(files)
    assert refused.status_code == 503
    assert list(refused.json()) == ["message"]
    assert int(refused.headers["Retry-After"]) > 0
    assert traces(container) == before


def crashing(url: str) -> str:
    raise RuntimeError(f"the inside of the house, at {url}")


def test_a_crash_is_500_with_a_request_id_and_nothing_of_the_inside(build: Build, owner: Account) -> None:
    broken = replace(build(), check_url=crashing)
    with capture_logs() as lines, TestClient(create_app(broken), raise_server_exceptions=False) as http:
        answer = http.post(
            "/api/v2/webhooks",
            headers={"Authorization": f"Bearer {owner.token}", "X-Request-Id": "my-own-id-1"},
            json={"url": "https://example.com", "type": "*"},
        )
    assert answer.status_code == 500
    assert answer.json() == {"message": "Something went wrong on our side. Quote the request id."}
    assert answer.headers["X-Request-Id"] == "my-own-id-1"
    assert answer.headers["X-RateLimit-Limit"] == "120"
    assert "inside" not in answer.text
    (failure,) = [line for line in lines() if line["event"] == "requests.failed"]
    assert failure["request_id"] == "my-own-id-1"
    assert "the inside of the house" in failure["exception"]


def test_every_answer_has_a_request_id_of_its_own(owner: Account, http: TestClient) -> None:
    answers = [owner.get("/ping"), owner.get("/ping"), http.get("/health"), http.get("/api/v2/ping")]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == len(answers)


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("order-4711.retry_2", True), ("short", False), ("x" * 65, False), ("with space 1", False), ("a\tb12345", False)],
)
def test_a_callers_own_request_id_is_repeated_where_it_is_safe(owner: Account, given: str, is_kept: bool) -> None:
    answered = owner.get("/ping", headers={"X-Request-Id": given}).headers["X-Request-Id"]
    assert (answered == given) is is_kept
