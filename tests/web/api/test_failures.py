"""Calls that fail, or that meet others: each has one answer, and none loses or leaves anything."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, Field, ValidationError

from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import accounts, files, image_templates, items, orders, stored_sends
from quillpost.core.encryption import KeyFile
from quillpost.core.errors import Message, Unavailable
from quillpost.core.settings import Settings
from quillpost.orders import changes
from quillpost.web.api.errors import error_response, to_invalid
from quillpost.web.api.schemas import Body, Id, Text
from quillpost.web.application import create_app
from support.factories import Account, make_sub_account, person, postcard, run_due_jobs
from support.images import ImageServer
from support.rows import execute, run_as
from support.test_client import TestClient
from support.traces import TraceWatch, capture_logs, traces, unchanged
from support.uploads import BLUE, png, upload

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


Deed = Callable[[], object]
Meanwhile = Callable[[Deed], list[object]]


@pytest.fixture
def while_storing(container: Container, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return lambda deed: _first_do(monkeypatch, container.storage, "put", deed)


@pytest.fixture
def while_laying_out(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return lambda deed: _first_do(monkeypatch, changes, "check_fit", deed)


def _first_do(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, deed: Deed) -> list[object]:
    """Do it each time before the function is called; what came of it."""
    real, done = getattr(where, name), list[object]()

    def after_the_deed(*args: Any, **kwargs: Any) -> Any:
        done.append(deed())
        return real(*args, **kwargs)

    monkeypatch.setattr(where, name, after_the_deed)
    return done


def is_free(container: Container, table: sa.Table) -> bool:
    """Whether nobody holds a row of it; fails where somebody does."""
    return bool(execute(container, sa.select(table.c.id).with_for_update(nowait=True)))


def change(container: Container, table: sa.Table, **columns: object) -> None:
    execute(container, sa.update(table).values(**columns))


def remove(container: Container, owner: Account, branch: int) -> None:
    run_as(container, Tenant(owner.id), remove_sub_account, branch, now=container.clock())


def image_of(container: Container, template: int) -> UUID:
    [row] = execute(container, sa.select(image_templates).where(image_templates.c.id == template))
    found: UUID = row.image_file_id
    return found


GONE = (400, {"message": "Sub Account ID does not exist"})


def test_nobody_waits_while_pictures_are_put_away_or_another_message_is_laid_out(
    owner: Account, container: Container, art: ImageServer, while_storing: Meanwhile, while_laying_out: Meanwhile
) -> None:
    body = postcard(front_image_url=art.picture(), custom_background_image=art.picture("pink"))
    url = owner.post("/stored_send/postcard", body).json()["stored_send_url"]
    stored = while_storing(lambda: is_free(container, stored_sends))
    sent = owner.get(urlsplit(url).path.removeprefix("/api/v2"))
    assert (sent.status_code, stored) == (200, [True, True])
    laid_out = while_laying_out(lambda: is_free(container, orders))
    changed = owner.put(f"/orders/{sent.json()['id']}", {"message": "Other words"})
    assert (changed.status_code, laid_out) == (200, [True])


def test_an_image_is_neither_saved_for_nor_moved_to_a_sub_account_that_goes_meanwhile(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch, while_storing: Meanwhile
) -> None:
    for has_history in (False, True):
        branch = make_sub_account(container, owner)
        if has_history:
            earlier = upload(owner, image=png(BLUE), sub_account_id=branch).json()["id"]
            assert owner.delete(f"/image-templates/{earlier}").status_code == 200
        done = while_storing(lambda branch=branch: remove(container, owner, branch))  # type: ignore[misc]
        refused = upload(owner, sub_account_id=branch)
        assert ((refused.status_code, refused.json()), len(done)) == (GONE, 1)
        assert owner.get("/image-templates").json()["data"] == []
        monkeypatch.undo()
    branch, made = make_sub_account(container, owner), upload(owner).json()
    while_storing(lambda: remove(container, owner, branch))
    refused = owner.put(f"/image-templates/{made['id']}", {"sub_account_id": branch})
    assert (refused.status_code, refused.json()) == GONE
    assert owner.get(f"/image-templates/{made['id']}").json() == made


def test_an_image_of_a_moved_template_stays(owner: Account, container: Container, while_storing: Meanwhile) -> None:
    branch, made = make_sub_account(container, owner), upload(owner).json()
    while_storing(lambda: change(container, image_templates, sub_account_id=branch))
    path = f"/image-templates/{made['id']}"
    crossed = upload(owner, image=png(BLUE), method="PUT", path=path)
    assert (crossed.status_code, crossed.headers["Retry-After"]) == (409, "1")
    assert "try again" in crossed.json()["message"]
    assert owner.get(path).json() == made | {"sub_account_id": branch}
    again = upload(owner, image=png(BLUE), method="PUT", path=path)
    assert (again.status_code, again.json()["sub_account_id"]) == (200, branch)
    seen = run_as(container, Tenant(owner.id, branch), lambda tx: tx.scalars(sa.select(files.c.id)).all())
    assert image_of(container, made["id"]) in seen


def test_a_template_that_moves_does_not_take_an_earlier_image_along(
    owner: Account, container: Container, while_storing: Meanwhile
) -> None:
    branch, made = make_sub_account(container, owner), upload(owner).json()
    newer = image_of(container, upload(owner, image=png(BLUE)).json()["id"])
    while_storing(lambda: change(container, image_templates, image_file_id=newer))
    assert owner.put(f"/image-templates/{made['id']}", {"sub_account_id": branch}).status_code == 409
    assert image_of(container, made["id"]) == newer


def test_a_template_that_is_deleted_meanwhile_is_not_found(owner: Account, while_storing: Meanwhile) -> None:
    path = f"/image-templates/{upload(owner).json()['id']}"
    while_storing(lambda: owner.delete(path))
    assert upload(owner, image=png(BLUE), method="PUT", path=path).status_code == 404


def test_of_two_message_changes_one_is_409(owner: Account, container: Container, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send().json()['id']}"
    while_laying_out(lambda: change(container, orders, message="Faster words"))
    crossed = owner.put(path, {"message": "Slower words"})
    assert (crossed.status_code, crossed.headers["Retry-After"]) == (409, "1")
    assert "try again" in crossed.json()["message"]
    assert owner.get(path).json()["message"] == "Faster words"
    assert owner.put(path, {"message": "Slower words"}).json()["message"] == "Slower words"


def test_an_order_that_is_cancelled_meanwhile_keeps_its_message(owner: Account, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send(message='First').json()['id']}"
    while_laying_out(lambda: owner.put(f"{path}/cancel"))
    refused = owner.put(path, {"message": "Second"})
    assert (refused.status_code, "no longer be changed" in refused.json()["message"]) == (400, True)
    assert owner.get(path).json()["message"] == "First"


def test_lists_that_become_items_meanwhile_get_the_other_message(
    owner: Account, container: Container, while_laying_out: Meanwhile
) -> None:
    friends = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=friends))
    order = owner.send(mailing_list_ids=[friends], recipients=None).json()["id"]
    while_laying_out(lambda: run_due_jobs(container))
    changed = owner.put(f"/orders/{order}", {"message": "Other words"})
    assert (changed.status_code, changed.json()["order_total"]) == (200, 109)
    with container.db.system_transaction() as tx:
        keys = [tx.execute(sa.select(table.c.creative_key)).scalar_one() for table in (items, orders)]
    assert keys[0] == keys[1]


def test_a_warning_that_comes_then_stays(owner: Account, container: Container, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send(message='漢').json()['id']}"
    while_laying_out(lambda: change(container, orders, warnings=[Message("other", "Something else.")]))
    assert owner.put(path, {"message": "Hello"}).json()["warnings"] == ["Something else."]


# Into the part of its table where those lie that wait, as only the schema's own functions may.
A_DELIVERY = """
    insert into deliveries_pending
           (account_id, mode, webhook_id, fact_id, event_id, event_type, stream, status, created_at)
    values (1, 'test', 1, 1, gen_random_uuid(), 'x', 'x', 'pending', now())
"""


@pytest.mark.usefixtures("conninfo")
def test_a_watch_sees_every_change_that_reading_every_table_shows(owner: Account, container: Container) -> None:
    """Also what a key or a trigger changes in another table, what a table in parts has, and files."""
    watch = TraceWatch(container)
    changes: list[Callable[[psycopg.Connection], object]] = [
        lambda db: owner.post("/mailing-lists", {"description": "Visitors"}), lambda db: owner.send(),
        lambda db: db.execute("update accounts set company = 'Another'"),
        lambda db: db.execute("update mailing_lists set description = 'Friends'"), lambda db: db.execute(A_DELIVERY),
        lambda db: container.storage.store.put("a/file", b"x"), lambda db: db.execute("delete from accounts"),
        lambda db: db.execute("truncate prices cascade"),
    ]  # fmt: skip
    seen = [watch.traces()]
    for change in changes:
        with psycopg.connect(container.db.conninfo) as db:
            change(db)
        seen.append(watch.traces())
        assert seen[-1] == traces(container)
    assert all(before != after for before, after in pairwise(seen))


@pytest.mark.usefixtures("conninfo")
def test_what_only_reads_and_what_is_rolled_back_leaves_none(owner: Account, container: Container) -> None:
    owner.send()
    watch, before = TraceWatch(container), traces(container)
    assert owner.get("/orders").status_code == 200
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(company="Another"))
        tx.rollback()
    assert watch.traces() == before == traces(container)
