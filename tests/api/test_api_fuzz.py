"""Machine-made calls after the API's own description: none crashes, each answer is a described one."""

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from makers import Build, make_account
from quillpost.web import create_app

BOUNDED = settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
# No schema can say which sub accounts exist or whether a message fits the card.
EXCLUDED = [positive_data_acceptance]


def test_no_call_surprises_us(build: Build) -> None:
    parts = build(calls_a_minute=1_000_000)
    app = create_app(parts)
    with TestClient(app) as http:
        token = make_account(parts, http, "owner@example.com").token
    headers = {"Authorization": f"Bearer {token}"}
    answered: set[str] = set()
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:

            @BOUNDED
            @given(case=operation.as_strategy(generation_mode=mode))
            def call(case: schemathesis.Case) -> None:
                case.call_and_validate(headers=headers, excluded_checks=EXCLUDED)
                answered.add(case.operation.label)

            call()
    assert len(answered) >= 12
