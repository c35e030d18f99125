"""Machine-made calls after the API's own description: none crashes, each answer is a described one, and what is
refused leaves nothing behind.

`make fuzz` makes thousands; FUZZ_EXAMPLES in the environment says how many for each operation.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.engine import Status, events, from_schema

from support.databases import Databases
from support.described_operations import (
    JSON,
    MAKERS,
    OPERATIONS,
    WITH_BODY,
    DescribedService,
    Json,
    Operation,
    described_service,
    find_violations,
    resolved,
)
from support.factories import make_account

pytestmark = [pytest.mark.costly, pytest.mark.timeout(7_200 if "FUZZ_EXAMPLES" in os.environ else 600)]

IS_LONG = "FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
TAGS = sorted({tag for operation in OPERATIONS for tag in operation.described["tags"]})

# A send has sixty fields, and each is tried at its every edge: once is enough where time is short.
SENT_ALIKE = re.compile(r"/(estimate|stored_send)/[a-z-]+$|/send/(?!postcard)")

ACCEPTED = ["2xx", "401", "403", "404", "409", "429"]
VERBS, PIECES = (
    ("send", "estimate", "store"),
    re.findall(
        r"\w+",
        """
    postcard windowed_letter windowless_letter notecard giftcard magnacard
""",
    ),
)
# What only the service can tell of a call that its schema allows. All other calls must be accepted.
LEEWAY: list[tuple[str, list[str], str]] = [
    (
        "whether the sub account, list or order that a query names exists",
        ["400"],
        "list_orders list_order_items list_mailing_lists list_recipients list_image_templates list_automations"
        " list_message_templates list_webhooks list_recipients_of",
    ),
    ("the same, and whether anything is looked for at all", ["400", "422"], "search_orders"),
    ("the same, and whether the end is before the start", ["400", "422"], "read_stats"),
    ("whether the ids exist, and the account lists the site", ["400", "422"], "create_embed"),
    ("whether the list to merge into exists and is another", ["400", "422"], "merge_mailing_list"),
    (
        "whether the ids of a body exist, and a URL is a public one",
        ["400", "422"],
        "create_mailing_list change_mailing_list create_webhook change_webhook",
    ),
    (
        "whether a color is one, a URL is a public one, and an address is whole",
        ["422"],
        "create_sub_account change_sub_account",
    ),
    (
        "whether the list exists, and an address can be mailed to and is not on it yet",
        ["400", "422"],
        "create_recipient change_recipient delete_by_address",
    ),
    (
        "whether ids exist, a picture can be fetched and printed, and the settings go with the piece",
        ["400", "422"],
        "create_image_template update_image_template create_message_template update_message_template",
    ),
    (
        "whether ids exist, the piece has all that it needs, and the message fits on it",
        ["400", "422"],
        " ".join(f"{verb}_{piece}" for verb in VERBS for piece in PIECES),
    ),
    (
        "whether the piece brings a card, and whether that can be taken back",
        ["400"],
        "invalidate_giftcard_put invalidate_giftcard_patch",
    ),
    (
        "whether the subscription rests, and a time range is of the last 30 days and ends after its start",
        ["400", "422"],
        "replay_webhook retry_delivery try_webhook",
    ),
    (
        "whether ids exist, the trigger has what it needs, and the send within is one that would go",
        ["400", "422"],
        "create_automation change_automation preview_automation",
    ),
    ("whether the order still waits", ["400"], "cancel_order_put cancel_order_post cancel_order_delete"),
    ("whether the order waits or was mailed, and the new message fits", ["400", "422"], "change_order replay_order"),
    (
        "whether an order that waits needs it still",
        ["400"],
        "delete_mailing_list delete_image_template delete_message_template delete_sub_account",
    ),
    ("whether a batch holds these pieces, and a time lies in the past", ["422"], "mark_print_batch reprint_pieces"),
    ("whether the orders exist", ["422"], "rush_orders"),
    ("whether the import has ended", ["400"], "read_rejected_rows"),
    (
        "whether an address is known, and anybody lives around it",
        ["400", "422"],
        "count_radius_search buy_radius_search",
    ),
    ("whether anybody is named", ["422"], "erase_person"),
    (
        "whether it is a code, a color is one, amounts ascend, and a new brand has all that it needs",
        ["422"],
        "put_giftcard_brand",
    ),
]
ANY_TEXT = ["import_into_mailing_list", "preview_import"]
"""Operations whose body may be any text at all: whatever is put in place of one is one too."""


def plan(token: str, *phases: str, mode: str = "all", seed: int = 4711) -> schemathesis.Config:
    """Every check, in these phases alone."""

    def accept(operations: list[str], statuses: list[str], **others: Any) -> dict[str, Any]:
        checks = {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, *statuses]}} | others
        return {"include-operation-id": operations, "checks": checks}

    how: dict[str, Any] = {
        "headers": {"Authorization": f"Bearer {token}"},
        "generation": {
            "mode": mode,
            "max-examples": EXAMPLES,
            "deterministic": not IS_LONG,
            "no-shrink": not IS_LONG,
            "database": "none",
        },
        "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
        "operations": [
            *(accept(operations.split(), statuses) for _, statuses, operations in LEEWAY),
            accept(ANY_TEXT, ["400", "415", "422"], negative_data_rejection={"enabled": False}),
        ],
        "phases": {name: {"enabled": name in phases} for name in ("examples", "coverage", "fuzzing")}
        | {"stateful": {"enabled": "stateful" in phases, "max-steps": 8, "generation": {"max-examples": EXAMPLES}}},
    }
    return schemathesis.Config.from_dict(how if IS_LONG else how | {"seed": seed})


@dataclass(slots=True)
class Seen:
    """Which operations were called, and what was wrong with the answers."""

    called: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    fates: dict[str, list[str]] = field(default_factory=dict)
    """By the URL of a thing: the methods that have succeeded with it, POST first where it was made."""


def run(schema: Any) -> Seen:
    seen = Seen()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            seen.wrong.append(f"{event.label}: {event.info.format()}")
        if isinstance(event, events.FatalError):
            raise event.exception
        if isinstance(event, events.ScenarioFinished):
            _note(event.recorder, seen)
    assert not seen.wrong, "\n\n".join(seen.wrong[:5])
    return seen


def _note(recorder: Any, seen: Seen) -> None:
    seen.called |= {node.value.operation.label for node in recorder.cases.values()}
    seen.wrong += [
        f"{recorder.label}: {check.failure_info.failure}\n{check.failure_info.code_sample}"
        for checks in recorder.checks.values()
        for check in checks
        if check.status is Status.FAILURE and check.failure_info is not None
    ]
    for found in recorder.interactions.values():
        if found.response is not None and found.response.status_code in (200, 201):
            path = found.request.uri.partition("?")[0]
            made = found.response.json() if found.response.status_code == 201 else None
            if isinstance(made, dict):
                path += f"/{made['id']}"
            seen.fates.setdefault(path, []).append(found.request.method)


@pytest.fixture(scope="module")
def service(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DescribedService]:
    with described_service(databases, tmp_path_factory.mktemp("fuzz")) as service:
        yield service


@pytest.fixture
def own_service(service: DescribedService, request: pytest.FixtureRequest) -> DescribedService:
    """With an account for each test, so that none finds what another left."""
    name = re.sub(r"\W+", "-", request.node.name)
    owner = make_account(service.container, service.caller.http, f"{name}@example.com")
    found = DescribedService(service.container, owner)
    found.fill()
    return found


def described(service: DescribedService, *phases: str, of: set[str], **options: Any) -> Any:
    """These operations alone: where some have settings of their own, all are included from the start."""
    config = plan(service.caller.token, *phases, **options)
    schema = schemathesis.openapi.from_asgi("/openapi.json", service.caller.http.app, config=config)
    return schema.exclude(lambda found: found.operation.label not in of)


def test_only_what_is_there_is_given_leeway() -> None:
    named = [name for _, _, operations in LEEWAY for name in operations.split()]
    assert len(set(named)) == len(named)
    assert set(named) < {operation.described["operationId"] for operation in OPERATIONS}


def tagged(tag: str) -> set[str]:
    return {operation.label for operation in OPERATIONS if tag in operation.described["tags"]}


def without_alike(labels: set[str]) -> set[str]:
    return {label for label in labels if IS_LONG or not SENT_ALIKE.search(label)}


@pytest.mark.parametrize("tag", TAGS)
def test_no_call_surprises_us(own_service: DescribedService, tag: str) -> None:
    called = run(described(own_service, "examples", "fuzzing", of=without_alike(tagged(tag)))).called
    if alike := tagged(tag) - without_alike(tagged(tag)):
        called |= run(described(own_service, "examples", of=alike)).called
    assert called == tagged(tag)


@pytest.mark.long  # `test_odd_values.py` tries odd values in every field, in every run
@pytest.mark.parametrize("tag", TAGS)
def test_no_edge_of_a_field_surprises_us(own_service: DescribedService, tag: str) -> None:
    run(described(own_service, "coverage", of=without_alike(tagged(tag))))


# Where something is made, read, changed and removed; and the field by which it differs from its like.
COLLECTIONS = {
    "/api/v2/mailing-lists": "description",
    "/api/v2/recipients": "address",
    "/api/v2/message-templates": "name",
    "/api/v2/sub-accounts": "title",
    "/api/v2/webhooks": "description",
}


def links_of(maker: Operation) -> dict[str, Operation]:
    """The calls to which the description leads from there, by their method: those about the thing itself."""
    linked = maker.described["responses"]["201"]["links"]
    named = (operation for operation in OPERATIONS if operation.described["operationId"] in linked)
    return {found.method: found for found in named if found.path.endswith("}")}


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_what_is_made_can_be_read_changed_and_removed_along_the_links(
    own_service: DescribedService, collection: str
) -> None:
    maker = MAKERS[collection]
    steps = links_of(maker)
    schema = described(own_service, of={maker.label, *(step.label for step in steps.values())})

    def call(operation: Operation, **how: Any) -> Any:
        body = {} if operation.body_schema is None else {"body": own_service.body(operation), "media_type": JSON}
        case = schema[operation.path][operation.method].Case(**body, **how)
        return case.call_and_validate(headers={"Authorization": f"Bearer {own_service.caller.token}"})

    def follow(method: str) -> Any:
        return call(steps[method], path_parameters={steps[method].parameters[0]: made["id"]})

    made = call(maker).json()
    assert follow("GET").json()["id"] == made["id"]
    changed = follow("PUT").json()
    assert changed["id"] == made["id"]
    assert follow("GET").json() == changed != made
    assert follow("DELETE").json() == {"message": "success"}
    assert [follow(method).status_code for method in ("GET", "PUT", "DELETE")] == [404] * 3


@pytest.mark.long  # the test before goes along each link, in every run
@pytest.mark.parametrize("collection", COLLECTIONS)
def test_no_chain_of_calls_surprises_us(own_service: DescribedService, collection: str) -> None:
    """In any order, often after it is gone. What the calls say is good: it is their order that is tried."""
    steps = [MAKERS[collection], *links_of(MAKERS[collection]).values()]
    good = {step.label: own_service.body(step) for step in steps if step.body_schema is not None}
    numbers = count(1)

    def map_body(context: Any, body: Any) -> Any:
        return good[context.operation.label] | {COLLECTIONS[collection]: f"{next(numbers)} Elm St"}

    fates: list[list[str]] = []
    # Which chains are drawn depends on the answers too: go on until one has made, changed and removed a thing.
    for seed in range(20):
        schema = described(own_service, "stateful", of={step.label for step in steps}, mode="positive", seed=seed)
        schema.hook(map_body)
        fates += run(schema).fates.values()
        if any(fate[0] == "POST" and fate[-1] == "DELETE" and "PUT" in fate for fate in fates):
            return
    pytest.fail(f"nothing was made, changed and removed: {fates}")


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


@pytest.mark.long
@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_no_body_crashes_us_and_a_refused_one_leaves_nothing(service: DescribedService, operation: Operation) -> None:
    good, before, schema = service.body(operation), service.watch.traces(), operation.body_schema or {}
    bodies = suiting(schema) | ANYTHING
    if isinstance(good, dict) and "properties" in schema:
        bodies = st.one_of(spoiled(schema, 2, good), spoiled(schema, 2, good), ANYTHING)

    @settings(
        max_examples=EXAMPLES if IS_LONG else 12,
        derandomize=not IS_LONG,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if IS_LONG else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(body=bodies)
    def call(body: Any) -> None:
        nonlocal before
        answer = service.call_with(operation, body)
        assert not find_violations(answer)
        if answer.is_success:
            service.renew(operation)
        was, before = before, service.watch.traces()
        assert answer.is_success or before == was, "a refused call left something behind"

    call()
