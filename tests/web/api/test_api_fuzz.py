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
from schemathesis.engine import Status, events, from_schema

from support.described_operations import JSON, MAKERS, OPERATIONS, DescribedService, Operation, described_service
from support.service import Databases

pytestmark = [pytest.mark.costly, pytest.mark.timeout(7_200 if "FUZZ_EXAMPLES" in os.environ else 600)]

IS_LONG = "FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))
EVERY = {operation.label for operation in OPERATIONS}
# A send has sixty fields, and each is tried at its every edge: once is enough where time is short.
SENT_ALIKE = re.compile(r"/(estimate|stored_send)/[a-z-]+$|/send/(?!postcard)")
DIFFERENT = {label for label in EVERY if IS_LONG or not SENT_ALIKE.search(label)}

ACCEPTED = ["2xx", "401", "403", "404", "409", "429"]
PIECES = ("postcard", "windowed_letter", "windowless_letter", "notecard", "giftcard", "magnacard")
# What only the service can tell of a call that its schema allows: whether ids exist, a URL is a public one, an
# address is whole, a picture prints, a message fits, an order still waits. All other calls must be accepted.
LEEWAY: dict[tuple[str, ...], str] = {
    ("400",): """
        list_orders list_order_items list_mailing_lists list_recipients list_recipients_of list_image_templates
        list_message_templates list_webhooks list_automations invalidate_giftcard_put invalidate_giftcard_patch
        cancel_order_put cancel_order_post cancel_order_delete delete_mailing_list delete_image_template
        delete_message_template delete_sub_account read_rejected_rows read_proof delete_handwriting_style
        delete_signature
    """,
    ("422",): """
        create_sub_account change_sub_account mark_print_batch reprint_pieces erase_person
        put_giftcard_brand
    """,
    ("400", "422"): """
        rush_orders search_orders read_stats create_embed merge_mailing_list create_mailing_list change_mailing_list
        create_webhook change_webhook replay_webhook retry_delivery try_webhook create_recipient change_recipient
        delete_by_address create_image_template update_image_template create_message_template
        update_message_template create_automation change_automation preview_automation change_order replay_order
        count_radius_search buy_radius_search create_handwriting_style accept_handwriting_style create_signature
    """
    + " ".join(f"{verb}_{piece}" for verb in ("send", "estimate", "store") for piece in PIECES),
}
ANY_TEXT = ["import_into_mailing_list", "preview_import"]
"""Operations whose body may be any text at all: whatever is put in place of one is one too."""


def plan(token: str, *phases: str, mode: str = "all", seed: int = 4711) -> schemathesis.Config:
    """Every check, in these phases alone."""

    def accept(operations: list[str], *statuses: str, **others: Any) -> dict[str, Any]:
        checks = {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, *statuses]}} | others
        return {"include-operation-id": operations, "checks": checks}

    generation = {"mode": mode, "max-examples": EXAMPLES, "deterministic": not IS_LONG, "no-shrink": not IS_LONG}
    how: dict[str, Any] = {
        "headers": {"Authorization": f"Bearer {token}"},
        "generation": generation | {"database": "none"},
        "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
        "operations": [
            *(accept(operations.split(), *statuses) for statuses, operations in LEEWAY.items()),
            accept(ANY_TEXT, "400", "415", "422", negative_data_rejection={"enabled": False}),
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


def run(service: DescribedService, schema: Any) -> Seen:
    seen, before = Seen(), service.watch.traces()

    def after_call(_: Any, case: Any, response: Any) -> None:
        nonlocal before
        was, before = before, service.watch.traces()
        if response.status_code >= 400 and was != before:
            seen.wrong.append(f"{case.operation.label}: refused with {response.text}, it left something behind")

    schema.hook(after_call)
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError):
            seen.wrong.append(f"{event.label}: {event.info.format()}")
        if isinstance(event, events.FatalError):
            raise event.exception
        if isinstance(event, events.ScenarioFinished):
            _note(event.recorder, seen)
    assert not seen.wrong, "\n\n".join(seen.wrong[:20])
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


def described(service: DescribedService, *phases: str, of: set[str], **options: Any) -> Any:
    """These operations alone: where some have settings of their own, all are included from the start."""
    config = plan(service.caller.token, *phases, **options)
    schema = schemathesis.openapi.from_asgi("/openapi.json", service.caller.http.app, config=config)
    return schema.exclude(lambda found: found.operation.label not in of)


def test_only_what_is_there_is_given_leeway() -> None:
    named = [name for operations in LEEWAY.values() for name in operations.split()]
    assert len(set(named)) == len(named)
    assert set(named) < {operation.described["operationId"] for operation in OPERATIONS}


def test_no_call_surprises_us(service: DescribedService) -> None:
    called = run(service, described(service, "examples", of=EVERY)).called
    assert called | run(service, described(service, "fuzzing", of=DIFFERENT)).called == EVERY


@pytest.mark.long  # `test_odd_values.py` tries odd values in every field, in every run
def test_no_edge_of_a_field_surprises_us(service: DescribedService) -> None:
    run(service, described(service, "coverage", of=DIFFERENT))


# Where something is made, read, changed and removed; and the field by which it differs from its like.
COLLECTIONS = {
    "/api/v2/mailing-lists": "description", "/api/v2/recipients": "address", "/api/v2/message-templates": "name",
    "/api/v2/sub-accounts": "title", "/api/v2/webhooks": "description",
}  # fmt: skip


def links_of(maker: Operation) -> dict[str, Operation]:
    """The calls to which the description leads from there, by their method: those about the thing itself."""
    linked = maker.described["responses"]["201"]["links"]
    named = (operation for operation in OPERATIONS if operation.described["operationId"] in linked)
    return {found.method: found for found in named if found.path.endswith("}")}


def test_along_links_what_is_made_is_read_and_removed(service: DescribedService, subtests: pytest.Subtests) -> None:
    schema = described(service, of=EVERY)

    def call(operation: Operation, **how: Any) -> Any:
        body = {} if operation.body_schema is None else {"body": service.body(operation), "media_type": JSON}
        case = schema[operation.path][operation.method].Case(**body, **how)
        return case.call_and_validate(headers={"Authorization": f"Bearer {service.caller.token}"})

    for collection in COLLECTIONS:
        with subtests.test(collection):
            steps, made = links_of(MAKERS[collection]), call(MAKERS[collection]).json()
            where = {"path_parameters": {steps["GET"].parameters[0]: made["id"]}}
            assert call(steps["GET"], **where).json()["id"] == made["id"]
            changed = call(steps["PUT"], **where).json()
            assert changed["id"] == made["id"]
            assert call(steps["GET"], **where).json() == changed != made
            assert call(steps["DELETE"], **where).json() == {"message": "success"}
            assert [call(steps[method], **where).status_code for method in ("GET", "PUT", "DELETE")] == [404] * 3


@pytest.mark.long  # the test before goes along each link, in every run
def test_no_chain_of_calls_surprises_us(service: DescribedService, subtests: pytest.Subtests) -> None:
    """In any order, often after it is gone. What the calls say is good: it is their order that is tried."""
    for collection, name in COLLECTIONS.items():
        steps = [MAKERS[collection], *links_of(MAKERS[collection]).values()]
        good = {step.label: service.body(step) for step in steps if step.body_schema is not None}
        with subtests.test(collection):
            run_chains(service, good, name, {step.label for step in steps})


def run_chains(service: DescribedService, good: dict[str, Any], name: str, labels: set[str]) -> None:
    """Which chains are drawn depends on the answers too: go on until one has made, changed and removed a thing."""
    numbers, fates = count(1), list[list[str]]()

    def map_body(context: Any, body: Any) -> Any:
        return good[context.operation.label] | {name: f"{next(numbers)} Elm St"}

    for seed in range(20):
        schema = described(service, "stateful", of=labels, mode="positive", seed=seed)
        schema.hook(map_body)
        fates += run(service, schema).fates.values()
        if any(fate[0] == "POST" and fate[-1] == "DELETE" and "PUT" in fate for fate in fates):
            return
    pytest.fail(f"nothing was made, changed and removed: {fates}")
