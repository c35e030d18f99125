"""Hooks in: who is let in by a list's key, what they may send, and what they are told."""

import json
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account, make_sub_account, make_teammate, person
from support.list_webhook import ListWebhook, create_list_webhook
from support.list_webhook_payloads import FORM, JANE, PAYLOADS
from support.test_client import TestClient
from support.traces import capture_logs, traces

KNOWN = {"id", "mailing_list_id", "result", "ignored"}


@pytest.fixture
def hook(owner: Account) -> ListWebhook:
    return create_list_webhook(owner)


def sent_as_json_or_form(hook: ListWebhook, service: str) -> Any:
    payload = PAYLOADS[service]
    if payload.kind == FORM:
        return hook.send_raw(payload.form, FORM)
    return hook.send(payload.body)


@pytest.mark.parametrize("service", PAYLOADS)
def test_every_service_s_jane_is_put_on_the_list_once(hook: ListWebhook, service: str) -> None:
    answers = [sent_as_json_or_form(hook, service) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    ([first], [second]) = (answer.json() for answer in answers)
    assert (first["result"], second["result"]) == ("added", "unchanged")
    assert {name: first[name] for name in first.keys() - KNOWN} == PAYLOADS[service].expected
    assert set(first["ignored"]) == PAYLOADS[service].ignored
    [jane] = hook.people()
    assert jane["id"] == first["id"] == second["id"]
    assert (jane["name"], jane["address"], jane["city"]) == ("Jane Doe", "12 Main St", "Austin")
    assert (jane["province"], jane["postal_code"], jane["country"]) == ("TX", "78701", "US")


def test_a_list_counts_the_people_added_by_its_key(hook: ListWebhook) -> None:
    assert hook.results([JANE, person(address="13 Main St")]) == ["added", "added"]
    assert hook.lister.read(hook.list_id)["total_recipients"] == 2


def test_many_rows_are_answered_in_their_order_and_a_wrong_one_keeps_nobody_back(hook: ListWebhook) -> None:
    wrong = JANE | {"address": "13 Main St", "postal_code": "1"}
    rows = [JANE, {"name": "Nobody"}, "jane", wrong, JANE | {"phone": 5}]
    answer = hook.rows({"recipients": rows})
    assert [row["result"] for row in answer] == ["added", "refused", "refused", "refused", "changed"]
    assert [row.get("error") for row in answer] == [
        None,
        "address: Give an address, or at least an email.",
        "This must be an object with the fields of one person.",
        "postal_code: A ZIP code has 5 digits, or 5-4.",
        None,
    ]
    assert answer[4]["id"] == answer[0]["id"]
    assert "id" not in answer[1]
    [jane] = hook.people()
    assert jane["phone"] == "5"


def test_what_means_nothing_is_named_in_the_rows_and_in_the_header(hook: ListWebhook) -> None:
    answer = hook.send([JANE | {"shoe": 44}, JANE | {"hat": 7, "shoe": 1}])
    assert [row["ignored"] for row in answer.json()] == [["shoe"], ["hat", "shoe"]]
    assert answer.headers["X-Ignored-Fields"] == "hat, shoe"


def test_a_key_may_write_and_not_read(hook: ListWebhook) -> None:
    """Of what is known of someone already, and of the list, whoever has the key learns nothing."""
    hook.lister.add(hook.list_id, phone="5125550199", dob="1980-02-29", email="jane@example.com")
    [row] = hook.rows({"email": "jane@example.com"})
    assert row["result"] == "unchanged"
    assert row.keys() == KNOWN | {"email"}


def test_it_may_also_come_as_a_form_with_parts_and_without_a_label(hook: ListWebhook) -> None:
    parts = {f"contact[{name}]": (None, value) for name, value in JANE.items()}
    assert hook.http.post(hook.path, files=parts).json()[0]["result"] == "added"
    assert hook.send_raw(json.dumps(JANE).encode(), "").json()[0]["result"] == "unchanged"
    assert hook.send_raw(b"\xef\xbb\xbf" + json.dumps([JANE]).encode(), "text/plain").status_code == 200
    assert hook.send_raw(json.dumps(JANE).encode(), "application/vnd.x+json").status_code == 200
    form = "&".join(f"recipients[{n}][{name}]={n} {v}" for n in (0, 1) for name, v in [("address", "Elm St")])
    assert hook.send_raw(form.replace(" ", "+").encode(), FORM).json()[1]["address"] == "1 Elm St"
    assert len(hook.people()) == 3


@pytest.mark.parametrize(
    ("body", "kind", "status", "field", "sentence"),
    [
        (b"", "application/json", 422, "body", "The body is empty: send one person as an object"),
        (b" \n", FORM, 422, "body", "The body is empty"),
        (b'{"name": ', "application/json", 422, "body", "The body is not valid JSON"),
        (b'{"name": "a", "name": "b"}', "application/json", 422, "body", 'The key "name" is given twice.'),
        (b'"jane"', "application/json", 422, "body", "Send one person as an object, or many as an array."),
        (b"7", "application/json", 422, "body", "Send one person as an object"),
        (b"[" * 200 + b"]" * 200, "application/json", 422, "body", "The body is nested more than 32"),
        (b'{"a": "\xff"}', "application/json", 422, "body", "The body is not UTF-8"),
        (b'{"name": "Jane"}', FORM, 415, None, "The body looks like JSON but is labelled as a form"),
        (b"<name>Jane</name>", "text/xml", 415, None, "Send application/json, application/x-www-form"),
        (b"Jane", "text/plain", 415, None, "Send application/json"),
        (b"name=%ff", FORM, 422, "body", "The form cannot be read."),
        (b"a=1&a[b]=2", FORM, 422, "a[b]", "This name is given both a value and fields of its own."),
        (b"a[b]=1&a=2", FORM, 422, "a", "This name is given both a value and fields of its own."),
        (b"name=A&name=B&email=a@b.co", FORM, 422, "name", "This field is given twice, with different"),
        (b"a[email]=a@b.co&a[email]=c@d.co", FORM, 422, "a[email]", "This field is given twice"),
        (b"a" + b"[b]" * 9 + b"=1", FORM, 422, "a" + "[b]" * 9, "At most 7 brackets in a name, please."),
        (b"x", "multipart/form-data", 422, "body", "The form cannot be read"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused_with_a_sentence(
    hook: ListWebhook, container: Container, body: bytes, kind: str, status: int, field: str | None, sentence: str
) -> None:
    before = traces(container)
    answer = hook.send_raw(body, kind)
    assert answer.status_code == status
    payload = answer.json()
    assert payload["message"].startswith(sentence)
    assert list(payload.get("errors", {})) == ([] if field is None else [field])
    assert traces(container) == before


def test_a_form_may_say_a_thing_twice_and_have_several_of_what_is_not_ours(hook: ListWebhook) -> None:
    form = b"email=eve@example.com&name=Eve&name=Eve&tag=a&tag=b"
    [row] = hook.send_raw(form, FORM).json()
    assert (row["name"], row["result"], row["ignored"]) == ("Eve", "added", ["tag"])


def test_files_are_refused(hook: ListWebhook, container: Container) -> None:
    before = traces(container)
    answer = hook.http.post(hook.path, files={"people": ("people.csv", b"name\nJane", "text/csv")})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"people": ["No files are taken here: send the fields of a person."]}
    assert traces(container) == before


def test_nobody_at_all_is_nobody(hook: ListWebhook, container: Container) -> None:
    before = traces(container)
    bodies: list[Any] = [[], {"recipients": []}, {"data": []}]
    for body in bodies:
        assert hook.rows(body) == []
    [row] = hook.rows({})  # an object without such an array is one person
    assert row["error"] == "address: Give an address, or at least an email."
    assert traces(container) == before


def test_everyone_is_taken_from_all_arrays_and_what_is_beside_them_is_named(hook: ListWebhook) -> None:
    body = {"recipients": [JANE], "contacts": [{"email": "x@example.com", "hat": 7}], "page": 1}
    answer = hook.send(body)
    assert [row["result"] for row in answer.json()] == ["added", "added"]
    assert answer.headers["X-Ignored-Fields"] == "hat, page"
    assert len(hook.people()) == 2


def test_services_that_look_first_find_someone(hook: ListWebhook) -> None:
    looked = hook.http.get(hook.path)
    assert (looked.status_code, list(looked.json())) == (200, ["message"])
    assert hook.http.head(hook.path).status_code == 200
    refused = hook.http.put(hook.path, json=JANE)
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, HEAD, POST, OPTIONS"
    assert hook.people() == []


@pytest.mark.parametrize("key", ["ql_" + "x" * 43, "ql_short", "nothing", "ql_" + "é" * 43, "a%00b", "%ff"])
def test_an_unknown_key_opens_nothing(http: TestClient, hook: ListWebhook, key: str) -> None:
    for method in ("POST", "GET"):
        answer = http.request(method, f"/hooks/lists/{key}", json=JANE)
        assert (answer.status_code, answer.json()) == (404, {"message": "Not Found"})


def test_a_rotated_key_is_dead_at_once_and_the_new_one_opens(
    hook: ListWebhook, container: Container, owner: Account
) -> None:
    assert hook.results(JANE) == ["added"]
    rotated = owner.post(f"/mailing-lists/{hook.list_id}/rotate-key").json()["api_key"]
    before = traces(container)
    refused = hook.send(JANE | {"phone": "5"})
    assert (refused.status_code, refused.json()) == (404, {"message": "Not Found"})
    assert traces(container) == before
    assert ListWebhook(hook.lister, hook.list_id, rotated).results(JANE) == ["unchanged"]


def test_the_key_of_a_deleted_list_opens_nothing(hook: ListWebhook) -> None:
    hook.lister.delete(f"/mailing-lists/{hook.list_id}")
    assert hook.send(JANE).status_code == 404


def test_a_key_reaches_its_own_list_alone(
    hook: ListWebhook, container: Container, owner: Account, stranger: Account
) -> None:
    """Whatever list a row names: another of the account, a sub account's or a stranger's."""
    branch = make_sub_account(container, owner)
    teammate = make_teammate(container, owner, branch)
    others = [
        create_list_webhook(owner, "Others"),
        create_list_webhook(teammate, "Branch"),
        create_list_webhook(stranger, "Strangers"),
    ]
    for other in others:
        assert hook.results(person(mailing_list_id=other.list_id)) in (["added"], ["unchanged"])
        assert other.people() == []
    assert [one["mailing_list_id"] for one in hook.people()] == [hook.list_id]


def test_those_on_a_sub_account_s_list_are_the_sub_account_s(container: Container, owner: Account) -> None:
    branch = make_sub_account(container, owner)
    teammate, elsewhere = (make_teammate(container, owner, one) for one in (branch, make_sub_account(container, owner)))
    hook = create_list_webhook(teammate)
    assert hook.results(JANE) == ["added"]
    [row] = hook.rows(JANE | {"phone": "1"})
    assert teammate.get(f"/recipients/{row['id']}").json()["phone"] == "1"
    assert elsewhere.get(f"/recipients/{row['id']}").status_code == 404


def test_wrong_keys_are_rate_limited_and_good_keys_are_not(build: Build) -> None:
    container = build(calls_a_minute=6)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        hook = create_list_webhook(make_account(container, http, "owner@example.com"))
        guesses = [http.post(f"/hooks/lists/ql_{n:043}", json=JANE) for n in range(8)]
        assert [guess.status_code for guess in guesses] == [404] * 6 + [429] * 2
        assert 1 <= int(guesses[-1].headers["Retry-After"]) <= 60
        assert hook.send(JANE).status_code == 200


def test_a_key_has_a_limit_of_its_own_that_a_rotation_does_not_lift(build: Build) -> None:
    container = build(hook_calls_a_minute=3)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        hook, other = create_list_webhook(owner), create_list_webhook(owner, "Others")
        answers = [hook.send(JANE) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
        assert list(answers[-1].json()) == ["message"]
        assert answers[-1].headers["RateLimit-Reset"] == answers[-1].headers["Retry-After"]
        assert other.send(JANE).status_code == 200
        rotated = owner.post(f"/mailing-lists/{hook.list_id}/rotate-key").json()["api_key"]
        assert ListWebhook(hook.lister, hook.list_id, rotated).send(JANE).status_code == 429
        assert owner.get("/ping").status_code == 200


def test_too_much_at_once_is_refused_and_leaves_nothing(build: Build) -> None:
    container = build(inline_recipients=3, body_bytes=2_000)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        hook = create_list_webhook(make_account(container, http, "owner@example.com"))
        before = traces(container)
        many = hook.send([{"email": f"{n}@example.com"} for n in range(4)])
        assert many.status_code == 422
        assert many.json()["errors"] == {"recipients": ["At most 3 recipients in one call, please."]}
        assert hook.send(JANE | {"note": "x" * 2_000}).status_code == 413
        assert traces(container) == before
        assert hook.results([{"email": f"{n}@example.com"} for n in range(3)]) == ["added"] * 3


def test_neither_a_key_nor_anyone_is_in_the_logs(hook: ListWebhook, http: TestClient) -> None:
    jane = {"name": "Jane Quimby", "address": "7734 Hemlock Row", "zip": "78701", "email": "j.q@example.com"}
    with capture_logs() as lines:
        hook.send(jane)
        hook.send(jane | {"zip": "wrong"})
        hook.send_raw(b'{"name": "Jane Quimby"', "application/json")
        http.get(hook.path)
        http.post("/hooks/lists/ql_" + "guess" * 9, json=jane)
    written = json.dumps(lines())
    assert [line["route"] for line in lines() if line["event"] == "requests.completed"] == [
        "/hooks/lists/{api_key}"
    ] * 5
    secrets = (hook.key, hook.key[3:12], "guessguess", "Quimby", "Hemlock", "j.q@example.com")
    assert [secret for secret in secrets if secret in written] == []


def test_the_description_of_the_api_leads_to_it_and_shows_a_true_answer(hook: ListWebhook) -> None:
    about = hook.http.get("/openapi.json").json()["info"]["description"]
    assert "POST /hooks/lists/{api_key}" in about
    [shown] = json.loads(about.partition("answers `")[2].partition("`.")[0])
    [row] = hook.rows({"email": shown["email"]})
    assert row | {name: shown[name] for name in ("id", "mailing_list_id")} == shown


def test_it_is_no_part_of_the_api_and_needs_no_token(hook: ListWebhook, owner: Account) -> None:
    assert hook.http.post(f"/api/v2{hook.path}", json=JANE).status_code == 401
    assert hook.http.post(hook.path, json=JANE, headers={"Authorization": "Bearer x"}).status_code == 200
