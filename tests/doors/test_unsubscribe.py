"""Saying that it is enough: by looking at nothing, by a button, by one click."""

import sqlalchemy as sa
from newsroom import DANA, post, told

from direct import TestClient
from makers import Account, make_account, rows_of_all
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import notice_refusals
from quillpost.notifications.unsubscribe import Reader, token_of

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}


def link(parts: Parts, owner: Account, address: str = DANA) -> str:
    return f"/unsubscribe/{token_of(parts.sealer, Reader(owner.id, address))}"


def refused(parts: Parts) -> set[tuple[int, str]]:
    with parts.db.work() as tx:
        rows = tx.execute(sa.select(notice_refusals.c.account_id, notice_refusals.c.address))
        return {(row.account_id, row.address) for row in rows}


def test_looking_changes_nothing(http: TestClient, parts: Parts, owner: Account) -> None:
    before = rows_of_all(parts)
    for method in ("GET", "HEAD", "GET"):
        answer = http.request(method, link(parts, owner))
        assert answer.status_code == 200
    assert rows_of_all(parts) == before
    assert "dana@example.com" in answer.text
    assert "Dana Whitfield" in answer.text
    assert 'name="do" value="stop"' in answer.text
    assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == ("no-store", "noindex")


def test_the_button_stops_and_another_one_resumes(http: TestClient, parts: Parts, owner: Account) -> None:
    at = link(parts, owner, "Dana@Example.com")
    stopped = http.post(at, content="do=stop", headers=FORM)
    assert stopped.status_code == 200
    assert "gets no more news of scans" in stopped.text
    assert refused(parts) == {(owner.id, DANA)}
    assert http.post(at, content="do=stop", headers=FORM).status_code == 200
    assert "You are unsubscribed." in http.get(at).text
    resumed = http.post(at, content="do=resume", headers=FORM)
    assert "Welcome back." in resumed.text
    assert refused(parts) == set()


def test_one_click_of_a_mail_program_is_enough(http: TestClient, parts: Parts, owner: Account) -> None:
    for address, body, kind in (
        (DANA, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded"),
        (
            "bob@example.com",
            '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
    ):
        answer = http.post(link(parts, owner, address), content=body, headers={"Content-Type": kind})
        assert answer.status_code == 200
    assert refused(parts) == {(owner.id, DANA), (owner.id, "bob@example.com")}


def test_what_waits_is_not_sent_any_more_but_an_owners_notice_is(
    http: TestClient, parts: Parts, owner: Account
) -> None:
    post(parts, owner.id)
    post(parts, owner.id, key="other address", address="bob@example.com")
    post(parts, owner.id, key="hook:7", kind="webhook_failing")
    http.post(link(parts, owner), content="do=stop", headers=FORM)
    assert [row.status for row in told(parts)] == ["unwanted", "pending", "pending"]


def test_a_stranger_s_link_does_not_touch_mine(http: TestClient, parts: Parts, owner: Account) -> None:
    stranger = make_account(parts, http, "stranger@example.com")
    post(parts, owner.id)
    http.post(link(parts, stranger), content="do=stop", headers=FORM)
    assert refused(parts) == {(stranger.id, DANA)}
    assert [row.status for row in told(parts)] == ["pending"]
    http.post(link(parts, owner), content="do=resume", headers=FORM)
    assert refused(parts) == {(stranger.id, DANA)}


def test_a_link_that_is_not_ours_leads_nowhere(http: TestClient, parts: Parts, owner: Account) -> None:
    good = link(parts, owner)
    middle = len(good) - 20
    other = "A" if good[middle] != "A" else "B"
    forged = [good[:middle] + other + good[middle + 1 :], "/unsubscribe/x", "/unsubscribe/" + "A" * 5_000]
    forged += ["/unsubscribe/" + parts.sealer.seal(b'[1,"x@example.com"]', context="webhooks").hex()]
    before = rows_of_all(parts)
    for path in forged:
        for answer in (http.get(path), http.post(path, content="do=stop", headers=FORM)):
            assert answer.status_code == 404
    assert rows_of_all(parts) == before


def test_whoever_has_half_of_a_link_is_told_to_open_the_whole(
    http: TestClient, parts: Parts, owner: Account
) -> None:
    cut = link(parts, owner)[:-9]
    for answer in (
        http.get(cut, headers={"Accept": "text/html"}),
        http.post(cut, content="do=stop", headers=FORM),
    ):
        assert answer.status_code == 404
        assert "Open the whole link" in answer.text
        assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == ("no-store", "noindex")
    assert http.get(cut).json() == {"message": "Not Found"}
    assert refused(parts) == set()


def test_a_body_that_says_neither_changes_nothing(http: TestClient, parts: Parts, owner: Account) -> None:
    for body, status in (("", 422), ("do=dance", 422), ("&" * 1_500, 422), ("x" * 5_000, 413)):
        answer = http.post(link(parts, owner), content=body, headers=FORM)
        assert answer.status_code == status
    assert refused(parts) == set()


def test_an_address_does_not_stand_in_its_link(parts: Parts, owner: Account) -> None:
    first, second = link(parts, owner), link(parts, owner)
    assert first != second, "the seal is another one each time"
    assert "dana" not in first.lower()
