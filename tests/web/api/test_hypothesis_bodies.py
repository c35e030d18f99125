"""Bodies made by machine: good ones of every operation with faults put in. `make fuzz` makes many more.

FUZZ_EXAMPLES in the environment says how many for each operation.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.described_operations import (
    WITH_BODY,
    DescribedService,
    Json,
    Operation,
    described_service,
    find_violations,
    resolved,
)

pytestmark = pytest.mark.costly

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
IS_LONG = "FUZZ_EXAMPLES" in os.environ
BOUNDED = settings(
    max_examples=EXAMPLES,
    derandomize=not IS_LONG,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink) if IS_LONG else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)

TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(categories=["Cs", "Cc", "Co", "Cn", "Zs", "Zl"]), max_size=8),
    st.sampled_from(["", " ", "0", "-1", "1e9", "null", "%FIRST_NAME%", "%", "~NAME~", "https://", "\ufeff"]),
    st.integers(1, 20_000).map(lambda length: "Ab 1" * length),
)
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, 2**64, 10**50]),
    st.floats(allow_nan=False, allow_infinity=False),
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def suiting(schema: Json, depth: int = 3) -> st.SearchStrategy[Any]:
    """Values of the schema's own kind, at their extremes too; what is deep may be anything."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return st.one_of([suiting(choice, depth) for choice in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "object" if depth and "properties" in schema:
            return spoiled(schema, depth - 1)
        case "object":
            return st.dictionaries(st.text(max_size=12), ANYTHING, max_size=5)
        case "array":
            return st.lists(suiting(schema.get("items", {}), depth - 1), max_size=4)
        case "string":
            return TEXTS
        case "integer" | "number":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return ANYTHING


@st.composite
def spoiled(draw: st.DrawFn, schema: Json, depth: int, good: Json | None = None) -> Json:
    """A good object in which some fields have other values, some are gone, and some were never asked for."""
    body = dict(good or {})
    fields = schema["properties"]
    for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=4)):
        body[name] = draw(st.one_of(suiting(fields[name], depth), suiting(fields[name], depth), ANYTHING))
    for name in draw(st.sets(st.sampled_from(sorted(body)), max_size=1)) if body else ():
        del body[name]
    return body | draw(st.dictionaries(TEXTS, ANYTHING, max_size=1))


def bodies(operation: Operation, good: Any) -> st.SearchStrategy[Any]:
    schema = operation.body_schema
    assert schema is not None
    if isinstance(good, dict) and "properties" in schema:
        return st.one_of(spoiled(schema, 2, good), spoiled(schema, 2, good), ANYTHING)
    return suiting(schema) | ANYTHING


@pytest.fixture(scope="module")
def environment(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DescribedService]:
    with described_service(postgres, template, tmp_path_factory.mktemp("bodies")) as environment:
        yield environment


@pytest.mark.timeout(120 if not IS_LONG else 3_600)
@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_no_body_crashes_us_and_a_refused_one_leaves_nothing(
    environment: DescribedService, operation: Operation
) -> None:
    good, before = environment.body(operation), environment.watch.traces()

    @BOUNDED
    @given(body=bodies(operation, good))
    def call(body: Any) -> None:
        nonlocal before
        answer = environment.call_with(operation, body)
        assert not find_violations(answer)
        if answer.is_success:
            environment.renew(operation)
        was, before = before, environment.watch.traces()
        assert answer.is_success or before == was, "a refused call left something behind"

    call()
