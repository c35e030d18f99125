"""The API's description, read for people."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

NOBODYS: Final = "$TOKEN"
"""In place of a token: a page does not know anybody's."""


def curl(method: str, url: str, body: Any = None, form: Mapping[str, str] | None = None) -> str:
    """The call with a token that its reader puts in."""
    verb = "" if method == "GET" or (method == "POST" and (body or form)) else f" -X {method}"
    lines = [f"curl{verb}", shlex.quote(url), f'-H "Authorization: Bearer {NOBODYS}"']
    if body:
        written = json.dumps(body, indent=2, ensure_ascii=False)
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(written)}"]
    for name, value in (form or {}).items():
        lines.append(f"-F {shlex.quote(f'{name}={value}')}")
    return " \\\n  ".join(lines)


Schema = Mapping[str, Any]

JSON = "application/json"
FORM = "multipart/form-data"
OWN_FILE = "people.csv"
NUMBERED = re.compile(r"(\D+)(\d+)")
IN_PATH = re.compile(r"\{\w+\}")
EXAMPLE_ID = "1001"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body or an answer, or one parameter; `fields` are those of an object within."""

    name: str
    type: str
    is_required: bool
    text: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None
    example: str | None = None
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """One form that an answer can have."""

    name: str
    text: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    status: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Operation:
    anchor: str
    method: str
    path: str
    summary: str
    text: str
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    curl: str
    answers: tuple[Answer, ...]
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Section:
    anchor: str
    name: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """What a receiver is told; `fields` are those of its `data`."""

    anchor: str
    name: str
    summary: str
    fields: tuple[Field, ...]
    example: str


def read_events(description: Schema) -> tuple[Event, ...]:
    """Every event, in the order of the description."""
    reader = _Reader(description.get("components", {}).get("schemas", {}), "")
    told = description.get("webhooks", {})
    return tuple(reader.event(name, methods["post"]) for name, methods in told.items())


def read(description: Schema, *, base_url: str) -> tuple[Section, ...]:
    """Every operation, under its tag, in the order of the description."""
    reader = _Reader(description.get("components", {}).get("schemas", {}), base_url)
    by_tag: dict[str, list[Operation]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["Other"])[0]
            by_tag.setdefault(tag, []).append(reader.operation(method, path, operation))
    return tuple(Section(_slug(tag), tag, tuple(found)) for tag, found in by_tag.items())


class _Reader:
    def __init__(self, schemas: Mapping[str, Schema], base_url: str) -> None:
        self._schemas = schemas
        self._base_url = base_url

    def operation(self, method: str, path: str, told: Schema) -> Operation:
        taken = told.get("requestBody", {}).get("content", {})
        body = taken.get(JSON, {})
        form = {} if body else taken.get(FORM, {})
        responses: Mapping[str, Schema] = told["responses"]
        return Operation(
            anchor=_slug(f"{method}-{path.removeprefix('/api/v2')}"),
            method=method.upper(),
            path=path,
            summary=told.get("summary", path),
            text=told.get("description", ""),
            parameters=tuple(self._parameter(each) for each in told.get("parameters", ())),
            body=self._fields_within((body or form).get("schema", {})),
            curl=curl(
                method.upper(),
                self._base_url + IN_PATH.sub(EXAMPLE_ID, path),
                self._example(body),
                self._form(form),
            ),
            answers=tuple(
                Answer(status, self._shapes(answer))
                for status, answer in responses.items()
                if status.startswith("2")
            ),
            failures=tuple(
                Failure(status, answer["description"])
                for status, answer in responses.items()
                if not status.startswith("2")
            ),
        )

    def event(self, name: str, told: Schema) -> Event:
        message = self._resolve(told["requestBody"]["content"][JSON]["schema"])
        return Event(
            anchor=_slug(f"event-{name}"),
            name=name,
            summary=told["summary"],
            fields=self._fields_within(message["properties"]["data"]),
            example=json.dumps(message["examples"][0], indent=2, ensure_ascii=False),
        )

    def _parameter(self, told: Schema) -> Field:
        field = self._field(told["name"], told["schema"], is_required=told.get("required", False))
        # A parameter is left out, never null: the description has no other way to say "optional".
        return replace(
            field,
            type=field.type.removesuffix(" or null"),
            text=told.get("description", field.text) or f"In the {told['in']}.",
        )

    def _shapes(self, answer: Schema) -> tuple[Shape, ...]:
        schema = answer.get("content", {}).get(JSON, {}).get("schema", {})
        return tuple(
            Shape(_words(form.get("title", "Answer")), form.get("description", ""), self._fields(form))
            for form in (self._resolve(each) for each in _alternatives(schema))
        )

    def _fields(self, schema: Schema, within: frozenset[str] = frozenset()) -> tuple[Field, ...]:
        required = schema.get("required", ())
        found = (
            self._field(name, told, is_required=name in required, within=within)
            for name, told in schema.get("properties", {}).items()
        )
        return tuple(_joined(found))

    def _field(
        self, name: str, schema: Schema, *, is_required: bool, within: frozenset[str] = frozenset()
    ) -> Field:
        examples = schema.get("examples", ())
        return Field(
            name=name,
            type=self._type(schema),
            is_required=is_required,
            text=schema.get("description", ""),
            choices=tuple(str(choice) for form in _alternatives(schema) for choice in form.get("enum", ())),
            default=None if schema.get("default") is None else json.dumps(schema["default"]),
            example=json.dumps(examples[0], ensure_ascii=False) if examples else None,
            fields=self._fields_within(schema, within),
        )

    def _fields_within(self, schema: Schema, within: frozenset[str] = frozenset()) -> tuple[Field, ...]:
        """The fields of the object, or of the objects in the array, that a value holds."""
        for form in _alternatives(schema):
            inner = form.get("items", form)
            reference = inner.get("$ref", "")
            if reference not in within:  # a shape that holds itself is described once
                fields = self._fields(self._resolve(inner), within | {reference} if reference else within)
                if fields:
                    return fields
        return ()

    def _type(self, schema: Schema) -> str:
        names = []
        for form in _alternatives(schema):
            kind = str(self._resolve(form).get("type", "any"))
            if kind == "array":
                kind = f"array of {self._type(form.get('items', {}))}s"
            names.append(kind)
        return " or ".join(dict.fromkeys(names))

    def _resolve(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return schema if reference is None else self._schemas[reference.rpartition("/")[2]]

    def _form(self, form: Schema) -> dict[str, str]:
        """The fields of a form's example as curl wants them; a file is one of the reader's own."""
        fields = self._resolve(form.get("schema", {})).get("properties", {})
        return {
            name: f"@{OWN_FILE}" if fields.get(name, {}).get("format") == "binary" else str(value)
            for name, value in form.get("example", {}).items()
        }

    def _example(self, body: Schema) -> Any:
        """What the description offers, or else the example of each field that has one."""
        for offered in body.get("examples", {}).values():
            return offered["value"]
        schema = self._resolve(body.get("schema", {}))
        for offered in schema.get("examples", ()):
            return offered
        properties: Mapping[str, Schema] = schema.get("properties", {})
        return {name: told["examples"][0] for name, told in properties.items() if told.get("examples")}


def _alternatives(schema: Schema) -> Iterable[Schema]:
    forms: Iterable[Schema] = schema.get("anyOf") or schema.get("oneOf") or (schema,)
    return forms


def _joined(fields: Iterable[Field]) -> Iterator[Field]:
    """custom1, custom2, ... custom10 are told in one line: fields alike but for their number."""

    def kind(field: Field) -> Field:
        match = NUMBERED.fullmatch(field.name)
        return replace(field, name=match[1] + "#") if match else field

    for _, alike in groupby(fields, key=kind):
        first, *others = alike
        yield replace(first, name=f"{first.name} … {others[-1].name}") if others else first


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _words(title: str) -> str:
    """SendResponse reads: Send response."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title).capitalize()
