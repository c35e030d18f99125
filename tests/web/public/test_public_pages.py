"""The pages that anyone may open, those of somebody who is signed in, and the API's description: found, safe, and
complete in themselves."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.web.application import create_app
from quillpost.web.assets import ASSETS
from quillpost.web.public.docs import pages as doc_pages
from quillpost.web.rendering import CONTENT_SECURITY_POLICY, form_action_source
from support.factories import Account, Build, make_account
from support.pages import ParsedPage, assert_hides, assert_shows
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
HERE, OWNER = "127.0.0.1", "dana@example.com"
COMMENT = re.compile(r"(?:^|\s)// [A-Z0-9a-z].*")
OF_NOBODY = {
    "/": 200, "/docs": 200, "/sign-in": 200, "/forgot": 200, "/stop": 200, "/reset/nonsense": 404,
    "/join/nonsense": 404, "/nowhere": 404, "/lists/import": 200,  # the page on which one signs in
}  # fmt: skip
OF_SOMEBODY = (
    "/", "/lists/import", "/settings", "/settings/second-factor", "/settings/people", "/settings/tokens",
    "/settings/clients", "/settings/apps", "/settings/audit", "/sign-in/confirm",
)  # fmt: skip


@pytest.fixture
def with_receiver(build: Build) -> Container:
    return build(receiver=True)


@pytest.fixture
def local(with_receiver: Container) -> Iterator[TestClient]:
    """The service as it is reached from the machine that it runs on."""
    with TestClient(create_app(with_receiver), base_url="http://localhost", client=(HERE, 50_000)) as http:
        yield http


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, OWNER)
    browser = sign_in_browser(http)
    browser.sign_in(OWNER)
    return browser


def safe_page(browser: Browser, path: str, status: int) -> set[str]:
    """The addresses that it points to. It is under the policy and in no frame, and fetches nothing from elsewhere."""
    shown = browser.get(path)
    assert shown.status_code == status, path
    for name, value in {
        "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
    }.items():  # fmt: skip
        assert shown.headers[name] == value, path
    assert "camera=()" in shown.headers["Permissions-Policy"], path
    seen = ParsedPage.of(shown.text)
    assert seen.inline_code == []
    assert not [name for name in seen.attributes if name == "style" or name.startswith("on")]
    assert len(seen.ids) == len(set(seen.ids)), path
    for address in seen.addresses:
        if address.startswith("#"):
            assert address[1:] in seen.ids, f"{path} points to {address}"
        else:
            assert address.startswith("/"), f"{path} points to {address}"
            assert not address.startswith("//"), f"{path} points to {address}"
    assert shown.text.count('method="post"') == shown.text.count('name="csrf"'), path
    return {address for address in seen.addresses if not address.startswith("#")}


def test_every_page_is_safe_and_complete_and_its_links_lead_on(with_receiver: Container, local: TestClient) -> None:
    receiver = f"/receiver/{with_receiver.receiver_key}"
    nobody, dana = (sign_in_browser(local, address=HERE) for _ in range(2))
    of_nobody, of_dana = set[str](), set[str]()
    for path, status in (OF_NOBODY | {receiver: 200}).items():
        of_nobody |= safe_page(nobody, path, status)
    assert receiver in of_nobody
    for email in ("owner@example.com", "stranger@example.com"):
        make_user(with_receiver, make_account(with_receiver, local, email).id, OWNER)
    dana.sign_in(OWNER)
    for path in OF_SOMEBODY:
        of_dana |= safe_page(dana, path, 200)
        assert dana.shown is not None
        assert (dana.shown.headers["Cache-Control"], dana.shown.url.path) == ("no-store", path)
        assert 'name="csrf"' in dana.shown.text, path
        if path.startswith("/settings"):  # the list of sections says where one is
            sections = dana.shown.text.partition('<nav class="sections"')[2].partition("</nav>")[0]
            assert sections.count('aria-current="page"') == 1, path
    for browser, addresses in ((nobody, of_nobody), (dana, of_dana - of_nobody)):
        # Where only forms lead, looking is not allowed; /ready is 503 as no worker runs in this test.
        found = {address: browser.get(address).status_code for address in addresses}
        assert set(found.values()) <= {200, 405, 503}, found


def test_a_form_tells_us_where_it_comes_from_and_tells_other_sites_nothing(http: TestClient, browser: Browser) -> None:
    anyone, policy = sign_in_browser(http), "Referrer-Policy"
    assert anyone.get("/sign-in").headers[policy] == "same-origin"
    for path in ("/reset/nonsense", "/join/nonsense"):
        assert anyone.get(path).headers[policy] == "strict-origin"
    assert http.get("/health").headers[policy] == "no-referrer"
    opener = "Cross-Origin-Opener-Policy"  # pages that apps open in a window keep their opener
    assert opener not in anyone.get("/sign-in").headers
    assert opener not in browser.get("/sign-in/confirm").headers
    for path in ("/", "/settings", "/lists/import", "/docs"):
        assert browser.get(path).headers[opener] == "same-origin"
    # Whoever came over https comes so again.
    transport, safe = "Strict-Transport-Security", sign_in_browser(http, base_url="https://quillpost.test")
    assert transport not in anyone.get("/sign-in").headers
    for path in ("/sign-in", "/health", "/nowhere"):
        assert safe.get(path).headers[transport] == "max-age=31536000"


def test_data_is_under_a_policy_that_allows_nothing_and_pages_under_theirs(http: TestClient, owner: Account) -> None:
    nothing = "default-src 'none'; frame-ancestors 'none'"
    for answer in (owner.get("/ping"), owner.get("/nowhere"), http.get("/health"), http.get("/settings")):
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Content-Security-Policy"] == nothing
    picture = http.get("/art/postcard-4x6.png")
    assert picture.headers["Content-Type"] == "image/png"
    assert "Content-Security-Policy" not in picture.headers
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    sources = {
        "https://app.example/back?x=1": "https://app.example", "http://127.0.0.1:8765/back": "http://127.0.0.1:8765",
        "http://[::1]:8765/back": "http:", "com.example.app:/back": "com.example.app:",
        "https://app.example;script-src *": "https:", "https://user@app.example/": "https:",
    }  # fmt: skip
    assert {address: form_action_source(address) for address in sources} == sources


def test_a_failure_is_a_page_for_people_or_our_error_shape(browser: Browser, http: TestClient, owner: Account) -> None:
    page = browser.post("/settings/name", csrf="wrong", headers={"Referer": f"{browser.origin}/settings"})
    assert (page.status_code, page.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert_shows(page, 'href="/settings">Open the page')
    for shown in (page, browser.get("/nowhere")):
        assert_shows(shown, "Dana Whitfield")
    response = browser.post("/settings/name", csrf="wrong", headers={"Accept": "*/*"})
    assert (response.status_code, set(response.json())) == (403, {"message"})
    assert_shows(http.get("/files/expired", headers=BROWSER), "no page at this address")
    for answer in (http.get("/nowhere"), owner.get("/nowhere", headers=BROWSER), http.get("/api/x", headers=BROWSER)):
        assert answer.json() == {"message": "Not Found"}


def test_assets_name_no_other_host_and_may_be_kept_for_ever(http: TestClient) -> None:
    for asset in ASSETS.values():
        text = asset.body.decode().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "://" not in text, asset.name
        assert "//" not in COMMENT.sub("", text), asset.name
        assert "url(" not in text
    style = ASSETS["quillpost.css"]
    served = http.get(style.path)
    assert served.content == style.body
    assert served.headers["Content-Type"].startswith("text/css")
    assert "immutable" in served.headers["Cache-Control"]
    assert http.get("/assets/../render.py").status_code == 404
    assert http.get("/assets/render.py").status_code == 404


def test_home_says_the_release_and_leads_to_the_docs(app: FastAPI, http: TestClient) -> None:
    seen = ParsedPage.of(http.get("/").text)
    assert f"Quillpost {app.state.release}" in seen.words
    assert "/docs" in seen.addresses
    assert "Event receiver" not in seen.words


def test_the_receivers_address_is_shown_on_this_machine_only(with_receiver: Container, local: TestClient) -> None:
    """Nobody who has signed in but the owner of its account, and nobody from elsewhere."""
    key = str(with_receiver.receiver_key)
    for host, client in (("http://localhost", ("203.0.113.9", 50_000)), ("http://rebound.example", (HERE, 50_000))):
        shown = TestClient(local.app, base_url=host, client=client).get("/").text
        assert (key in shown, "Its address is private" in shown) == (False, True), host
    owner, stranger = (make_account(with_receiver, local, email) for email in ("o@example.com", "s@example.com"))
    caller = Caller(owner.id, "test")
    with with_receiver.db.transaction(build_tenant(caller)) as tx:
        url = f"http://127.0.0.1:8080/receiver/{key}/hook"
        webhook_service.create_webhook(
            tx, caller, with_receiver.encryptor, url=url, type="*", now=with_receiver.clock()
        )
    make_user(with_receiver, owner.id, "member@example.com", role="member")
    make_user(with_receiver, stranger.id, "stranger@example.com")
    make_user(with_receiver, owner.id, OWNER)
    for email, is_led in (("member@example.com", False), ("stranger@example.com", False), (OWNER, True)):
        browser = sign_in_browser(local, address=HERE)
        browser.sign_in(email)
        shown = browser.get("/").text
        assert (key in shown, "Event receiver" in shown) == (is_led, is_led), email
    assert key in sign_in_browser(local, address=HERE).get("/").text


def test_public_pages_show_the_signed_in_user(with_receiver: Container, local: TestClient) -> None:
    make_user(with_receiver, make_account(with_receiver, local, "o@example.com").id, OWNER, name="Robin Reader")
    browser, nobody = sign_in_browser(local), sign_in_browser(local)
    browser.sign_in(OWNER)
    for path in ("/docs", f"/receiver/{with_receiver.receiver_key}", "/forgot", "/"):
        mine, others = browser.get(path), nobody.get(path)
        assert_shows(mine, "Robin Reader", 'class="account">Dana Whitfield<', 'action="/sign-out"')
        assert mine.headers["Cache-Control"] == "no-store"
        assert mine.text.count("<header class=") == others.text.count("<header class=")
        assert_hides(others, "Robin")
        assert_shows(others, '<a href="/sign-in">Sign in</a>')
    assert browser.post("/sign-out").url.path == "/sign-in"


def test_the_docs_of_the_api_itself_know_nobody(browser: Browser, owner: Account) -> None:
    shown = browser.get("/api/v2/docs", headers={"Authorization": f"Bearer {owner.token}"})
    assert shown.status_code == 200
    assert_hides(shown, 'class="me"', 'action="/sign-out"')


THING: dict[str, Any] = {"$ref": "#/components/schemas/Thing"}
SCHEMA: dict[str, Any] = {
    "type": "object", "title": "SmallThing", "required": ["name"], "properties": {
        "name": {"type": "string", "examples": ["it's"]}, "custom1": {"type": "string"}, "custom2": {"type": "string"},
        "parts": {"type": "array", "items": THING},
        "colour": {"anyOf": [{"enum": ["red", "blue"], "type": "string"}, {"type": "null"}]},
    },
}  # fmt: skip


def test_each_operation_and_event_is_on_the_page_with_fields(app: FastAPI, http: TestClient, owner: Account) -> None:
    page, description = http.get("/docs").text, app.openapi()
    assert owner.get("/docs").text == page
    seen = ParsedPage.of(page)
    sections = doc_pages.read_sections(description, base_url="http://quillpost.test")
    operations = {(each.method, each.path): each for section in sections for each in section.operations}
    described = {(verb.upper(), path) for path, verbs in description["paths"].items() for verb in verbs}
    assert set(operations) == described
    for operation in operations.values():
        assert operation.anchor in seen.ids
        fields = [field.name for field in (*operation.parameters, *operation.body)]
        meanings = [failure.meaning for failure in operation.failures]
        for words in (operation.path, operation.summary, *fields, *meanings):
            assert words in seen.words
    events = doc_pages.read_events(description)
    assert [event.name for event in events] == [*EVENT_TYPES]
    for event in events:
        assert event.anchor in seen.ids
        assert event.fields
        for words in (event.name, *(field.name for field in event.fields)):
            assert words in seen.words
    scan = {field.name: field.type for field in events[-1].fields}
    assert scan["order_item.scans"] == "integer or null"
    assert "recipient.custom_1 … recipient.custom_10" in scan
    # This installation's own limits.
    words, limits = " ".join(seen.words.split()), app.state.container.limits
    assert f"{limits.calls_a_minute} calls a minute" in words
    assert f"at most {limits.inline_recipients:,} recipients" in words


def test_the_example_call_works_as_it_stands(app: FastAPI, owner: Account) -> None:
    content = app.openapi()["paths"]["/api/v2/send/postcard"]["post"]["requestBody"]["content"]
    example = next(iter(content["application/json"]["examples"].values()))["value"]
    assert owner.post("/send/postcard", example).status_code == 200


def read_operation(**operation: Any) -> Any:
    """As it is read from a description that has only this one."""
    description = {
        "paths": {"/api/v2/things/{thing_id}": {"put": {"responses": {}, **operation}}},
        "components": {"schemas": {"Thing": SCHEMA}},
    }
    [section] = doc_pages.read_sections(description, base_url="http://here")
    [found] = section.operations
    return found


def test_fields_forms_with_files_and_answers_of_two_forms_are_shown(app: FastAPI) -> None:
    found = read_operation(requestBody={"content": {"application/json": {"schema": THING}}})
    body = {field.name: field for field in found.body}
    assert list(body) == ["name", "custom1 … custom2", "parts", "colour"]
    assert body["name"].is_required
    assert body["parts"].type == "array of objects"
    assert (body["colour"].type, body["colour"].choices) == ("string or null", ("red", "blue"))
    assert body["parts"].fields == (), "a shape that holds itself is described once"
    # Its example call survives the shell.
    assert found.curl.startswith("curl -X PUT \\\n  http://here/api/v2/things/1001 \\\n")
    assert """"it'"'"'s\"""" in found.curl
    assert "$TOKEN" in found.curl
    sections = doc_pages.read_sections(app.openapi(), base_url="http://here")
    [call] = [one for each in sections for one in each.operations if one.path.endswith("}/import")]
    assert [field.name for field in call.body] == ["file", "mapping", "header", "file_name"]
    assert "-X" not in call.curl
    assert "-F file=@people.csv" in call.curl
    assert "-F 'mapping={" in call.curl
    other = {"title": "Other", "type": "object", "properties": {"id": {"type": "integer"}}}
    answer = {"description": "OK", "content": {"application/json": {"schema": {"anyOf": [THING, other]}}}}
    [found] = read_operation(responses={"200": answer}).responses
    assert [shape.name for shape in found.shapes] == ["Small thing", "Other"]
