"""Hooks in: who is let in by a list's key, what they may send, and what a list makes of whom it knows already."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.recipients.rules import INEFFECTIVE_ENTRY
from quillpost.web.application import create_app
from support.automations import AutomationDriver, plan
from support.factories import Account, Build, Clock, make_account, make_sub_account, make_teammate, person
from support.list_webhooks import FORM, JANE, JSON, PAYLOADS, ListWebhook, create_list_webhook
from support.rows import scalar
from support.test_client import TestClient
from support.traces import capture_logs, traces
from support.waiting import wait_until

KNOWN = {"id", "mailing_list_id", "result", "ignored"}
EMAIL = {"email": "jane@example.com"}
ADDRESS = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"}
NOT_FOUND = (404, {"message": "Not Found"})


@pytest.fixture
def hook(owner: Account) -> ListWebhook:
    return create_list_webhook(owner)


def shown(hook: ListWebhook, *names: str) -> list[tuple[Any, ...]]:
    """The people of the list, as they are now."""
    return [tuple(one[name] for name in names) for one in hook.people()]


def test_every_service_s_jane_is_put_on_the_list_once(owner: Account, subtests: pytest.Subtests) -> None:
    for service, payload in PAYLOADS.items():
        with subtests.test(service):
            hook = create_list_webhook(owner, service)
            is_form = payload.kind == FORM
            answers = [hook.send_raw(payload.form, FORM) if is_form else hook.send(payload.body) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 200]
            ([first], [second]) = (answer.json() for answer in answers)
            assert (first["result"], second["result"]) == ("added", "unchanged")
            assert {name: first[name] for name in first.keys() - KNOWN} == payload.expected
            assert (set(first["ignored"]), first["id"]) == (payload.ignored, second["id"])
            names = ("id", "name", "address", "city", "province", "postal_code", "country")
            assert shown(hook, *names) == [(first["id"], "Jane Doe", "12 Main St", "Austin", "TX", "78701", "US")]


def test_many_rows_are_answered_in_their_order_and_a_wrong_one_keeps_nobody_back(hook: ListWebhook) -> None:
    wrong = JANE | {"address": "13 Main St", "postal_code": "1"}
    rows: list[Any] = [JANE, {"name": "Nobody"}, "jane", wrong, JANE | {"phone": 5}]
    answer = hook.rows({"recipients": rows})
    assert [(row["result"], row.get("error")) for row in answer] == [
        ("added", None), ("refused", "address: Give an address, or at least an email."),
        ("refused", "This must be an object with the fields of one person."),
        ("refused", "postal_code: A ZIP code has 5 digits, or 5-4."), ("changed", None),
    ]  # fmt: skip
    assert (answer[4]["id"], "id" in answer[1]) == (answer[0]["id"], False)
    assert shown(hook, "phone") == [("5",)]
    # What means nothing is named in the rows and in the header; everyone is taken from all arrays.
    odd = hook.send([JANE | {"shoe": 44}, JANE | {"hat": 7, "shoe": 1}])
    assert [row["ignored"] for row in odd.json()] == [["shoe"], ["hat", "shoe"]]
    assert odd.headers["X-Ignored-Fields"] == "hat, shoe"
    several = hook.send({"recipients": [JANE], "contacts": [{"email": "x@example.com", "hat": 7}], "page": 1})
    assert [row["result"] for row in several.json()] == ["unchanged", "added"]
    assert several.headers["X-Ignored-Fields"] == "hat, page"
    assert hook.lister.read(hook.list_id)["total_recipients"] == len(hook.people()) == 2


def test_a_key_may_write_and_not_read(hook: ListWebhook) -> None:
    """Of what is known of someone already, and of the list, whoever has the key learns nothing."""
    hook.lister.add(hook.list_id, phone="5125550199", dob="1980-02-29", email="kim@example.com")
    [row] = hook.rows({"email": "kim@example.com"})
    assert (row["result"], {*row}) == ("unchanged", KNOWN | {"email"})
    looked = hook.http.get(hook.path)  # services that look first find someone
    assert (looked.status_code, list(looked.json())) == (200, ["message"])
    assert hook.http.head(hook.path).status_code == 200
    refused = hook.http.put(hook.path, json=JANE)
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, POST, OPTIONS")
    about = hook.http.get("/openapi.json").json()["info"]["description"]
    assert "POST /hooks/lists/{api_key}" in about
    [example] = json.loads(about.partition("answers `")[2].partition("`.")[0])
    [row] = hook.rows({"email": example["email"]})
    assert row | {name: example[name] for name in ("id", "mailing_list_id")} == example
    # It is no part of the API and needs no token.
    assert hook.http.post(f"/api/v2{hook.path}", json=JANE).status_code == 401
    assert hook.http.post(hook.path, json=JANE, headers={"Authorization": "Bearer x"}).status_code == 200


def test_it_may_also_come_as_a_form_with_parts_and_without_a_label(hook: ListWebhook) -> None:
    parts = {f"contact[{name}]": (None, value) for name, value in JANE.items()}
    assert hook.http.post(hook.path, files=parts).json()[0]["result"] == "added"
    assert hook.send_raw(json.dumps(JANE).encode(), "").json()[0]["result"] == "unchanged"
    assert hook.send_raw(b"\xef\xbb\xbf" + json.dumps([JANE]).encode(), "text/plain").status_code == 200
    assert hook.send_raw(json.dumps(JANE).encode(), "application/vnd.x+json").status_code == 200
    form = "&".join(f"recipients[{n}][{name}]={n} {v}" for n in (0, 1) for name, v in [("address", "Elm St")])
    assert hook.send_raw(form.replace(" ", "+").encode(), FORM).json()[1]["address"] == "1 Elm St"
    assert len(hook.people()) == 3
    # It may say a thing twice, and have several of what is not ours.
    [row] = hook.send_raw(b"email=eve@example.com&name=Eve&name=Eve&tag=a&tag=b", FORM).json()
    assert (row["name"], row["result"], row["ignored"]) == ("Eve", "added", ["tag"])


UNREADABLE: list[tuple[bytes, str, int, str | None, str]] = [
    (b"", JSON, 422, "body", "The body is empty: send one person as an object"),
    (b" \n", FORM, 422, "body", "The body is empty"),
    (b'{"name": ', JSON, 422, "body", "The body is not valid JSON"),
    (b'{"name": "a", "name": "b"}', JSON, 422, "body", 'The key "name" is given twice.'),
    (b'"jane"', JSON, 422, "body", "Send one person as an object, or many as an array."),
    (b"7", JSON, 422, "body", "Send one person as an object"),
    (b"[" * 200 + b"]" * 200, JSON, 422, "body", "The body is nested more than 32"),
    (b'{"a": "\xff"}', JSON, 422, "body", "The body is not UTF-8"),
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
]


def test_an_unreadable_body_gets_a_sentence(hook: ListWebhook, container: Container, subtests: pytest.Subtests) -> None:
    before = traces(container)
    for body, kind, status, field, sentence in UNREADABLE:
        with subtests.test(f"{kind} {body[:40]!r}"):
            answer = hook.send_raw(body, kind)
            assert (answer.status_code, answer.json()["message"].startswith(sentence)) == (status, True)
            assert list(answer.json().get("errors", {})) == ([] if field is None else [field])
    answer = hook.http.post(hook.path, files={"people": ("people.csv", b"name\nJane", "text/csv")})
    assert answer.status_code == 422
    assert answer.json()["errors"] == {"people": ["No files are taken here: send the fields of a person."]}
    nobody: list[Any] = [[], {"recipients": []}, {"data": []}]
    assert [hook.rows(body) for body in nobody] == [[]] * 3
    [row] = hook.rows({})  # an object without such an array is one person
    assert row["error"] == "address: Give an address, or at least an email."
    assert traces(container) == before


def test_only_the_list_s_present_key_opens_it(hook: ListWebhook, container: Container, owner: Account) -> None:
    for key in ("ql_" + "x" * 43, "ql_short", "nothing", "ql_" + "é" * 43, "a%00b", "%ff"):
        for method in ("POST", "GET"):
            answer = hook.http.request(method, f"/hooks/lists/{key}", json=JANE)
            assert (answer.status_code, answer.json()) == NOT_FOUND, key
    assert hook.results(JANE) == ["added"]
    rotated = owner.post(f"/mailing-lists/{hook.list_id}/rotate-key").json()["api_key"]
    before = traces(container)
    refused = hook.send(JANE | {"phone": "5"})
    assert (refused.status_code, refused.json()) == NOT_FOUND
    assert traces(container) == before
    hook = ListWebhook(hook.lister, hook.list_id, rotated)
    assert hook.results(JANE) == ["unchanged"]
    hook.lister.delete(f"/mailing-lists/{hook.list_id}")
    assert hook.send(JANE).status_code == 404


def test_a_key_that_rotates_while_a_call_waits_opens_nothing(hook: ListWebhook, container: Container) -> None:
    def someone_waits() -> bool:
        return bool(scalar(container, "select count(*) from pg_locks where not granted"))

    of_list = mailing_lists.c.id == hook.list_id
    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            tx.execute(sa.select(mailing_lists).where(of_list).with_for_update())
            waiting = pool.submit(hook.send, JANE)
            wait_until(someone_waits)
            tx.execute(sa.update(mailing_lists).where(of_list).values(key_digest=b"other"))
        assert waiting.result(timeout=60).status_code == 404
    assert hook.people() == []


def test_a_key_reaches_its_own_list_and_its_own_sub_account_alone(
    hook: ListWebhook, container: Container, owner: Account, stranger: Account
) -> None:
    """Whatever list a row names: another of the account, a sub account's or a stranger's."""
    teammate, elsewhere = (make_teammate(container, owner, make_sub_account(container, owner)) for _ in range(2))
    branch = create_list_webhook(teammate, "Branch")
    for other in (create_list_webhook(owner, "Others"), branch, create_list_webhook(stranger, "Strangers")):
        assert hook.results(person(mailing_list_id=other.list_id)) in (["added"], ["unchanged"])
        assert other.people() == []
    assert shown(hook, "mailing_list_id") == [(hook.list_id,)]
    assert branch.results(JANE) == ["added"]
    [row] = branch.rows(JANE | {"phone": "1"})
    assert teammate.get(f"/recipients/{row['id']}").json()["phone"] == "1"
    assert elsewhere.get(f"/recipients/{row['id']}").status_code == 404


def test_wrong_keys_are_rate_limited_and_a_good_key_has_a_limit_of_its_own(build: Build) -> None:
    container = build(calls_a_minute=6, hook_calls_a_minute=3, inline_recipients=3, body_bytes=2_000)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        hook, other = create_list_webhook(owner), create_list_webhook(owner, "Others")
        guesses = [http.post(f"/hooks/lists/ql_{n:043}", json=JANE) for n in range(8)]
        assert [guess.status_code for guess in guesses] == [404] * 6 + [429] * 2
        assert 1 <= int(guesses[-1].headers["Retry-After"]) <= 60
        answers = [hook.send(JANE) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
        assert list(answers[-1].json()) == ["message"]
        assert answers[-1].headers["RateLimit-Reset"] == answers[-1].headers["Retry-After"]
        rotated = owner.post(f"/mailing-lists/{hook.list_id}/rotate-key").json()["api_key"]
        assert ListWebhook(hook.lister, hook.list_id, rotated).send(JANE).status_code == 429, "a rotation lifts none"
        # Too much at once is refused and leaves nothing.
        before = traces(container)
        many = other.send([{"email": f"{n}@example.com"} for n in range(4)])
        assert many.status_code == 422
        assert many.json()["errors"] == {"recipients": ["At most 3 recipients in one call, please."]}
        assert other.send(JANE | {"note": "x" * 2_000}).status_code == 413
        assert traces(container) == before
        assert other.results([{"email": f"{n}@example.com"} for n in range(3)]) == ["added"] * 3


def test_neither_a_key_nor_anyone_is_in_the_logs(hook: ListWebhook, http: TestClient) -> None:
    jane = {"name": "Jane Quimby", "address": "7734 Hemlock Row", "zip": "78701", "email": "j.q@example.com"}
    with capture_logs() as lines:
        hook.send(jane)
        hook.send(jane | {"zip": "wrong"})
        hook.send_raw(b'{"name": "Jane Quimby"', JSON)
        http.get(hook.path)
        http.post("/hooks/lists/ql_" + "guess" * 9, json=jane)
    written = json.dumps(lines())
    routes = [line["route"] for line in lines() if line["event"] == "requests.completed"]
    assert routes == ["/hooks/lists/{api_key}"] * 5
    secrets = (hook.key, hook.key[3:12], "guessguess", "Quimby", "Hemlock", "j.q@example.com")
    assert [secret for secret in secrets if secret in written] == []


def test_someone_known_is_updated_and_keeps_what_is_not_sent(hook: ListWebhook, clock: Clock) -> None:
    hook.rows(JANE | {"phone": "1", "custom1": "blue", "dob": "1980-02-29", "postal_code": "78701-1234"})
    row = {"Street": "12 MAIN ST.", "zip": "78701", "city": "Austin", "phone": "2", "custom1": ""}
    assert hook.results(row) == ["changed"]
    assert shown(hook, "phone", "custom1", "dob", "email", "name", "postal_code", "address") == [
        ("2", "blue", "1980-02-29", "jane@example.com", "Jane Doe", "78701-1234", "12 MAIN ST.")
    ]
    assert hook.results(row) == ["unchanged"]
    # An e-mail alone adds to whoever has it, and no address.
    assert hook.results(EMAIL | {"phone": "7", "city": "Dallas", "country": "Canada"}) == ["changed"]
    assert shown(hook, "city", "country", "phone") == [("Austin", "US", "7")]
    # A call that changes nothing leaves the date of the last change.
    couple = [JANE | {"address": "14 Main St"}, JANE | {"name": "John Doe", "address": "14 Main St"}]
    couple += [person(address="13 Main St"), {"email": "x@example.com"}]
    assert hook.results(couple) == ["added", "changed", "added", "added"]
    before = shown(hook, *ADDRESS, "name", "email", "updated_at")
    clock.advance(hours=1)
    assert hook.results(couple) == ["unchanged"] * 4
    assert shown(hook, *ADDRESS, "name", "email", "updated_at") == before
    assert hook.results(couple[:1]) == ["changed"]
    assert [at != made for at, made in shown(hook, "updated_at", "created_at")] == [False, True, False, False]


def test_an_email_that_several_have_tells_nobody_apart(hook: ListWebhook) -> None:
    rows = [JANE, EMAIL | {"phone": "7"}, JANE | {"address": "13 Main St"}]  # several will, when the call is done
    assert hook.results(rows) == ["added", "refused", "added"]
    assert hook.results(rows) == ["unchanged", "refused", "unchanged"]
    [row] = hook.rows(EMAIL | {"phone": "7"})
    assert row["error"] == "email: Several on this list have this e-mail: give the address as well."
    assert shown(hook, "phone") == [(None,), (None,)]


def test_half_a_name_replaces_none_and_is_taken_where_there_is_none(hook: ListWebhook) -> None:
    hook.rows([EMAIL | {"name": "Sho Pify"}, {"email": "x@example.com"}, {"email": "y@example.com"}])
    for half, other in (({"first_name": "Sho"}, "x@example.com"), ({"last_name": "Pify"}, "y@example.com")):
        assert hook.results([EMAIL | half, {"email": other} | half]) == ["unchanged", "changed"]
    assert shown(hook, "name") == [("Sho Pify",), ("Sho",), ("Pify",)]
    assert hook.results(EMAIL | {"first_name": "Ann", "last_name": "Other"}) == ["changed"]


HALVES: list[tuple[dict[str, str], dict[str, str], str, str | None]] = [
    (EMAIL | {"name": "Jane", "phone": "1"}, {"email": "JANE@example.com", **ADDRESS}, "changed", "Austin"),
    (EMAIL | {"address": "12 Main St"}, EMAIL | ADDRESS, "changed", "Austin"),
    (EMAIL | {"address": "12 Main St", "city": "austin"}, EMAIL | ADDRESS, "changed", "Austin"),
    (EMAIL | {"address": "12 Main St", "city": "Reno"}, EMAIL | ADDRESS, "added", "Reno"),
    (EMAIL | {"address": "13 Main St"}, EMAIL | ADDRESS, "added", None),
    ({"address": "12 Main St"}, EMAIL | ADDRESS, "added", None),
    (EMAIL | ADDRESS, EMAIL | {"address": "12 main st"}, "unchanged", "Austin"),
    (EMAIL | ADDRESS, EMAIL | {"address": "12 main st", "city": "Reno"}, "added", "Austin"),
    (EMAIL | {"address": "12 Main St"}, EMAIL | {"address": "12 Main St", "phone": "1"}, "changed", None),
    (EMAIL | {"address": "12 Main St", "unit": "4"}, EMAIL | ADDRESS, "added", None),
]


def test_half_an_address_and_its_whole_are_one_unless_they_differ(owner: Account, subtests: pytest.Subtests) -> None:
    for known, row, result, city in HALVES:
        with subtests.test(f"{known} {row}"):
            hook = create_list_webhook(owner, str(known))
            assert hook.results(known) == ["added"]
            assert hook.results(row) == [result]
            assert hook.people()[0]["city"] == city
            assert len(hook.people()) == (2 if result == "added" else 1)
            assert hook.results(row) == ["unchanged"]


def test_rows_and_calls_about_one_person_make_one_entry(hook: ListWebhook, owner: Account) -> None:
    rows = [EMAIL, EMAIL | ADDRESS, ADDRESS | {"phone": "1"}, {"email": "second@example.com", **ADDRESS}]
    answer = hook.rows(rows)
    assert [row["result"] for row in answer] == ["added", "changed", "changed", "changed"]
    assert len({row["id"] for row in answer}) == 1
    assert shown(hook, "email", "address", "phone") == [("second@example.com", "12 Main St", "1")]
    other = create_list_webhook(owner, "Twenty at once")

    def send(n: int) -> list[dict[str, Any]]:
        return other.rows(JANE if n % 2 else EMAIL | {"name": "Jane Doe"})

    with ThreadPoolExecutor(20) as pool:
        rows = [row for [row] in pool.map(send, range(20))]
    assert len({row["id"] for row in rows}) == 1
    assert Counter(row["result"] for row in rows)["added"] == 1
    assert shown(other, "name", "address", "email") == [("Jane Doe", "12 Main St", "jane@example.com")]


def test_a_suppression_list_takes_whoever_it_can_bar_and_alone_the_unsubscribed_of_others(owner: Account) -> None:
    never = create_list_webhook(owner, "Never", is_suppression_list=True)
    answer = never.rows([{"address": "9 Elm St"}, {"email": "x@example.com", "address": "9 Elm St"}])
    assert [row["result"] for row in answer] == ["refused", "added"]
    assert answer[0]["error"] == f"address: {INEFFECTIVE_ENTRY}"
    # An e-mail alone stays an entry of its own: it bars the e-mail; with an address it would bar the address instead.
    for _ in range(2):
        for row in (EMAIL, JANE, EMAIL | {"address": "12 Main St"}):
            never.rows(row)
    assert shown(never, "email", "postal_code", "address")[1:] == [
        ("jane@example.com", None, None),
        ("jane@example.com", "78701", "12 Main St"),
        ("jane@example.com", None, "12 Main St"),
    ]
    friends = owner.send(recipients=[person(email="jane@example.com", address="99 Far Rd")])
    item = owner.get(f"/orders/{friends.json()['id']}/items").json()["data"][0]
    assert item["failure"] == "This address is on a suppression list."
    hook, never = create_list_webhook(owner), create_list_webhook(owner, "Never", is_suppression_list=True)
    left = PAYLOADS["Mailchimp audience"].body | {"type": "unsubscribe"}
    rows = [one.http.post(one.path, data=left).json()[0] for one in (hook, never)]
    assert [row["result"] for row in rows] == ["refused", "added"]
    assert rows[0]["error"].startswith("This tells of someone who left, so nobody was added.")
    assert [name for row in rows for name in row["ignored"] if name == "type"] == []
    assert hook.results([{"type": "ContactDelete", **JANE}, JANE]) == ["refused", "added"]


def test_the_source_is_the_type_of_a_list_that_has_none(owner: Account) -> None:
    for source in ("automation", "crm"):
        ways = [create_list_webhook(owner, f"{source} {n}") for n in range(4)]
        ways[0].send([JANE], f"?source={source}")
        assert ways[1].rows(JANE | {"source": source})[0]["ignored"] == []
        ways[2].send({"source": source, "recipients": [JANE]})
        ways[3].send_raw(f"source={source}&email=jane%40example.com".encode(), FORM)
        for hook in ways:
            assert hook.lister.read(hook.list_id)["type"] == source
            for later in ("automation", "crm"):
                hook.send(JANE, f"?source={later}")
            assert hook.lister.read(hook.list_id)["type"] == source
    hook = create_list_webhook(owner, "Friends", type="friends")
    assert hook.send(JANE, "?source=crm").status_code == 200
    assert hook.lister.read(hook.list_id)["type"] == "friends"
    refused = hook.send(JANE, "?source=hubspot")
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"source": ["Use automation or crm, or leave it out."]}
    assert hook.send(JANE | {"source": "hubspot"}).json()[0]["ignored"] == ["source"]


@pytest.mark.usefixtures("clean_database")
def test_someone_new_by_the_key_is_mailed_once_by_the_automation_of_the_list(
    hook: ListWebhook, container: Container, owner: Account, clock: Clock
) -> None:
    automator = AutomationDriver(owner, container, clock)
    automator.make(plan(hook.list_id))
    clock.advance(seconds=1)
    for row in (JANE, JANE | {"phone": "1"}):
        hook.rows(row)
        automator.work()
    [order] = owner.get("/orders").json()["data"]
    [item] = owner.get(f"/orders/{order['id']}/items").json()["data"]
    assert (item["recipient"]["name"], item["recipient"]["address"]) == ("Jane Doe", "12 Main St")
