"""Whoever holds a piece of mail asks for no more of it, and whoever reads of scans for no more news of them."""

from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import do_not_mail_inbox, items, mailing_lists, recipients
from quillpost.core.database.tables.notifications import notice_refusals
from quillpost.notifications.messages import NotificationReader
from quillpost.notifications.service import encode_token
from quillpost.recipients.rules import SUPPRESSED
from quillpost.web.public.opt_outs import pages as opt_out_pages
from support import factories
from support.factories import Account, Clock, make_sub_account, person, postcard, run_jobs_for, snapshot_rows
from support.notifications import DANA, enqueue_notification, notification_rows
from support.rows import execute, scalar, scalars
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

HTML = {"Accept": "text/html"}
FORM = HTML | {"Content-Type": "application/x-www-form-urlencoded"}
PRIVATE = ("no-store", "noindex")
NOBODYS = "ZZZZZZZZ"


def code_of(container: Container, order_id: int) -> str:
    return str(scalar(container, sa.select(items.c.code).where(items.c.order_id == order_id)))


def sent(container: Container, account: Account, **fields: Any) -> str:
    """The code of a piece to Jane, or whom these fields describe."""
    answer = account.send(recipients=[person(**fields)])
    assert answer.status_code == 200, answer.text
    return code_of(container, answer.json()["id"])


def kept(container: Container) -> list[tuple[int, str, str | None, str | None, str | None]]:
    """Who is on the lists of requests: of which account and mode, at which address, by name and e-mail."""
    lists = (mailing_lists.c.account_id, mailing_lists.c.kept_for)
    query = (
        sa.select(*lists, recipients.c.address, recipients.c.name, recipients.c.email)
        .join(recipients, recipients.c.mailing_list_id == mailing_lists.c.id)
        .where(mailing_lists.c.is_suppression_list)
        .order_by(recipients.c.id)
    )
    return [tuple(row) for row in execute(container, query)]


def addresses_kept(container: Container) -> list[str | None]:
    return [address for _, _, address, _, _ in kept(container)]


def is_suppressed(container: Container, account: Account) -> tuple[bool, bool]:
    """Whether a send to Jane's address would find it so in testing, and in live mode."""
    query = sa.text("select suppressed_places(null, :mode, :keys, array[null::text], array[null::text])")

    def in_mode(mode: str) -> bool:
        with container.db.transaction(build_tenant(Caller(account.id, mode))) as tx:
            return tx.execute(query, {"mode": mode, "keys": ["12MAIN ST||78701|US"]}).all() != []

    return in_mode("test"), in_mode("live")


def stop(http: TestClient, container: Container, clock: Clock, *codes: str) -> list[Response]:
    answers = [http.post(f"/stop/{code}", headers=HTML) for code in codes]
    clock.advance(seconds=1)
    factories.run_due_jobs(container)
    return answers


def test_looking_or_typing_a_code_changes_nothing(http: TestClient, container: Container, owner: Account) -> None:
    code = sent(container, owner)
    before = snapshot_rows(container)
    for path in ("/stop", f"/stop?code={code}", f"/stop/{code}", f"/stop/{NOBODYS}", "/stop/PREVIEW0"):
        for method in ("GET", "HEAD"):
            answer = http.request(method, path, headers=HTML, follow_redirects=False)
            assert answer.status_code == (303 if "?" in path else 200)
            assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == PRIVATE
            assert answer.headers["Referrer-Policy"] == "no-referrer"
    for method in ("GET", "HEAD", "GET"):
        page = http.request(method, link(container, owner))
        assert (page.headers["Cache-Control"], page.headers["X-Robots-Tag"]) == PRIVATE
        assert page.status_code == 200
    for word in (DANA, "Dana Whitfield", 'name="do" value="stop"'):
        assert word in page.text
    assert snapshot_rows(container) == before
    assert '<form method="get" action="/stop"' in http.get("/stop", headers=HTML).text
    typed = http.get("/stop?code=%20ZZZZ-ZZZZ%20", headers=HTML, follow_redirects=False)
    assert typed.headers["Location"] == f"/stop/{NOBODYS}"
    unknown = http.get(f"/stop/{NOBODYS}", headers=HTML).text
    assert f'<form method="post" action="/stop/{NOBODYS}">' in unknown
    assert (unknown.count("<button"), "<script" in unknown) == (1, False)


def test_the_address_of_the_piece_is_suppressed_without_a_name(
    http: TestClient, container: Container, clock: Clock, owner: Account, stranger: Account
) -> None:
    code = sent(container, owner, email="jane@example.com")
    waiting = owner.send(recipients=[person(name="Jim Doe")]).json()["id"]
    http.post(f"/stop/{code}", headers=HTML)
    run_jobs_for(container, clock, seconds=15)
    assert kept(container) == [(owner.id, "test", "12 Main St", None, None)]
    [item] = owner.get(f"/orders/{waiting}/items").json()["data"]
    assert (item["status"], item["failure"]) == ("Failed", SUPPRESSED), "what waits to be sent there is not sent"
    # What is e-mailed elsewhere is no concern of a request about paper.
    elsewhere = {"address": "9 Oak Ave", "email": "jane@example.com"}
    for account, fields, suppressed in ((owner, {}, 1), (stranger, {}, 0), (owner, elsewhere, 0)):
        data = account.post("/estimate/postcard", postcard(recipients=[person(**fields)])).json()["data"]
        assert data["suppressed"] == suppressed


def test_all_codes_are_answered_alike(http: TestClient, container: Container, clock: Clock, owner: Account) -> None:
    code = sent(container, owner)
    for method in ("GET", "POST"):
        for headers in (HTML, {"Accept": "application/json"}):
            known, unknown = (http.request(method, f"/stop/{each}", headers=headers) for each in (code, NOBODYS))
            assert known.text.replace(code, "") == unknown.text.replace(NOBODYS, "")
            seen = [{k: v for k, v in each.headers.items() if k != "x-request-id"} for each in (known, unknown)]
            assert (known.status_code, seen[0]) == (unknown.status_code, seen[1])
            for secret in ("Jane", "Main", "78701", "owner"):
                assert secret not in known.text
    codes = scalars(container, sa.select(do_not_mail_inbox.c.code))
    assert sorted(codes) == sorted([code, NOBODYS] * 2)
    run_jobs_for(container, clock, seconds=1)
    assert len(kept(container)) == 1
    assert execute(container, sa.select(do_not_mail_inbox)) == []


def test_an_account_has_a_list_per_mode(http: TestClient, container: Container, clock: Clock, owner: Account) -> None:
    """A piece that was never mailed bars nobody from mail that is; who asks again is on it once."""
    branch = make_sub_account(container, owner)
    tried, mailed = (code_of(container, owner.send(sub_account_id=branch).json()["id"]) for _ in range(2))
    execute(container, sa.update(items).where(items.c.code == mailed).values(mode="live"))
    assert is_suppressed(container, owner) == (False, False)
    http.post(f"/stop/{tried}", headers=HTML)
    stop(http, container, clock, tried, sent(container, owner, name="Jim Doe", address="12 MAIN ST."))
    assert [answer.status_code for answer in stop(http, container, clock, tried)] == [200]
    assert is_suppressed(container, owner) == (True, False)
    stop(http, container, clock, mailed)
    assert is_suppressed(container, owner) == (True, True)
    rows = execute(container, sa.select(mailing_lists).order_by(mailing_lists.c.id))
    assert [(row.kept_for, row.description, row.sub_account_id, row.total_recipients) for row in rows] == [
        ("test", "Do-not-mail requests (testing)", None, 1),
        ("live", "Do-not-mail requests", None, 1),
    ]


def test_the_sender_corrects_its_mistakes(http: TestClient, container: Container, clock: Clock, owner: Account) -> None:
    stop(http, container, clock, sent(container, owner))
    [made] = owner.get("/mailing-lists").json()["data"]
    assert (made["is_suppression_list"], made["suppress_by"], made["type"]) == (True, "address", "manual")
    assert made["api_key"].startswith("ql_")
    at, branch = f"/mailing-lists/{made['id']}", make_sub_account(container, owner)
    before = snapshot_rows(container)
    changes: list[dict[str, Any]] = [{"type": "crm"}, {"is_suppression_list": False}, {"suppress_by": "email"}]
    for change in (*changes, {"sub_account_id": branch}):
        refused = owner.put(at, change)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, list(change))
    other = owner.post("/mailing-lists", {"description": "Mine", "is_suppression_list": True}).json()["id"]
    for source, target in ((made["id"], other), (other, made["id"])):
        assert owner.post(f"/mailing-lists/{source}/merge", {"into": target}).status_code == 422
    owner.delete(f"/mailing-lists/{other}")
    gone = owner.delete(at)
    assert (gone.status_code, gone.json()["message"]) == (
        400,
        "Recipients asked on this list for no more mail, and the service keeps it as it is. Remove an entry"
        " where it is a mistake.",
    )
    assert snapshot_rows(container) == before
    assert owner.put(at, {"description": "Stop!"}).status_code == 200
    [entry] = owner.get(f"{at}/recipients").json()["data"]
    assert owner.delete(f"/recipients/{entry['id']}").status_code == 200
    assert owner.delete(at).status_code == 200
    stop(http, container, clock, sent(container, owner))
    assert len(kept(container)) == 1


def test_the_error_for_a_wrong_code_says_how_codes_look(http: TestClient, container: Container) -> None:
    before = snapshot_rows(container)
    for code in ("ABC", "0000000!", "ZZZZZZZZZ", "%3Cscript%3E", "a" * 200, "ÄÄÄÄÄÄÄÄ"):
        for method in ("GET", "POST"):
            page = http.request(method, f"/stop/{code}", headers=HTML)
            assert page.status_code == 422
            assert "Eight letters and digits" in page.text
            assert "<script>" not in page.text
            assert list(http.request(method, f"/stop/{code}").json()["errors"]) == ["code"]
    assert http.get("/stop?code=abc", headers=HTML).status_code == 422
    assert "This is a preview." in http.get("/stop/PREVIEW0", headers=HTML).text
    assert http.post("/stop/PREVIEW0", headers=HTML).status_code == 422
    assert snapshot_rows(container) == before


def test_a_mistyped_code_is_understood(http: TestClient, container: Container, clock: Clock, owner: Account) -> None:
    """Capitals, an 0 for an o, one stroke for another, and signs between them."""
    codes = [("aBoiLXy2", "aboiLxy2"), ("aBoiLXy3", "ABOILXY3"), ("aBoiLXy4", "AB01-1xy4")]
    codes += [("aBoiLXy5", "%20abo%20Il%20xy5"), ("aBCDEFGH", "-"), ("abCDEFGH", "abCDEFGH")]
    for n, (printed, _) in enumerate(codes):
        piece = sent(container, owner, address=f"{n} Oak Ave")
        execute(container, sa.update(items).where(items.c.code == piece).values(code=printed))
    stop(http, container, clock, *(typed for _, typed in codes[:4]))
    assert addresses_kept(container) == [f"{n} Oak Ave" for n in range(4)]
    stop(http, container, clock, "ABCDEFGH")
    assert len(kept(container)) == 4, "two codes read so"
    stop(http, container, clock, "abCDEFGH")
    assert addresses_kept(container)[4:] == ["5 Oak Ave"], "the exact one counts"


def test_a_network_may_ask_so_often_and_all_of_them_together(
    http: TestClient, container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = sent(container, owner)
    for _ in range(opt_out_pages.MAX_PER_NETWORK):
        assert http.post(f"/stop/{code}", headers=HTML).status_code == 200
    before = snapshot_rows(container)
    for each in (code, NOBODYS):
        refused = http.post(f"/stop/{each}", headers=HTML)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert "Yours is not noted yet." in refused.text
    assert http.get(f"/stop/{code}", headers=HTML).status_code == 200
    assert snapshot_rows(container) == before
    monkeypatch.setattr(opt_out_pages, "MAX_PER_NETWORK", 1_000)
    assert http.post(f"/stop/{code}", headers=HTML).status_code == 200
    monkeypatch.setattr(opt_out_pages, "MAX_TOTAL", opt_out_pages.MAX_TOTAL // 100)
    assert http.post(f"/stop/{code}", headers=HTML).status_code == 429


def test_many_senders_requests_are_taken_in_together(
    http: TestClient, container: Container, clock: Clock, owner: Account, stranger: Account
) -> None:
    codes = [sent(container, owner), sent(container, stranger), sent(container, owner, address="9 Oak Ave"), NOBODYS]
    stop(http, container, clock, *codes)
    assert {(account, address) for account, _, address, _, _ in kept(container)} == {
        (owner.id, "12 Main St"), (owner.id, "9 Oak Ave"), (stranger.id, "12 Main St"),
    }  # fmt: skip


def link(container: Container, owner: Account, address: str = DANA) -> str:
    """To unsubscribe from news of scans."""
    return f"/unsubscribe/{encode_token(container.encryptor, NotificationReader(owner.id, address))}"


def unsubscribed(container: Container) -> set[tuple[int, str]]:
    rows = execute(container, sa.select(notice_refusals.c.account_id, notice_refusals.c.address))
    return {(row.account_id, row.address) for row in rows}


def test_buttons_end_and_resume_mail(http: TestClient, container: Container, owner: Account, stranger: Account) -> None:
    """What waits is not sent any more, but an owner's notice is; a stranger's link does not touch mine."""
    enqueue_notification(container, owner.id)
    enqueue_notification(container, owner.id, key="other address", address="bob@example.com")
    enqueue_notification(container, owner.id, key="hook:7", kind="webhook_failing")
    http.post(link(container, stranger), content="do=stop", headers=FORM)
    assert unsubscribed(container) == {(stranger.id, DANA)}
    assert [row.status for row in notification_rows(container)] == ["pending"] * 3
    at = link(container, owner, "Dana@Example.com")
    for _ in range(2):
        assert "gets no more news of scans" in http.post(at, content="do=stop", headers=FORM).text
    assert unsubscribed(container) == {(owner.id, DANA), (stranger.id, DANA)}
    assert [row.status for row in notification_rows(container)] == ["unwanted", "pending", "pending"]
    assert "You are unsubscribed." in http.get(at).text
    assert "Welcome back." in http.post(at, content="do=resume", headers=FORM).text
    assert unsubscribed(container) == {(stranger.id, DANA)}


def test_one_click_on_a_link_of_ours_is_enough(http: TestClient, container: Container, owner: Account) -> None:
    part = '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n'
    for address, body, kind in (
        (DANA, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded"),
        ("bob@example.com", part, "multipart/form-data; boundary=x"),
    ):
        answer = http.post(link(container, owner, address), content=body, headers={"Content-Type": kind})
        assert answer.status_code == 200
    assert unsubscribed(container) == {(owner.id, DANA), (owner.id, "bob@example.com")}
    good = link(container, owner)
    assert good != link(container, owner), "the seal is another one each time"
    assert "dana" not in good.lower()
    middle, before = len(good) - 20, snapshot_rows(container)
    forged = [good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :]]
    forged += ["/unsubscribe/x", "/unsubscribe/" + "A" * 5_000]
    forged += ["/unsubscribe/" + container.encryptor.encrypt(b'[1,"x@example.com"]', context="webhooks").hex()]
    for path in (*forged, good[:-9]):
        assert http.get(path).json() == {"message": "Not Found"}
        for answer in (http.get(path, headers=HTML), http.post(path, content="do=stop", headers=FORM)):
            assert answer.status_code == 404
            assert "Open the whole link" in answer.text
            assert (answer.headers["Cache-Control"], answer.headers["X-Robots-Tag"]) == PRIVATE
    for body, status in (("", 422), ("do=dance", 422), ("&" * 1_500, 422), ("x" * 5_000, 413)):
        assert http.post(good, content=body, headers=FORM).status_code == status
    assert snapshot_rows(container) == before
