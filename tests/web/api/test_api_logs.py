"""Logs say what happened, and never a secret or a person."""

import json

from support.factories import Account, person
from support.test_client import TestClient
from support.traces import capture_logs, send_raw


def test_nothing_secret_and_nobody_is_in_the_logs(owner: Account, http: TestClient) -> None:
    jane = person(name="Jane Quimby", address="7734 Hemlock Row", email="jane.quimby@example.com", phone="5125550199")
    with capture_logs() as lines:
        order_id = owner.send(recipients=[jane], message="Dear Hortensia").json()["id"]
        hook = owner.post("/webhooks", {"url": "https://hooks.example.com/k3y", "type": "*"}).json()
        preview = owner.send(recipients=[jane], preview=True).json()["data"]["previews"][0]
        http.get(preview)
        owner.get(f"/orders/{order_id}/items")
        owner.get("/orders/list?created_after=5125550199")
        owner.send(recipients=[jane | {"postal_code": "1"}])
        send_raw(owner, b'{"recipients": [{"name": "Jane Quimby"')
        http.get("/api/v2/ping", headers={"Authorization": "Bearer qp_test_guessed"})
        owner.call("PUT", f"/orders/{order_id}/cancel", headers={"Idempotency-Key": "k3y-of-mine"})
    written = json.dumps(lines())
    secrets = (
        owner.token, "qp_test_guessed", hook["secret"], "hooks.example.com", "k3y",
        preview.rpartition("/")[2], "Quimby", "Hemlock", "jane.quimby", "5125550199", "Hortensia",
    )  # fmt: skip
    assert [secret for secret in secrets if secret in written] == []


def test_a_call_is_logged_with_its_route_status_account_and_id(owner: Account) -> None:
    with capture_logs() as lines:
        answer = owner.get("/orders/77")
    (line,) = [line for line in lines() if line["event"] == "requests.completed"]
    assert line["route"].endswith("/orders/{order_id}")
    assert (line["method"], line["status"], line["account"]) == ("GET", 404, owner.id)
    assert line["request_id"] == answer.headers["X-Request-Id"]
