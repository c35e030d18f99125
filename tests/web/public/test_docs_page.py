"""The API's description, as people read it."""

from typing import Any

from fastapi import FastAPI

from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.web.public.docs import pages as doc_pages
from support.factories import Account
from support.page_parser import ParsedPage
from support.test_client import TestClient


def test_every_operation_is_on_the_page(app: FastAPI, http: TestClient, owner: Account) -> None:
    page = http.get("/docs").text
    seen = ParsedPage.of(page)
    sections = doc_pages.read_sections(app.openapi(), base_url="http://quillpost.test")
    operations = {(each.method, each.path): each for section in sections for each in section.operations}
    described = {(verb.upper(), path) for path, verbs in app.openapi()["paths"].items() for verb in verbs}
    assert set(operations) == described
    for operation in operations.values():
        assert operation.anchor in seen.ids
        assert operation.path in seen.words
        assert operation.summary in seen.words
        for field in (*operation.parameters, *operation.body):
            assert field.name in seen.words
        for failure in operation.failures:
            assert failure.meaning in seen.words
    assert owner.get("/docs").text == page


def test_every_event_is_on_the_page_with_its_keys(app: FastAPI, http: TestClient) -> None:
    seen = ParsedPage.of(http.get("/docs").text)
    events = doc_pages.read_events(app.openapi())
    assert [event.name for event in events] == [*EVENT_TYPES]
    for event in events:
        assert event.anchor in seen.ids
        assert event.name in seen.words
        assert event.fields
        for field in event.fields:
            assert field.name in seen.words
    scan = {field.name: field.type for field in events[-1].fields}
    assert scan["order_item.scans"] == "integer or null"
    assert "recipient.custom_1 … recipient.custom_10" in scan


def test_the_page_tells_this_installations_own_limits(http: TestClient, app: FastAPI) -> None:
    words = " ".join(ParsedPage.of(http.get("/docs").text).words.split())
    limits = app.state.container.limits
    assert f"{limits.calls_a_minute} calls a minute" in words
    assert f"at most {limits.inline_recipients:,} recipients" in words


def test_the_example_call_works_as_it_stands(app: FastAPI, owner: Account) -> None:
    content = app.openapi()["paths"]["/api/v2/send/postcard"]["post"]["requestBody"]["content"]
    example = next(iter(content["application/json"]["examples"].values()))["value"]
    assert owner.post("/send/postcard", example).status_code == 200


def described(**operation: Any) -> dict[str, Any]:
    return {
        "paths": {"/api/v2/things/{thing_id}": {"put": {"responses": {}, **operation}}},
        "components": {
            "schemas": {
                "Thing": {
                    "type": "object",
                    "title": "SmallThing",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "examples": ["it's"]},
                        "custom1": {"type": "string"},
                        "custom2": {"type": "string"},
                        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                        "colour": {"anyOf": [{"enum": ["red", "blue"], "type": "string"}, {"type": "null"}]},
                    },
                }
            }
        },
    }


THING = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}


def test_fields_are_read_with_their_types_choices_and_what_they_hold() -> None:
    [section] = doc_pages.read_sections(described(requestBody=THING), base_url="http://here")
    body = {field.name: field for field in section.operations[0].body}
    assert list(body) == ["name", "custom1 … custom2", "parts", "colour"]
    assert body["name"].is_required
    assert body["parts"].type == "array of objects"
    assert body["colour"].type == "string or null"
    assert body["colour"].choices == ("red", "blue")


def test_a_shape_that_holds_itself_is_described_once() -> None:
    [section] = doc_pages.read_sections(described(requestBody=THING), base_url="http://here")
    parts = next(field for field in section.operations[0].body if field.name == "parts")
    assert parts.fields == ()


def test_an_example_call_survives_the_shell() -> None:
    [section] = doc_pages.read_sections(described(requestBody=THING), base_url="http://here")
    call = section.operations[0].curl
    assert call.startswith("curl -X PUT \\\n  http://here/api/v2/things/1001 \\\n")
    assert """"it'"'"'s\"""" in call
    assert "$TOKEN" in call


def test_a_form_with_a_file_is_a_line_to_paste(app: FastAPI) -> None:
    sections = doc_pages.read_sections(app.openapi(), base_url="http://here")
    [call] = [one for each in sections for one in each.operations if one.path.endswith("}/import")]
    assert [field.name for field in call.body] == ["file", "mapping", "header", "file_name"]
    assert "-X" not in call.curl
    assert "-F file=@people.csv" in call.curl
    assert "-F 'mapping={" in call.curl


def test_an_answer_of_two_forms_shows_both() -> None:
    thing = {"$ref": "#/components/schemas/Thing"}
    other = {"title": "Other", "type": "object", "properties": {"id": {"type": "integer"}}}
    answer = {"description": "OK", "content": {"application/json": {"schema": {"anyOf": [thing, other]}}}}
    [section] = doc_pages.read_sections(described(responses={"200": answer}), base_url="http://here")
    [found] = section.operations[0].responses
    assert [shape.name for shape in found.shapes] == ["Small thing", "Other"]
