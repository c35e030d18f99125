"""The API's description, as people read it."""

from typing import Any

from fastapi import FastAPI

from quillpost.notifications.webhooks.rules import EVENT_TYPES
from quillpost.web.public.docs import pages as doc_pages
from support.factories import Account
from support.page_parser import ParsedPage
from support.test_client import TestClient

THING: dict[str, Any] = {"$ref": "#/components/schemas/Thing"}
SCHEMA: dict[str, Any] = {
    "type": "object", "title": "SmallThing", "required": ["name"], "properties": {
        "name": {"type": "string", "examples": ["it's"]}, "custom1": {"type": "string"}, "custom2": {"type": "string"},
        "parts": {"type": "array", "items": THING},
        "colour": {"anyOf": [{"enum": ["red", "blue"], "type": "string"}, {"type": "null"}]},
    },
}  # fmt: skip


def test_every_operation_and_event_is_on_the_page_with_its_fields(
    app: FastAPI, http: TestClient, owner: Account
) -> None:
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


def test_fields_are_read_with_their_types_choices_and_what_they_hold() -> None:
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


def test_a_form_with_a_file_is_a_line_to_paste(app: FastAPI) -> None:
    sections = doc_pages.read_sections(app.openapi(), base_url="http://here")
    [call] = [one for each in sections for one in each.operations if one.path.endswith("}/import")]
    assert [field.name for field in call.body] == ["file", "mapping", "header", "file_name"]
    assert "-X" not in call.curl
    assert "-F file=@people.csv" in call.curl
    assert "-F 'mapping={" in call.curl


def test_an_answer_of_two_forms_shows_both() -> None:
    other = {"title": "Other", "type": "object", "properties": {"id": {"type": "integer"}}}
    answer = {"description": "OK", "content": {"application/json": {"schema": {"anyOf": [THING, other]}}}}
    [found] = read_operation(responses={"200": answer}).responses
    assert [shape.name for shape in found.shapes] == ["Small thing", "Other"]
