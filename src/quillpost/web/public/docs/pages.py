"""The API reference for people, made from the OpenAPI description."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from itertools import groupby
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.web import rendering
from quillpost.web.api.errors import STATUS_DESCRIPTIONS
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import render_cached_page
from quillpost.web.security import ONE_TIME_FIELD, create_csrf_token, create_one_time_key, use_one_time_key
from quillpost.web.sessions import ConfirmedOwner, OptionalUser

TOKEN_PLACEHOLDER: Final = "$TOKEN"


def format_curl(method: str, url: str, body: Any = None, form: Mapping[str, str] | None = None) -> str:
    verb = "" if method == "GET" or (method == "POST" and (body or form)) else f" -X {method}"
    lines = [f"curl{verb}", shlex.quote(url), f'-H "Authorization: Bearer {TOKEN_PLACEHOLDER}"']
    if body:
        encoded = json.dumps(body, indent=2, ensure_ascii=False)
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(encoded)}"]
    for name, value in (form or {}).items():
        lines.append(f"-F {shlex.quote(f'{name}={value}')}")
    return " \\\n  ".join(lines)


Schema = Mapping[str, Any]

JSON = "application/json"
FORM = "multipart/form-data"
EXAMPLE_FILE = "people.csv"
NUMBERED_NAME = re.compile(r"(\D+)(\d+)")
PATH_PARAMETER = re.compile(r"\{\w+\}")
EXAMPLE_ID = "1001"


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """A field of a body or response, or a parameter; `fields` are those of an object in it."""

    name: str
    type: str
    is_required: bool
    text: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None
    example: str | None = None
    fields: tuple["FieldDoc", ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeDoc:
    name: str
    text: str
    fields: tuple[FieldDoc, ...]


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    status: str
    shapes: tuple[ShapeDoc, ...]


@dataclass(frozen=True, slots=True)
class FailureDoc:
    status: str
    meaning: str


@dataclass(frozen=True, slots=True)
class OperationDoc:
    anchor: str
    method: str
    path: str
    summary: str
    text: str
    parameters: tuple[FieldDoc, ...]
    body: tuple[FieldDoc, ...]
    curl: str
    responses: tuple[ResponseDoc, ...]
    failures: tuple[FailureDoc, ...]


@dataclass(frozen=True, slots=True)
class SectionDoc:
    anchor: str
    name: str
    operations: tuple[OperationDoc, ...]


@dataclass(frozen=True, slots=True)
class EventDoc:
    """`fields` are those of its `data`."""

    anchor: str
    name: str
    summary: str
    fields: tuple[FieldDoc, ...]
    example: str


def read_events(description: Schema) -> tuple[EventDoc, ...]:
    reader = _DescriptionReader(description.get("components", {}).get("schemas", {}), "")
    webhooks = description.get("webhooks", {})
    return tuple(reader.read_event(name, methods["post"]) for name, methods in webhooks.items())


def read_sections(description: Schema, *, base_url: str) -> tuple[SectionDoc, ...]:
    reader = _DescriptionReader(description.get("components", {}).get("schemas", {}), base_url)
    by_tag: dict[str, list[OperationDoc]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["Other"])[0]
            by_tag.setdefault(tag, []).append(reader.read_operation(method, path, operation))
    return tuple(SectionDoc(_to_slug(tag), tag, tuple(operations)) for tag, operations in by_tag.items())


class _DescriptionReader:
    def __init__(self, schemas: Mapping[str, Schema], base_url: str) -> None:
        self._schemas = schemas
        self._base_url = base_url

    def read_operation(self, method: str, path: str, description: Schema) -> OperationDoc:
        content = description.get("requestBody", {}).get("content", {})
        body = content.get(JSON, {})
        form = {} if body else content.get(FORM, {})
        responses: Mapping[str, Schema] = description["responses"]
        return OperationDoc(
            anchor=_to_slug(f"{method}-{path.removeprefix('/api/v2')}"),
            method=method.upper(),
            path=path,
            summary=description.get("summary", path),
            text=description.get("description", ""),
            parameters=tuple(self._read_parameter(parameter) for parameter in description.get("parameters", ())),
            body=self._read_nested_fields((body or form).get("schema", {})),
            curl=format_curl(
                method.upper(),
                self._base_url + PATH_PARAMETER.sub(EXAMPLE_ID, path),
                self._body_example(body),
                self._form_example(form),
            ),
            responses=tuple(
                ResponseDoc(status, self._read_shapes(response))
                for status, response in responses.items()
                if status.startswith("2")
            ),
            failures=tuple(
                FailureDoc(status, response["description"])
                for status, response in responses.items()
                if not status.startswith("2")
            ),
        )

    def read_event(self, name: str, description: Schema) -> EventDoc:
        message = self._resolve(description["requestBody"]["content"][JSON]["schema"])
        return EventDoc(
            anchor=_to_slug(f"event-{name}"),
            name=name,
            summary=description["summary"],
            fields=self._read_nested_fields(message["properties"]["data"]),
            example=json.dumps(message["examples"][0], indent=2, ensure_ascii=False),
        )

    def _read_parameter(self, description: Schema) -> FieldDoc:
        field = self._read_field(
            description["name"], description["schema"], is_required=description.get("required", False)
        )
        # A parameter is left out, never null: the description has no other way to say "optional".
        return replace(
            field,
            type=field.type.removesuffix(" or null"),
            text=description.get("description", field.text) or f"In the {description['in']}.",
        )

    def _read_shapes(self, response: Schema) -> tuple[ShapeDoc, ...]:
        schema = response.get("content", {}).get(JSON, {}).get("schema", {})
        return tuple(
            ShapeDoc(_split_title(form.get("title", "Answer")), form.get("description", ""), self._read_fields(form))
            for form in (self._resolve(alternative) for alternative in _list_alternatives(schema))
        )

    def _read_fields(self, schema: Schema, within: frozenset[str] = frozenset()) -> tuple[FieldDoc, ...]:
        required = schema.get("required", ())
        fields = (
            self._read_field(name, property_schema, is_required=name in required, within=within)
            for name, property_schema in schema.get("properties", {}).items()
        )
        return tuple(_merge_numbered_fields(fields))

    def _read_field(
        self, name: str, schema: Schema, *, is_required: bool, within: frozenset[str] = frozenset()
    ) -> FieldDoc:
        examples = schema.get("examples", ())
        return FieldDoc(
            name=name,
            type=self._type_name(schema),
            is_required=is_required,
            text=schema.get("description", ""),
            choices=tuple(str(choice) for form in _list_alternatives(schema) for choice in form.get("enum", ())),
            default=None if schema.get("default") is None else json.dumps(schema["default"]),
            example=json.dumps(examples[0], ensure_ascii=False) if examples else None,
            fields=self._read_nested_fields(schema, within),
        )

    def _read_nested_fields(self, schema: Schema, within: frozenset[str] = frozenset()) -> tuple[FieldDoc, ...]:
        """Of the object, or of the objects in the array."""
        for form in _list_alternatives(schema):
            inner = form.get("items", form)
            reference = inner.get("$ref", "")
            if reference not in within:  # a shape that holds itself is described once
                fields = self._read_fields(self._resolve(inner), within | {reference} if reference else within)
                if fields:
                    return fields
        return ()

    def _type_name(self, schema: Schema) -> str:
        names = []
        for form in _list_alternatives(schema):
            kind = str(self._resolve(form).get("type", "any"))
            if kind == "array":
                kind = f"array of {self._type_name(form.get('items', {}))}s"
            names.append(kind)
        return " or ".join(dict.fromkeys(names))

    def _resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self._schemas[reference.rpartition("/")[2]]

    def _form_example(self, form: Schema) -> dict[str, str]:
        """As curl wants it; a file is the reader's own."""
        fields = self._resolve(form.get("schema", {})).get("properties", {})
        return {
            name: f"@{EXAMPLE_FILE}" if fields.get(name, {}).get("format") == "binary" else str(value)
            for name, value in form.get("example", {}).items()
        }

    def _body_example(self, body: Schema) -> Any:
        """The description's example, or else the example of each field that has one."""
        for example in body.get("examples", {}).values():
            return example["value"]
        schema = self._resolve(body.get("schema", {}))
        for example in schema.get("examples", ()):
            return example
        properties: Mapping[str, Schema] = schema.get("properties", {})
        return {
            name: property_schema["examples"][0]
            for name, property_schema in properties.items()
            if property_schema.get("examples")
        }


def _list_alternatives(schema: Schema) -> Iterable[Schema]:
    forms: Iterable[Schema] = schema.get("anyOf") or schema.get("oneOf") or (schema,)
    return forms


def _merge_numbered_fields(fields: Iterable[FieldDoc]) -> Iterator[FieldDoc]:
    """custom1 ... custom10, alike but for their number, become one line."""

    def without_number(field: FieldDoc) -> FieldDoc:
        match = NUMBERED_NAME.fullmatch(field.name)
        return replace(field, name=match[1] + "#") if match else field

    for _, group in groupby(fields, key=without_number):
        first, *others = group
        yield replace(first, name=f"{first.name} … {others[-1].name}") if others else first


def _to_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _split_title(title: str) -> str:
    """SendResponse becomes: Send response."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title).capitalize()


DOCS_PATH = "/docs"
TOKEN_NAME = "docs"
TOKEN_LIFETIME = timedelta(hours=24)
TOKEN_NOT_REPEATED = "The token is not shown again: open the page anew, and have another filled in."
EMPTY_TOKEN_OFFER: Final = rendering.render_template("docs/token.html", can_fill_in_token=False, token=None)
"""Replaced in an owner's page by the offer to fill in a token."""


def add_docs_page(app: FastAPI, container: Container) -> None:
    """The page is rendered once. For a signed-in user only its head differs; an owner may have a test token of their
    own filled in, valid for a day and shown only in that response."""

    @cache
    def render_docs() -> str:
        description = app.openapi()
        return rendering.render_template(
            "docs/page.html",
            title=description["info"]["title"],
            version=description["info"]["version"],
            introduction=description["info"]["description"].partition("\n\n")[0],
            sections=read_sections(description, base_url=container.base_url),
            events=read_events(description),
            failures={status: meaning for status, (meaning, _) in STATUS_DESCRIPTIONS.items()},
            limits=container.limits,
            base_url=container.base_url,
            release=app.state.release,
            user=None,
            can_fill_in_token=False,
            token=None,
        )

    def show_docs(request: Request, user: OptionalUser) -> Response:
        if user is None:
            return rendering.html_response(render_docs())
        text = _with_token_offer(request, user, render_docs()) if user.is_owner else render_docs()
        return render_cached_page(request, text, user)

    def fill_in_token(request: Request, user: ConfirmedOwner, form: PostedForm) -> Response:
        now = container.clock()
        with container.db.transaction(user.tenant) as tx:
            use_one_time_key(tx, user, form.text(ONE_TIME_FIELD), hint=TOKEN_NOT_REPEATED, result_path=DOCS_PATH)
            token = token_service.create_token(
                tx,
                user.here.account_id,
                name=TOKEN_NAME,
                mode="test",
                scopes=None,
                sub_account_id=None,
                expires_at=now + TOKEN_LIFETIME,
                actor=user.actor,
                now=now,
            )
        text = render_docs().replace(f"Bearer {TOKEN_PLACEHOLDER}", f"Bearer {token}")
        return render_cached_page(request, _with_token_offer(request, user, text, token=token), user)

    def show_public_docs() -> Response:
        return rendering.html_response(render_docs())

    app.add_api_route(DOCS_PATH, show_docs, include_in_schema=False)
    app.add_api_route(DOCS_PATH, fill_in_token, methods=["POST"], include_in_schema=False)
    app.add_api_route("/api/v2/docs", show_public_docs, include_in_schema=False)


def _with_token_offer(request: Request, user: SignedInUser, text: str, *, token: str | None = None) -> str:
    csrf = create_csrf_token(request, user)
    offer = rendering.render_template(
        "docs/token.html", can_fill_in_token=True, token=token, csrf=csrf, one_time_key=create_one_time_key()
    )
    return text.replace(EMPTY_TOKEN_OFFER, offer, 1)
