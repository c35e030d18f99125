"""Whoever holds a piece of mail asks for no more of it, and nobody else learns anything by asking."""

from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import do_not_mail_inbox, items, mailing_lists, recipients
from quillpost.recipients.rules import SUPPRESSED
from quillpost.web.public.opt_outs import pages as opt_out_pages
from support.factories import (
    Account,
    Clock,
    make_account,
    make_sub_account,
    person,
    postcard,
    run_due_jobs,
    run_jobs_for,
    snapshot_rows,
)
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

HTML = {"Accept": "text/html"}
NOBODYS = "ZZZZZZZZ"


def code_of(container: Container, order_id: int) -> str:
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.select(items.c.code).where(items.c.order_id == order_id))
        return str(found.scalar_one())


def sent(container: Container, account: Account, **fields: Any) -> str:
    """The code of a piece to Jane, or whom these fields describe."""
    answer = account.send(recipients=[person(**fields)], allow_duplicates=True)
    assert answer.status_code == 200, answer.text
    return code_of(container, answer.json()["id"])


def kept(container: Container) -> list[tuple[int, str, str | None, str | None, str | None]]:
    """Who is on the lists of requests: of which account and mode, at which address, by name and e-mail."""
    columns = (
        mailing_lists.c.account_id,
        mailing_lists.c.kept_for,
        recipients.c.address,
        recipients.c.name,
        recipients.c.email,
    )
    query = (
        sa.select(*columns)
        .join(recipients, recipients.c.mailing_list_id == mailing_lists.c.id)
        .where(mailing_lists.c.is_suppression_list)
        .order_by(recipients.c.id)
    )
    with container.db.system_transaction() as tx:
        return [tuple(row) for row in tx.execute(query)]


def is_suppressed(container: Container, account: Account, mode: str) -> bool:
    """Whether a send to Jane's address in that mode would find it so."""
    query = sa.text("select suppressed_places(null, :mode, :keys, array[null::text], array[null::text])")
    with container.db.transaction(build_tenant(Caller(account.id, mode))) as tx:
        return tx.execute(query, {"mode": mode, "keys": ["12MAIN ST||78701|US"]}).all() != []


def stop(http: TestClient, container: Container, clock: Clock, code: str) -> Response:
    answer = http.post(f"/stop/{code}", headers=HTML)
    clock.advance(seconds=1)
    run_due_jobs(container)
    return answer


def test_looking_changes_nothing(http: TestClient, container: Container, owner: Account) -> None:
    code = sent(container, owner)
    before = snapshot_rows(container)
    for path in ("/stop", f"/stop?code={code}", f"/stop/{code}", f"/stop/{NOBODYS}", "/stop/PREVIEW0"):
        for method in ("GET", "HEAD"):
            answer = http.request(method, path, headers=HTML, follow_redirects=False)
            assert answer.status_code == (303 if "?" in path else 200)
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Robots-Tag"] == "noindex"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert snapshot_rows(container) == before


def test_a_code_typed_from_paper_leads_to_its_page(http: TestClient) -> None:
    assert '<form method="get" action="/stop"' in http.get("/stop", headers=HTML).text
    typed = http.get("/stop?code=%20ZZZZ-ZZZZ%20", headers=HTML, follow_redirects=False)
    assert typed.headers["Location"] == f"/stop/{NOBODYS}"
    page = http.get(f"/stop/{NOBODYS}", headers=HTML).text
    assert f'<form method="post" action="/stop/{NOBODYS}">' in page
    assert page.count("<button") == 1
    assert "<script" not in page


def test_the_address_of_the_piece_is_suppressed_without_a_name(
    http: TestClient, container: Container, clock: Clock, owner: Account, stranger: Account
) -> None:
    code = sent(container, owner, email="jane@example.com")
    stop(http, container, clock, code)
    assert kept(container) == [(owner.id, "test", "12 Main St", None, None)]
    for account, suppressed in ((owner, 1), (stranger, 0)):
        data = account.post("/estimate/postcard", postcard(recipients=[person(name="Bob")])).json()["data"]
        assert data["suppressed"] == suppressed
    # What is e-mailed elsewhere is no concern of a request about paper.
    elsewhere = postcard(recipients=[person(address="9 Oak Ave", email="jane@example.com")])
    assert owner.post("/estimate/postcard", elsewhere).json()["data"]["suppressed"] == 0


def test_what_waits_to_be_sent_there_is_not_sent(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    code = sent(container, owner)
    waiting = owner.send(recipients=[person(name="Jim Doe")], allow_duplicates=True).json()["id"]
    http.post(f"/stop/{code}", headers=HTML)
    run_jobs_for(container, clock, seconds=15)
    [item] = owner.get(f"/orders/{waiting}/items").json()["data"]
    assert (item["status"], item["failure"]) == ("Failed", SUPPRESSED)


def test_known_and_unknown_codes_are_answered_alike(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    code = sent(container, owner)
    for method in ("GET", "POST"):
        for headers in (HTML, {"Accept": "application/json"}):
            responses = [http.request(method, f"/stop/{each}", headers=headers) for each in (code, NOBODYS)]
            assert responses[0].text.replace(code, "") == responses[1].text.replace(NOBODYS, "")
            shown = [
                {name: text for name, text in each.headers.items() if name != "x-request-id"} for each in responses
            ]
            assert (responses[0].status_code, shown[0]) == (responses[1].status_code, shown[1])
            for secret in ("Jane", "Main", "78701", "owner"):
                assert secret not in responses[0].text
    with container.db.system_transaction() as tx:
        codes = list(tx.execute(sa.select(do_not_mail_inbox.c.code)).scalars())
    assert sorted(codes) == sorted([code, NOBODYS] * 2)
    run_jobs_for(container, clock, seconds=1)
    assert len(kept(container)) == 1
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(do_not_mail_inbox)).all() == []


def test_repeated_requests_for_one_address_make_one_entry(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    first, second = sent(container, owner), sent(container, owner, name="Jim Doe", address="12 MAIN ST.")
    http.post(f"/stop/{first}", headers=HTML)
    for code in (first, second, first):
        assert stop(http, container, clock, code).status_code == 200
    assert len(kept(container)) == 1
    with container.db.system_transaction() as tx:
        [made] = tx.execute(sa.select(mailing_lists))
    assert (made.description, made.total_recipients) == ("Do-not-mail requests (testing)", 1)


def test_one_list_serves_the_whole_account_in_each_mode(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    """A piece that was never mailed bars nobody from mail that is."""
    branch = make_sub_account(container, owner)
    tried, mailed = (
        code_of(container, owner.send(sub_account_id=branch, allow_duplicates=True).json()["id"]) for _ in range(2)
    )
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.code == mailed).values(mode="live"))
    assert (is_suppressed(container, owner, "test"), is_suppressed(container, owner, "live")) == (False, False)
    stop(http, container, clock, tried)
    assert (is_suppressed(container, owner, "test"), is_suppressed(container, owner, "live")) == (True, False)
    stop(http, container, clock, mailed)
    assert (is_suppressed(container, owner, "test"), is_suppressed(container, owner, "live")) == (True, True)
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(mailing_lists).order_by(mailing_lists.c.id)).all()
    assert [(row.kept_for, row.description, row.sub_account_id) for row in rows] == [
        ("test", "Do-not-mail requests (testing)", None),
        ("live", "Do-not-mail requests", None),
    ]


def test_the_sender_reads_the_list_and_mends_mistakes_and_nothing_else(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    stop(http, container, clock, sent(container, owner))
    [made] = owner.get("/mailing-lists").json()["data"]
    assert (made["is_suppression_list"], made["suppress_by"], made["type"]) == (True, "address", "manual")
    assert made["api_key"].startswith("ql_")
    at = f"/mailing-lists/{made['id']}"
    branch = make_sub_account(container, owner)
    before = snapshot_rows(container)
    for change in (
        {"type": "crm"}, {"is_suppression_list": False}, {"suppress_by": "email"}, {"sub_account_id": branch},
    ):  # fmt: skip
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
            response = http.request(method, f"/stop/{code}")
            assert list(response.json()["errors"]) == ["code"]
    assert http.get("/stop?code=abc", headers=HTML).status_code == 422
    assert "This is a preview." in http.get("/stop/PREVIEW0", headers=HTML).text
    assert http.post("/stop/PREVIEW0", headers=HTML).status_code == 422
    assert snapshot_rows(container) == before


def code_becomes(container: Container, old: str, new: str) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.code == old).values(code=new))


@pytest.mark.parametrize("typed", ["aboiLxyz", "ABOILXYZ", "AB01-1xyz", "%20abo%20Il%20xyz"])
def test_a_code_mistyped_from_paper_is_understood(
    http: TestClient, container: Container, clock: Clock, owner: Account, typed: str
) -> None:
    """Capitals, an 0 for an o, one stroke for another, and signs between them."""
    code_becomes(container, sent(container, owner), "aBoiLXyz")
    stop(http, container, clock, typed)
    assert [address for _, _, address, _, _ in kept(container)] == ["12 Main St"]


def test_of_codes_that_read_alike_the_exact_one_counts_and_else_none(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    code_becomes(container, sent(container, owner), "aBCDEFGH")
    code_becomes(container, sent(container, owner, address="9 Oak Ave"), "abCDEFGH")
    stop(http, container, clock, "ABCDEFGH")
    assert kept(container) == []
    stop(http, container, clock, "abCDEFGH")
    assert [address for _, _, address, _, _ in kept(container)] == ["9 Oak Ave"]


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


def test_a_piece_without_a_page_of_its_senders_leads_to_a_kind_word(
    http: TestClient, container: Container, owner: Account
) -> None:
    answer = http.get(f"/q/{sent(container, owner)}", headers=HTML)
    assert answer.status_code == 404
    assert "We do not know this code." in answer.text


def test_many_senders_requests_are_taken_in_together(
    http: TestClient, container: Container, clock: Clock, owner: Account
) -> None:
    other = make_account(container, http, "other@example.com")
    codes = [sent(container, owner), sent(container, other), sent(container, owner, address="9 Oak Ave"), NOBODYS]
    for code in codes:
        http.post(f"/stop/{code}", headers=HTML)
    clock.advance(seconds=1)
    run_due_jobs(container)
    assert {(account, address) for account, _, address, _, _ in kept(container)} == {
        (owner.id, "12 Main St"), (owner.id, "9 Oak Ave"), (other.id, "12 Main St"),
    }  # fmt: skip
