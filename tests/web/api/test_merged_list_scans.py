"""What pieces of a merged list do later counts for the list it became, however often that was merged on."""

import pytest

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import merged_lists
from quillpost.notifications.webhooks import queries as webhook_queries
from support.factories import Account, Clock, people, run_due_jobs, run_jobs_for
from support.qr_scans import codes_of, count_scans, scan
from support.test_client import TestClient
from support.webhook_outbox import event_types, fan_out

pytestmark = pytest.mark.usefixtures("clean_database")

COUNTS = ("total_sends", "total_scans", "unique_scans")


def make_list(owner: Account, how_many: int = 0) -> int:
    list_id = int(owner.post("/mailing-lists", {"description": "Neighbours"}).json()["id"])
    if how_many:
        rows = [{**each, "mailing_list_id": list_id} for each in people(how_many)]
        assert owner.post("/recipients-utils/create-multiple", rows).status_code == 201
    return list_id


def merge(owner: Account, source: int, target: int) -> None:
    merged = owner.post(f"/mailing-lists/{source}/merge", {"into": target})
    assert merged.status_code == 200, merged.text


def counts(owner: Account, list_id: int) -> dict[str, object]:
    shown = owner.get(f"/mailing-lists/{list_id}").json()
    return {name: shown[name] for name in (*COUNTS, "last_scan")}


def test_scans_and_events_of_pieces_in_the_mail_go_to_the_merged_list(
    owner: Account, container: Container, clock: Clock, http: TestClient
) -> None:
    first, second, third = make_list(owner, 2), make_list(owner), make_list(owner)
    hook = owner.post(
        "/webhooks", {"url": "https://example.com/hook", "type": "order_item.status_update", "mailing_list_id": first}
    ).json()["id"]
    sent = owner.send(recipients=[], mailing_list_ids=[first], qrcode_url="https://shop.example.com/hi")
    run_due_jobs(container)
    run_jobs_for(container, clock, seconds=12)
    a, _ = codes_of(container, sent.json()["id"])
    scan(http, a)
    count_scans(container)
    before = counts(owner, first)
    assert (before["total_scans"], before["unique_scans"]) == (1, 1)

    merge(owner, first, second)
    assert counts(owner, second) == before
    merge(owner, second, third)
    fan_out(container)
    with container.db.system_transaction() as tx:
        listening = webhook_queries.read_webhook(tx, hook)
    event_count = len(event_types(container, listening))
    run_jobs_for(container, clock, seconds=40)
    fan_out(container)
    assert len(event_types(container, listening)) > event_count, "the pieces are not told of any more"

    clock.advance(minutes=1)
    b = codes_of(container, sent.json()["id"])[1]
    for code in (a, b):
        scan(http, code)
    count_scans(container)
    after = counts(owner, third)
    assert (after["total_scans"], after["unique_scans"]) == (3, 2)
    assert after["last_scan"] != before["last_scan"]


def test_a_stranger_leaves_no_trace_in_another_accounts_lists(
    owner: Account, stranger: Account, container: Container
) -> None:
    mine, theirs = make_list(owner), make_list(stranger)
    assert stranger.post(f"/mailing-lists/{theirs}/merge", {"into": mine}).status_code == 400
    assert stranger.post(f"/mailing-lists/{mine}/merge", {"into": theirs}).status_code == 404
    with container.db.system_transaction() as tx:
        assert tx.execute(merged_lists.select()).all() == []
