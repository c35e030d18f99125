"""Every operation that the API describes, a world in which each can be called, and what any answer owes."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema_rs
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.settings import Settings
from quillpost.web import api
from quillpost.web.api.openapi import build_description
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_live, make_operator
from support.images import make_picture
from support.own_handwriting import make_style
from support.service import Databases
from support.test_client import TestClient
from support.traces import TraceWatch

Json = dict[str, Any]

DESCRIPTION = build_description(api.routes)
SCHEMAS: Json = DESCRIPTION["components"]["schemas"]
JSON = "application/json"
FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|metadata\[.*", re.DOTALL)
"""A dotted path such as recipients.0.postal_code: nothing of how a body is read inside. A filter by metadata
goes by its name in the query, in which the caller's own words stand."""


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    described: Json = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.method} {self.path.removeprefix('/api/v2')}"

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def parameters(self) -> list[str]:
        """Those in the path."""
        return re.findall(r"{(\w+)}", self.path)

    @property
    def collection(self) -> str:
        """What stands before the id in its path."""
        return self.path.partition("/{")[0]

    @property
    def query(self) -> list[str]:
        return [each["name"] for each in self.described.get("parameters", ()) if each["in"] == "query"]

    @property
    def body_schema(self) -> Json | None:
        """What the JSON body has to be, or None where there is none."""
        content = self.described.get("requestBody", {}).get("content", {})
        return resolved(content[JSON]["schema"]) if JSON in content else None

    def example(self) -> Any:
        """A good body, the caller's own to change."""
        media = self.described["requestBody"]["content"][JSON]
        found = media.get("examples")
        schema = resolved(media["schema"])
        example = next(iter(found.values()))["value"] if found else first_example(schema)
        return copy.deepcopy(example)


def resolved(schema: Json) -> Json:
    found: Json = SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


@cache
def answer_validator(label: str, status: int) -> jsonschema_rs.Validator | None:
    """Of the answer that the operation declares for this status, if it is JSON, with no other keys than it names."""
    [operation] = [each for each in OPERATIONS if each.label == label]
    content = operation.described["responses"][str(status)].get("content", {})
    return _closed_validator(json.dumps(content[JSON]["schema"])) if JSON in content else None


@cache
def _closed_validator(schema: str) -> jsonschema_rs.Validator:
    """Kept by the schema: most failures have the same."""
    return validator_for(_closed(json.loads(schema)), _closed_schemas())


@cache
def _closed_schemas() -> Any:
    return _closed(SCHEMAS)


def validator_for(schema: Json, schemas: Json = SCHEMAS) -> jsonschema_rs.Validator:
    whole = {"$ref": "#/wanted", "wanted": schema, "components": {"schemas": schemas}}
    return jsonschema_rs.validator_for(whole)


def _closed(schema: Any) -> Any:
    """The schema with no room for keys that it does not name."""
    if isinstance(schema, dict):
        closed = {name: _closed(inner) for name, inner in schema.items()}
        return closed | {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else closed
    return [_closed(inner) for inner in schema] if isinstance(schema, list) else schema


def find_undescribed(operation: Operation, answer: Response) -> list[str]:
    """In what the answer is none of those that the operation declares."""
    if str(answer.status_code) not in operation.described["responses"]:
        return [f"{answer.status_code} is not declared: {answer.text[:200]}"]
    validator = answer_validator(operation.label, answer.status_code)
    errors = validator.iter_errors(answer.json()) if validator is not None else ()
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in errors]


def first_example(schema: Json) -> Any:
    """The schema's own, or that of its first alternative which has one."""
    own = [*schema.get("examples", ())]
    of_choices = (example for choice in schema.get("anyOf", ()) for example in resolved(choice)["examples"])
    return own[0] if own else next(of_choices)


OPERATIONS = [
    Operation(method.upper(), path, described)
    for path, item in DESCRIPTION["paths"].items()
    for method, described in item.items()
]
WITH_BODY = [operation for operation in OPERATIONS if operation.body_schema is not None]


@dataclass
class DescribedService:
    """A service in which one of everything that can be made has been made after its own example."""

    container: Container
    caller: Account
    ids: dict[str, str] = field(default_factory=dict)
    """By the path of their collection."""
    house_numbers: Iterator[int] = field(default_factory=lambda: count(1_000), repr=False)

    @cached_property
    def live(self) -> Account:
        """The same caller, for what only a live token changes."""
        return make_live(self.container, self.caller)

    @cached_property
    def watch(self) -> TraceWatch:
        return TraceWatch(self.container)

    def fill(self) -> None:
        """Make what is missing; what needs something else is made in a second round."""
        for _ in range(2):
            for place, maker in MAKERS.items():
                if place not in self.ids:
                    answer = self._make(maker)
                    if answer.is_success:
                        self.ids[place] = str(answer.json()["id"])
        if STYLES not in self.ids:
            self.ids[STYLES] = str(make_style(self.container, self.caller))

    def _make(self, maker: Operation) -> Response:
        """After its example; where a picture can be sent, it is: none can be fetched from here."""
        body = self.body(maker)
        if "image" not in body:
            return self.call(maker, json=body)
        texts = {name: value for name, value in body.items() if isinstance(value, str) and name != "image"}
        return self.call(
            maker, data=texts, files={"image": ("image.png", make_picture("white", (60, 40)), "image/png")}
        )

    def renew(self, operation: Operation) -> None:
        """Another of what this operation may have used up."""
        if self.ids.pop(operation.collection, None):
            if operation.collection == BATCHES:
                self.hand_over()
            self.fill()

    def replace_what_is_gone(self, operation: Operation) -> None:
        """What this operation is about may have gone with something else, as a subscription with its list."""
        if self._is_gone(operation.collection):
            self.ids = {place: found for place, found in self.ids.items() if not self._is_gone(place)}
            self.fill()

    def _is_gone(self, place: str) -> bool:
        headers = {"Authorization": f"Bearer {self.caller.token}"}
        url = f"{place}/{self.ids.get(place)}"
        return place in self.ids and self.caller.http.get(url, headers=headers).status_code == 404

    def hand_over(self) -> None:
        """A batch, which no call makes."""
        with self.container.db.system_transaction() as tx:
            self.ids[BATCHES] = str(tx.execute(A_BATCH, {"now": self.container.clock()}).scalar_one())

    def body(self, operation: Operation) -> Any:
        """The example with ids that exist here, and with an address that no other has."""
        example = operation.example()
        if isinstance(example, dict):
            example |= {name: int(found) for name in example if (found := self._id(name, ""))}
            if "address" in example:
                example["address"] = re.sub(r"^\d+", str(next(self.house_numbers)), example["address"])
        return example

    def url(self, operation: Operation, **others: str) -> str:
        found = {name: self._id(name, operation.collection) or "1" for name in operation.parameters}
        return operation.path.format(**(found | others))

    def _id(self, name: str, collection: str) -> str | None:
        """Of this collection, or of the one whose items have such ids."""
        if collection in self.ids:
            return self.ids[collection]
        plural = f"/api/v2/{name.removesuffix('_id').replace('_', '-')}s"
        return self.ids.get(plural)

    def call(self, operation: Operation, *, url: str | None = None, **how: Any) -> Response:
        account = self.live if operation.path.startswith(BRANDS) else self.caller
        headers = {"Authorization": f"Bearer {account.token}"} | how.pop("headers", {})
        target = url or self.url(operation)
        return self.caller.http.request(operation.method, target, headers=headers, **how)


def created_by(operation: Operation) -> str | None:
    """The collection that this operation adds to, where its description says how to go on from there."""
    answers = operation.described["responses"]
    links: Json = next((answers[s].get("links", {}) for s in ("201", "200") if s in answers), {})
    followers = (each for each in OPERATIONS if each.described["operationId"] in links)
    return next((each.collection for each in followers), None)


MAKERS = {place: maker for maker in reversed(OPERATIONS) if (place := created_by(maker)) is not None}


BRANDS = "/api/v2/giftcard-brands/"
BATCHES, STYLES = "/api/v2/print/batches", "/api/v2/handwriting-styles"
A_BATCH = sa.text(
    """insert into batches (mode, piece, mail_class, status, item_count, created_at, composed_at, handed_at)
       values ('test', 'postcard-4x6', 'first', 'handed', 0, :now, :now, :now) returning id"""
)


@contextmanager
def described_service(databases: Databases, home: Path) -> Iterator[DescribedService]:
    """In a database of its own, which is watched. The caller runs the service: those calls are described too."""
    settings = Settings.model_validate({"home": home, "calls_a_minute": 1_000_000})
    with databases.one() as conninfo:
        container = bootstrap.build_container(settings, conninfo, clock=Clock().now)
        with TestClient(create_app(container), base_url="http://quillpost.test", raise_server_exceptions=False) as http:
            service = DescribedService(container, make_operator(container, http))
            service.hand_over()
            service.fill()
            yield service
        container.db.close()


def find_violations(answer: Response) -> list[str]:
    """What an answer lacks that every answer must have."""
    found = [] if answer.headers.get("X-Request-Id") else ["no X-Request-Id"]
    if answer.status_code >= 500:
        return [*found, f"{answer.status_code} {answer.text[:200]}"]
    if answer.status_code >= 400 and not is_failure(answer):
        found.append(f"{answer.status_code} of another shape: {answer.text[:200]}")
    return found


def is_failure(answer: Response) -> bool:
    """The one shape of all failures."""
    if answer.headers["Content-Type"] != JSON:
        return False
    body: Mapping[str, Any] = answer.json()
    if not (isinstance(body, dict) and isinstance(body.get("message"), str) and body["message"]):
        return False
    if answer.status_code != 422:
        return set(body) <= {"message", "failure"}
    named = body.get("errors")
    return (
        set(body) == {"message", "errors"}
        and isinstance(named, dict)
        and bool(named)
        and all(FIELD.fullmatch(name) for name in named)
        and all(texts and all(isinstance(text, str) for text in texts) for texts in named.values())
    )
