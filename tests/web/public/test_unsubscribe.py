"""Saying that it is enough: by looking at nothing, by a button, by one click."""

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import notice_refusals
from quillpost.notifications.messages import NotificationReader
from quillpost.notifications.service import encode_token
from support.factories import Account, make_account, snapshot_rows
from support.notifications import DANA, enqueue_notification, notification_rows
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}


def link(container: Container, owner: Account, address: str = DANA) -> str:
    return f"/unsubscribe/{encode_token(container.encryptor, NotificationReader(owner.id, address))}"


def refused(container: Container) -> set[tuple[int, str]]:
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(notice_refusals.c.account_id, notice_refusals.c.address))
        return {(row.account_id, row.address) for row in rows}


def test_looking_changes_nothing(http: TestClient, container: Container, owner: Account) -> None:
    before = snapshot_rows(container)
    for method in ("GET", "HEAD", "GET"):
        answer = http.request(method, link(container, owner))
        assert answer.status_code == 200
    assert snapshot_rows(container) == before
    assert "dana@example.com" in answer.text
    assert "Dana Whitfield" in answer.text
    assert 'name="do" value="stop"' in answer.text
    assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == ("no-store", "noindex")


def test_the_button_stops_and_another_one_resumes(http: TestClient, container: Container, owner: Account) -> None:
    at = link(container, owner, "Dana@Example.com")
    stopped = http.post(at, content="do=stop", headers=FORM)
    assert stopped.status_code == 200
    assert "gets no more news of scans" in stopped.text
    assert refused(container) == {(owner.id, DANA)}
    assert http.post(at, content="do=stop", headers=FORM).status_code == 200
    assert "You are unsubscribed." in http.get(at).text
    resumed = http.post(at, content="do=resume", headers=FORM)
    assert "Welcome back." in resumed.text
    assert refused(container) == set()


def test_one_click_of_a_mail_program_is_enough(http: TestClient, container: Container, owner: Account) -> None:
    for address, body, kind in (
        (DANA, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded"),
        (
            "bob@example.com",
            '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
    ):
        answer = http.post(link(container, owner, address), content=body, headers={"Content-Type": kind})
        assert answer.status_code == 200
    assert refused(container) == {(owner.id, DANA), (owner.id, "bob@example.com")}


def test_what_waits_is_not_sent_any_more_but_an_owners_notice_is(
    http: TestClient, container: Container, owner: Account
) -> None:
    enqueue_notification(container, owner.id)
    enqueue_notification(container, owner.id, key="other address", address="bob@example.com")
    enqueue_notification(container, owner.id, key="hook:7", kind="webhook_failing")
    http.post(link(container, owner), content="do=stop", headers=FORM)
    assert [row.status for row in notification_rows(container)] == ["unwanted", "pending", "pending"]


def test_a_stranger_s_link_does_not_touch_mine(http: TestClient, container: Container, owner: Account) -> None:
    stranger = make_account(container, http, "stranger@example.com")
    enqueue_notification(container, owner.id)
    http.post(link(container, stranger), content="do=stop", headers=FORM)
    assert refused(container) == {(stranger.id, DANA)}
    assert [row.status for row in notification_rows(container)] == ["pending"]
    http.post(link(container, owner), content="do=resume", headers=FORM)
    assert refused(container) == {(stranger.id, DANA)}


def test_a_link_that_is_not_ours_leads_nowhere(http: TestClient, container: Container, owner: Account) -> None:
    good = link(container, owner)
    middle = len(good) - 20
    other = "A" if good[middle] != "A" else "B"
    forged = [good[:middle] + other + good[middle + 1 :], "/unsubscribe/x", "/unsubscribe/" + "A" * 5_000]
    forged += ["/unsubscribe/" + container.encryptor.encrypt(b'[1,"x@example.com"]', context="webhooks").hex()]
    before = snapshot_rows(container)
    for path in forged:
        for answer in (http.get(path), http.post(path, content="do=stop", headers=FORM)):
            assert answer.status_code == 404
    assert snapshot_rows(container) == before


def test_half_of_a_link_gets_a_page_that_asks_for_the_whole(
    http: TestClient, container: Container, owner: Account
) -> None:
    cut = link(container, owner)[:-9]
    for answer in (http.get(cut, headers={"Accept": "text/html"}), http.post(cut, content="do=stop", headers=FORM)):
        assert answer.status_code == 404
        assert "Open the whole link" in answer.text
        assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == ("no-store", "noindex")
    assert http.get(cut).json() == {"message": "Not Found"}
    assert refused(container) == set()


def test_a_body_that_says_neither_changes_nothing(http: TestClient, container: Container, owner: Account) -> None:
    for body, status in (("", 422), ("do=dance", 422), ("&" * 1_500, 422), ("x" * 5_000, 413)):
        answer = http.post(link(container, owner), content=body, headers=FORM)
        assert answer.status_code == status
    assert refused(container) == set()


def test_an_address_does_not_stand_in_its_link(container: Container, owner: Account) -> None:
    first, second = link(container, owner), link(container, owner)
    assert first != second, "the seal is another one each time"
    assert "dana" not in first.lower()
