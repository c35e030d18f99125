"""Stored sends: checked as sends are, opened once they send, opened again they say what was sent."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.base import stored_sends
from support.factories import GIFT, Account, Clock, make_sub_account, make_teammate, person, postcard, read_warnings
from support.images import ImageServer
from support.traces import FORM, JSON, unchanged

BASE = "http://quillpost.test/api/v2"


def path_of(answer: Response) -> str:
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["stored_send_url"]
    url = str(answer.json()["stored_send_url"])
    assert url.startswith(f"{BASE}/stored_send/")
    return url.removeprefix(BASE)


def stored(owner: Account, piece: str = "postcard", **changes: object) -> str:
    gift = GIFT if piece == "giftcard" else {}
    return path_of(owner.post(f"/stored_send/{piece}", postcard(**gift | changes)))


def total_orders(owner: Account) -> int:
    return int(owner.get("/orders").json()["meta"]["total"])


def test_opening_it_again_or_several_times_at_once_sends_once(owner: Account, container: Container) -> None:
    for number, method in enumerate(("GET", "POST"), 1):
        path = stored(owner, metadata={"n": 12345678901234567890123, "x": 1.0})
        assert total_orders(owner) == number - 1
        first = owner.call(method, path)
        assert (first.status_code, first.json()["status"]) == (200, "reviewing")
        for again in ("GET", "POST"):
            second = owner.call(again, path)
            assert (second.status_code, second.content) == (200, first.content)
        assert total_orders(owner) == number
        assert '{"n":12345678901234567890123,"x":1.0}' in owner.get(f"/orders/{first.json()['id']}").text
    path = stored(owner)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: owner.get(path), range(4)))
    assert {answer.status_code for answer in answers} == {200}
    assert (len({answer.content for answer in answers}), total_orders(owner)) == (1, 3)
    with container.db.system_transaction() as tx:  # no second copy of its recipients is left
        bodies = tx.scalars(sa.select(stored_sends.c.body).where(stored_sends.c.account_id == owner.id))
        assert list(bodies) == [""] * 3


def test_every_piece_can_be_stored_by_every_name(owner: Account) -> None:
    for piece, kind in {
        "windowed-letter": "letter", "windowedletter": "letter", "letter": "letter", "letter/windowed": "letter",
        "windowless-letter": "windowlessletter", "letter/windowless": "windowlessletter",
        "notecard": "notecard", "giftcard": "giftcard", "magnacard": "magnacard",
    }.items():  # fmt: skip
        number = stored(owner, piece, message="Stored.").rpartition("/")[2]
        opened = owner.get(f"/stored_send/{piece}/{number}")
        assert (opened.status_code, opened.json()["type"], opened.json()["message"]) == (200, kind, "Stored."), piece
    assert owner.get("/stored_send/letter/windowed").status_code in (404, 405)
    assert owner.put("/send/letter/windowed").headers["Allow"] == "POST, OPTIONS"


def test_looking_ahead_sends_nothing(owner: Account, container: Container) -> None:
    path = stored(owner)
    with unchanged(container):
        head = owner.call("HEAD", path)
        assert (head.status_code, "Content-Length" in head.headers) == (200, False)
        for name in ("Purpose", "Sec-Purpose", "X-Moz"):
            looked = owner.get(path, headers={name: "prefetch"})
            assert (looked.status_code, "Nothing was sent" in looked.json()["message"]) == (200, True)
        assert owner.call("OPTIONS", path).status_code == 204
    assert owner.get(path).json()["status"] == "reviewing"


@pytest.mark.usefixtures("loopback_urls")
def test_whatever_refuses_the_send_refuses_to_store_it(
    subtests: pytest.Subtests, owner: Account, container: Container, art: ImageServer
) -> None:
    """For its form, ids, pictures, words, prices and gift."""
    abroad = person(country="FR", province=None, postal_code="75001")
    near = {"address": "12 Main St, Austin, TX 78701", "record_count": 5}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("notecard", {"message": None}),
        ("windowed-letter", {"pdf_only_url": art.picture()}),
        ("giftcard", GIFT | {"giftcard_brand": "nobody's"}),
        ("giftcard", GIFT | {"giftcard_amount": 7}),
        ("postcard", {"recipients": [abroad], "send_standard_mail": True}),
    ]
    wrong: dict[str, object] = {
        "message": 5, "recipients": [], "mailing_list_ids": [999], "sub_account_id": 999, "message_template": 999,
        "image_template": 999, "handwriting_style": 999, "handwriting_color": "invisible",
        "front_image_url": art.url("/gone"), "custom_background_image": art.letter(), "schedule_for": "2020-01-01",
        "radius_search": near,
    }  # fmt: skip
    cases += [("postcard", {name: value}) for name, value in wrong.items()]
    cases += [("postcard", {"message": message}) for message in ("Hi %NOBODY%", "word " * 900)]
    cases += [("postcard", {"recipients": [person(postal_code="1")]})]
    with unchanged(container):
        for piece, changes in cases:
            with subtests.test(f"{piece} {changes}"[:200]):
                sent, kept = (owner.post(f"/{verb}/{piece}", postcard(**changes)) for verb in ("send", "stored_send"))
                assert sent.status_code in (400, 422), sent.text
                assert (kept.status_code, kept.json()) == (sent.status_code, sent.json())


@pytest.mark.usefixtures("loopback_urls")
def test_it_is_warned_of_when_stored_and_fetches_its_pictures_when_sent(owner: Account, art: ImageServer) -> None:
    body = postcard(pdf_only_url=art.letter())
    sent, kept = (owner.post(f"/{verb}/letter", body) for verb in ("send", "stored_send"))
    assert read_warnings(kept) == read_warnings(sent) != []
    assert kept.headers["X-Ignored-Fields"] == sent.headers["X-Ignored-Fields"] == "message"
    path = stored(owner, front_image_url=art.picture("plum"))
    fetched = art.paths.count("/plum.png")
    assert owner.get(path).status_code == 200
    assert art.paths.count("/plum.png") == fetched + 1


def test_a_send_that_became_invalid_is_refused_and_not_used_up(owner: Account) -> None:
    saved = owner.post("/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!"}).json()
    path = stored(owner, message_template=saved["id"])
    assert owner.delete(f"/message-templates/{saved['id']}").status_code == 200
    for _ in range(2):
        refused = owner.get(path)
        assert (refused.status_code, refused.json()["message"]) == (400, "Message Template does not exist")
    assert total_orders(owner) == 0


def test_a_body_is_stored_as_it_came(owner: Account) -> None:
    """A form, and one with a byte order mark."""
    mailing_list = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=mailing_list))
    form = f"message=Hi&preview=false&size=6x9&send_standard_mail=true&typo=1&mailing_list_ids={mailing_list}"
    marked = b"\xef\xbb\xbf" + json.dumps(postcard(size="6x9")).encode()
    for content, kind, ignored in ((form.encode(), FORM, "typo"), (marked, JSON, None)):
        kept = owner.call("POST", "/stored_send/postcard", content=content, headers={"Content-Type": kind})
        assert kept.headers.get("X-Ignored-Fields") == ignored
        sent = owner.get(path_of(kept))
        assert (sent.status_code, sent.json()["size"]) == (200, "6x9")


def test_its_own_sub_account_alone_finds_and_sends_it(owner: Account, stranger: Account, container: Container) -> None:
    here, there = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, here)
    path, own = stored(owner, sub_account_id=here), stored(teammate)
    assert stranger.get(path).status_code == 404
    assert make_teammate(container, owner, there).get(path).status_code == 404
    assert owner.get(path.replace("postcard", "notecard")).status_code == 404
    assert owner.get("/stored_send/postcard/nonsense").status_code == 404
    assert teammate.get(path).status_code == 200
    assert owner.get(own).json()["sub_account_id"] == here


def delete_expired(container: Container) -> None:
    """The job, as a worker runs it."""
    (job,) = (task for task in app_tasks.build_tasks(container) if task.name == "stored_sends.delete_expired")
    assert job.cron is not None
    job.run()


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
    assert (owner.get(sent_late).content, total_orders(owner)) == (late.content, 2)
    clock.advance(days=60)
    delete_expired(container)
    assert owner.get(sent_late).status_code == 404


def test_a_preview_that_is_looked_at_stays(owner: Account, container: Container, clock: Clock) -> None:
    path = stored(owner, preview=True)
    for _ in range(2):
        assert owner.get(path).json()["success"] is True
        clock.advance(days=60)
        delete_expired(container)
        assert owner.get(path).json()["success"] is True
    clock.advance(days=91)
    delete_expired(container)
    assert (owner.get(path).status_code, total_orders(owner)) == (404, 0)
