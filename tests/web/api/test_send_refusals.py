"""Sends that are refused, with the field by name and not a trace left behind; and sends that are stored first."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app import tasks as app_tasks
from quillpost.app.container import Container
from quillpost.core.database.tables.base import stored_sends
from quillpost.rendering.text.variables import VARIABLE_NAMES
from support.factories import (
    GIFT,
    Account,
    Clock,
    make_account,
    make_sub_account,
    make_teammate,
    people,
    person,
    postcard,
    read_warnings,
)
from support.images import ImageServer
from support.orders import HOME
from support.test_client import TestClient
from support.traces import FORM, JSON, assert_refused, postcard_with, send_raw, unchanged

BIG = 10**30
DIGITS = "9" * 5_000
SURROGATE = '"\\ud800"'
KNOWN_VARIABLES = [f"%{name}%" for name in VARIABLE_NAMES]
ART = {"front_image_url": "https://example.com/a.png"}

GOOD = json.dumps(postcard())
UNREADABLE: list[tuple[bytes | str, str, int, list[str]]] = [
    *((body, JSON, 422, ["body"]) for body in (
        b"not json", b'{"message": "Hi"', b'{"message": NaN}', b"\xff\xfe", b"", b"   ", b"[]", b'"text"', b"null",
        b'{"message": "a", "message": "b"}', b'{"metadata": {"a": 1, "a": 2}}', b'{"\\ud800": 1, "\\ud800": 2}',
        b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5_000,
    )),
    (b"message=a&message=b", FORM, 422, ["message"]),
    (b"message", FORM, 422, ["body"]),
    (b"message=%ff", FORM, 422, ["body"]),
    (b"message=Hi&preview=false&handwriting_style=1&size=6x9", FORM, 422, ["recipients"]),
    *((GOOD, kind, 415, []) for kind in (FORM, "text/plain", "")),
    (b"<postcard/>", "application/xml", 415, []),
    (b"message=Hi", "multipart/form-data; boundary=x", 415, []),
]  # fmt: skip


def test_a_body_that_cannot_be_read_is_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    with unchanged(container):
        for body, content_type, status, fields in UNREADABLE:
            with subtests.test(f"{body[:40]!r} as {content_type}"):
                refused = send_raw(owner, body, content_type)
                assert (refused.status_code, list(refused.json().get("errors", {}))) == (status, fields)
                assert set(refused.json()) == ({"message", "errors"} if fields else {"message"})
    assert send_raw(owner, "message=Hi", FORM).json()["errors"] == {
        "recipients": ["Give at least one recipient, or mailing_list_ids, or a radius_search."]
    }


WRONG_TYPES: dict[str, list[Any]] = {
    "preview": ["true", 1, [], {}],
    "recipients": ["Jane", {"name": "Jane"}, 5, ["Jane"], [None], [["Jane"]]],
    "mailing_list_ids": ["5", 5, {"id": 5}, [None], ["x"], [1.5], [-1], [BIG]],
    "radius_search": ["near", 5, []],
    "size": [4, "4X6", "5x7", "", ["4x6"]],
    "front_image_url": [5, ["https://example.com/x.png"], True],
    "image_template": ["x", -1, 0, 1.5, 1e30, BIG, DIGITS, True, [1]],
    "message": [5, ["Hi"], {"text": "Hi"}, True],
    "message_template": ["x", -1, 0, 1.5, BIG, True],
    "custom_background_image": [5, {}],
    "send_standard_mail": ["yes", 1, ""],
    "handwriting_style": ["blue", 1.5, [1], True, -1, BIG, DIGITS],
    "handwriting_color": [5, ["blue"], "", "sky", "#12345", "rgb(1,2)", "rgb(300,0,0)"],
    "handwriting_realism": ["true", 0],
    "handwriting_manner": ["wild", "", 1, True],
    "signature": ["x", -1, 0, 1.5, BIG, True],
    "font_size": ["huge", 12],
    "qrcode_url": [5, ["https://example.com"]],
    "sub_account_id": ["x", "", "-1", -1, 0, 1.5, BIG, DIGITS, 2**63, True, [1], {}],
    "notification_emails": [5, {"a": 1}, [5], ["nobody"], "nobody", ["+1@sms"], ["a@b.co\u0000"]],
    "return_name": [5, []],
    "return_address": [5],
    "return_address2": [{}],
    "return_city": [True],
    "return_state": [[]],
    "return_postal_code": [78701],
    "use_custom_background": ["no"],
    "append_or_current_resident": ["no", 0],
    "allow_duplicates": [1],
    "schedule_for": [5, "tomorrow", "2026-13-01", "2026-05-04T11:59:59Z", "2028-01-01",
                     "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
    "preview_recipient": ["x", -1, 1.5, BIG, 1],
}  # fmt: skip
UNWRITABLE = [
    *((name, SURROGATE) for name in ("message", "return_city", "handwriting_color", "size", "schedule_for")),
    *((name, '"\\u0000"') for name in ("return_name", "handwriting_color")),
    ("message", '"Hi \\u0000 there"'), ("size", '"4x6\\u0000"'), ("front_image_url", '"https://example.com/\\u0000"'),
    ("sub_account_id", "1e999"), ("handwriting_style", "-1e400"), ("preview_recipient", "1" * 4_000),
    *(("recipients", f'[{{"name": {name}, "email": "a@b.co"}}]') for name in (SURROGATE, '"\\u0000"')),
]  # fmt: skip


@pytest.mark.usefixtures("unlimited_calls")
def test_a_wrong_type_or_range_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    values = [(field, json.dumps(value)) for field, each in WRONG_TYPES.items() for value in each]
    with unchanged(container):
        for field, written in values + UNWRITABLE:
            with subtests.test(f"{field}: {written[:80]}"):
                others = json.dumps({name: value for name, value in postcard().items() if name != field})
                refused = send_raw(owner, f"{others[:-1]},{json.dumps(field)}:{written}}}")
                assert refused.status_code == 422
                (named,) = refused.json()["errors"]
                assert named.split(".")[0] == field
        assert send_raw(owner, postcard_with("x", '1, "\\ud800": 1')).status_code == 422


def test_an_impossible_request_names_its_field(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    canadian = person(country="CA", postal_code="K1A 0B1")
    third = [*people(2), person(address="9 Oak Ave", custom1="very " * 59)]
    cases: list[tuple[Any, ...]] = [
        ({"recipients": []}, "recipients"),
        ({"return_city": "Austin", "return_state": "TX", "return_postal_code": "78701"}, "return_address"),
        ({"recipients": None}, "recipients"), ({"recipients": None, "mailing_list_ids": []}, "recipients"),
        ({"message": None} | ART, "message"), ({"message": ""} | ART, "message"),
        ({"message": " \n "} | ART, "message"), ({"message": "x" * 5_001}, "message"),
        ({"message": "\u200b\u200d"}, "message", "empty"), ({"message": "%COMPANY%"}, "message", "empty"),
        ({"message": "Hi %NICKNAME%!"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "Hi %FIRST_NAME% %COLOUR|blue%!"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "Hi ~NICKNAME~"}, "message", "Unknown variable", *KNOWN_VARIABLES),
        ({"message": "A long story. " * 200}, "message", "lines too long for a 4x6 postcard", "shorten it by about"),
        ({"message": "Hi " + "%CUSTOM1% " * 20, "recipients": third}, "message", "for recipient 2"),
        ({"handwriting_style": 99}, "handwriting_style"), ({"handwriting_color": "sky"}, "handwriting_color"),
        ({"handwriting_color": "rgba(0,0,0,0)"}, "handwriting_color"),
        ({"radius_search": {"record_count": 5}}, "radius_search.address"),
        ({"radius_distance_miles": 5}, "radius_distance_miles"),
        ({"radius_center": {"city": "Austin"}}, "radius_center.address"),
        ({"radius_center": "12 Main St, Austin, TX 78701"}, "radius_center"),
        ({"preview": True, "preview_recipient": 1}, "preview_recipient"),
        ({"recipients": people(5_001)}, "recipients", "5,000"), ({"recipients": [{}]}, "recipients.0.address"),
        ({"recipients": [{"name": "Jane"}]}, "recipients.0.address"),
        ({"recipients": [person(), person(postal_code="7870")]}, "recipients.1.postal_code"),
        ({"recipients": [canadian], "send_standard_mail": True}, "recipients.0.country"),
        ({"recipients": [person(country="DE", city="")]}, "recipients.0.city"),
    ]  # fmt: skip
    wrong: dict[str, object] = {
        "postal_code": "７８７０１", "province": "XX", "city": " ", "country": "Atlantis", "dob": "1990-02-30",
        "anniversary": "31/12/1990", "email": "nobody", "name": "x" * 301, "custom10": 5,
    }  # fmt: skip
    cases += [({"recipients": [person(**{name: value})]}, f"recipients.0.{name}") for name, value in wrong.items()]
    assert_refused(subtests, container, lambda changes: owner.send(**changes), cases)


def test_an_endless_address_and_a_bad_or_private_url_name_their_field(
    owner: Account, container: Container, subtests: pytest.Subtests
) -> None:
    endless = {"address": "a, b" + " " * 900_000 + "c", "email": "a@" + "." * 900_000 + "@"}
    with unchanged(container):
        refused = owner.send(recipients=[endless])
    assert refused.status_code == 422
    assert "recipients.0.address" in refused.json()["errors"]
    fields = ("front_image_url", "custom_background_image", "qrcode_url")
    cases = [({field: url}, field) for field in fields for url in BAD_URLS]
    assert_refused(subtests, container, lambda changes: owner.send(**changes), cases)


BAD_URLS = [
    "example.com/x.png", "ftp://example.com/x.png", "file:///etc/passwd", "javascript:alert(1)", "https://",
    "https://user:pass@example.com/x.png", "https://example.com/a b.png", "https://example.com:99999/x.png",
    "https://example.com/" + "x" * 2_100, "http://localhost/x.png", "http://127.0.0.1:5432/", "http://10.0.0.1/x.png",
    "http://169.254.169.254/latest/meta-data", "http://[::1]/x.png",
]  # fmt: skip


def test_what_is_not_there_or_a_strangers_is_refused_under_both_names(
    subtests: pytest.Subtests, owner: Account, stranger: Account, container: Container
) -> None:
    theirs = make_sub_account(container, stranger)
    unknown: list[tuple[str, object, str]]
    unknown = [(field, [5], "Mailing List Does Not Exist") for field in ("mailing_lists", "mailing_list_ids")]
    unknown += [
        (field + end, 5, f"{field.replace('_', ' ').title()} does not exist")
        for field in ("image_template", "message_template") for end in ("", "_id")
    ]  # fmt: skip
    unknown += [("sub_account_id", n, "Sub Account ID does not exist") for n in (theirs, theirs + 1_000, 2**63 - 1)]
    with unchanged(container):
        for field, value, message in unknown:
            with subtests.test(f"{field}: {value}"):
                refused = owner.send(**{field: value})
                assert (refused.status_code, refused.json()) == (400, {"message": message})


def test_half_a_return_address_is_refused(
    subtests: pytest.Subtests, container: Container, http: TestClient, owner: Account
) -> None:
    live = make_account(container, http, "live@example.com", mode="live")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"return_address": "7 Elm St"}, ["return_city", "return_state", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_state": "TX"}, ["return_city", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_city": "Waco"}, ["return_state", "return_postal_code"]),
        ({"return_state": "TX"}, ["return_address", "return_city", "return_postal_code"]),
        (HOME | {"return_city": None}, ["return_city"]),
        (HOME | {"return_postal_code": ""}, ["return_postal_code"]),
    ]
    with unchanged(container):
        for caller in (owner, live):
            for given, missing in cases:
                with subtests.test(f"{given} of {caller}"):
                    refused = caller.send(**given)
                    assert (refused.status_code, list(refused.json()["errors"])) == (422, missing), refused.text
        for blank in ({}, {"return_address": ""}):  # live mail needs one
            refused = live.send(**blank)
            assert (refused.status_code, list(refused.json()["errors"])) == (422, ["return_address"])
    assert live.send(**HOME).status_code == 200


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


def test_a_browser_that_looks_ahead_sends_nothing(owner: Account, container: Container) -> None:
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
        ("notecard", {"message": None}), ("windowed-letter", {"pdf_only_url": art.picture()}),
        ("giftcard", GIFT | {"giftcard_brand": "nobody's"}), ("giftcard", GIFT | {"giftcard_amount": 7}),
        ("postcard", {"recipients": [abroad], "send_standard_mail": True}),
    ]  # fmt: skip
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


def test_a_body_is_stored_as_it_came_and_refused_once_it_is_invalid(owner: Account) -> None:
    """A form, and one with a byte order mark."""
    saved = owner.post("/message-templates", {"type": "postcard", "name": "Hi", "content": "Hi!"}).json()
    path = stored(owner, message_template=saved["id"])
    assert owner.delete(f"/message-templates/{saved['id']}").status_code == 200
    for _ in range(2):
        refused = owner.get(path)
        assert (refused.status_code, refused.json()["message"]) == (400, "Message Template does not exist")
    assert total_orders(owner) == 0
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
