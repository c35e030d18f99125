"""Stored sends: opened once they send, opened again they say what was sent."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.base import stored_sends
from support.factories import GIFT, Account, Clock, make_sub_account, make_teammate, person, postcard
from support.traces import FORM, traces

BASE = "http://quillpost.test/api/v2"


def stored(owner: Account, piece: str = "postcard", **changes: object) -> str:
    gift = GIFT if piece == "giftcard" else {}
    answer = owner.post(f"/stored_send/{piece}", postcard(**gift | changes))
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["stored_send_url"]
    url = str(answer.json()["stored_send_url"])
    assert url.startswith(f"{BASE}/stored_send/")
    return urlsplit(url).path.removeprefix("/api/v2")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_opening_it_sends_once_and_then_repeats_the_answer(owner: Account, method: str) -> None:
    path = stored(owner, metadata={"n": 12345678901234567890123, "x": 1.0})
    assert owner.get("/orders").json()["meta"]["total"] == 0
    first = owner.call(method, path)
    assert (first.status_code, first.json()["status"]) == (200, "reviewing")
    for again in ("GET", "POST"):
        second = owner.call(again, path)
        assert (second.status_code, second.content) == (200, first.content)
    assert owner.get("/orders").json()["meta"]["total"] == 1
    assert '{"n":12345678901234567890123,"x":1.0}' in owner.get(f"/orders/{first.json()['id']}").text


@pytest.mark.parametrize(
    "piece", ["windowed-letter", "windowedletter", "letter", "windowless-letter", "notecard", "giftcard", "magnacard"]
)
def test_every_piece_can_be_stored(owner: Account, piece: str) -> None:
    assert owner.get(stored(owner, piece)).status_code == 200


def test_looking_ahead_sends_nothing(owner: Account, container: Container) -> None:
    path = stored(owner)
    before = traces(container)
    head = owner.call("HEAD", path)
    assert (head.status_code, "Content-Length" in head.headers) == (200, False)
    for name in ("Purpose", "Sec-Purpose", "X-Moz"):
        looked = owner.get(path, headers={name: "prefetch"})
        assert (looked.status_code, "Nothing was sent" in looked.json()["message"]) == (200, True)
    assert owner.call("OPTIONS", path).status_code == 204
    assert traces(container) == before
    assert owner.get(path).json()["status"] == "reviewing"


def test_a_preview_may_be_opened_again_and_again(owner: Account) -> None:
    path = stored(owner, preview=True)
    for _ in range(2):
        assert owner.get(path).json()["success"] is True
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_wrong_body_is_refused_when_it_is_stored(owner: Account, container: Container) -> None:
    before = traces(container)
    assert list(owner.post("/stored_send/postcard", postcard(message=5)).json()["errors"]) == ["message"]
    late = owner.post("/stored_send/postcard", postcard(schedule_for="2020-01-01"))
    assert list(late.json()["errors"]) == ["schedule_for"]
    assert owner.post("/stored_send/postcard", postcard(sub_account_id=999)).status_code == 400
    assert traces(container) == before


def test_a_send_that_became_invalid_is_refused_and_not_used_up(owner: Account) -> None:
    saved = owner.post("/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!"}).json()
    path = stored(owner, message_template=saved["id"])
    assert owner.delete(f"/message-templates/{saved['id']}").status_code == 200
    for _ in range(2):
        refused = owner.get(path)
        assert (refused.status_code, refused.json()["message"]) == (400, "Message Template does not exist")
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_form_is_stored_as_it_came(owner: Account) -> None:
    mailing_list = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=mailing_list))
    form = f"message=Hi&preview=false&size=6x9&send_standard_mail=true&typo=1&mailing_list_ids={mailing_list}"
    kept = owner.call("POST", "/stored_send/postcard", content=form, headers={"Content-Type": FORM})
    assert (kept.status_code, kept.headers["X-Ignored-Fields"]) == (200, "typo")
    sent = owner.get(urlsplit(kept.json()["stored_send_url"]).path.removeprefix("/api/v2"))
    assert (sent.status_code, sent.json()["size"]) == (200, "6x9")


def test_opening_it_several_times_at_once_sends_once(owner: Account) -> None:
    path = stored(owner)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: owner.get(path), range(4)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert owner.get("/orders").json()["meta"]["total"] == 1


def test_nobody_else_finds_it(owner: Account, stranger: Account, container: Container) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    path = stored(owner, sub_account_id=here)
    assert stranger.get(path).status_code == 404
    assert make_teammate(container, owner, there).get(path).status_code == 404
    assert owner.get(path.replace("postcard", "notecard")).status_code == 404
    assert owner.get("/stored_send/postcard/nonsense").status_code == 404
    assert make_teammate(container, owner, here).get(path).status_code == 200


def test_it_is_sent_for_the_sub_account_that_stored_it(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    path = stored(make_teammate(container, owner, branch))
    assert owner.get(path).json()["sub_account_id"] == branch


def test_a_byte_order_mark_is_forgotten(owner: Account) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(postcard()).encode()
    kept = owner.call("POST", "/stored_send/postcard", content=body, headers={"Content-Type": "application/json"})
    path = urlsplit(kept.json()["stored_send_url"]).path.removeprefix("/api/v2")
    assert owner.get(path).status_code == 200


def delete_expired(container: Container) -> None:
    """The job, as a worker runs it."""
    (job,) = (task for task in app_tasks.build_tasks(container) if task.name == "stored_sends.delete_expired")
    assert job.cron is not None
    job.run()


@pytest.mark.usefixtures("clean_database")
def test_what_was_sent_leaves_no_second_copy_of_its_recipients(owner: Account, container: Container) -> None:
    path = stored(owner)
    first = owner.get(path)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(stored_sends.c.body)).scalar_one() == ""
    assert owner.get(path).content == first.content


def test_ninety_days_after_it_was_stored_or_sent_it_is_gone(owner: Account, container: Container, clock: Clock) -> None:
    waiting, sent, sent_late = stored(owner), stored(owner), stored(owner)
    assert owner.get(sent).status_code == 200
    clock.advance(days=60)
    late = owner.get(sent_late)
    clock.advance(days=29)
    delete_expired(container)
    assert {owner.call("HEAD", path).status_code for path in (waiting, sent, sent_late)} == {200}
    clock.advance(days=2)
    delete_expired(container)
    for path in (waiting, sent):
        gone = owner.get(path)
        assert (gone.status_code, gone.json()) == (404, {"message": "Not Found"})
    assert owner.get(sent_late).content == late.content
    assert owner.get("/orders").json()["meta"]["total"] == 2
    clock.advance(days=60)
    delete_expired(container)
    assert owner.get(sent_late).status_code == 404


def test_a_preview_that_is_looked_at_stays(owner: Account, container: Container, clock: Clock) -> None:
    path = stored(owner, preview=True)
    for _ in range(2):
        clock.advance(days=60)
        delete_expired(container)
        assert owner.get(path).json()["success"] is True
    clock.advance(days=91)
    delete_expired(container)
    assert owner.get(path).status_code == 404
