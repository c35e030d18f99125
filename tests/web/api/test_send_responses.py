"""The answer to a send, key for key, and where each of its values comes from."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from quillpost.orders.models import Order
from quillpost.orders.queries import read_order
from quillpost.rendering.handwriting.models import STYLES
from quillpost.web.api.responses import IGNORED_HEADER
from quillpost.web.api.send.requests import SendPostcard
from quillpost.web.application import create_app
from support import factories
from support.factories import Account, Build, Clock, make_account, make_sub_account, people, person, postcard
from support.mailing_lists import ListOwner
from support.orders import HOME
from support.rows import run
from support.test_client import TestClient
from support.traces import assert_refused, metadata_text, postcard_with, send_raw, unchanged

NOTHING = type(None)
KINDS: dict[type | tuple[type, ...], str] = {
    int: "id total_estimated_recipients authorization_total leads_fee style user_id",
    str: "mailing_list_ids_used handwriting_color front_image message type size method font_size status display_status"
    " giftcard_brand_longname display_trigger display_type created_at updated_at",
    (str, NOTHING): "return_name return_address return_address2 return_city return_province return_postal_code"
    " qrcode_url custom_background_url",
    (int, NOTHING): "message_template_id image_template_id sub_account_id",
    (dict, NOTHING): "sub_account",
    NOTHING: "giftcard_brand giftcard_image giftcard_amount",
    bool: "append_or_current_resident",
    list: "recipients",
}


def stored(container: Container, order_id: int) -> Order:
    return run(container, read_order, order_id)


def test_the_answer_has_exactly_the_keys_of_the_interface_and_a_new_order_is_under_review(owner: Account) -> None:
    answer = owner.send().json()
    kinds = {name: kind for kind, names in KINDS.items() for name in names.split()}
    assert set(answer) == set(kinds)
    assert {name for name, kind in kinds.items() if not isinstance(answer[name], kind)} == set()
    assert (answer["user_id"], answer["status"], answer["display_status"]) == (owner.id, "reviewing", "Reviewing")
    assert (answer["method"], answer["display_trigger"]) == ("api", "API")
    assert (answer["mailing_list_ids_used"], answer["giftcard_brand_longname"]) == ("", "")
    assert answer["created_at"] == answer["updated_at"] == "2026-05-04 12:00:00"
    assert re.fullmatch(r"rgba\(\d+,\d+,\d+,1\)", answer["handwriting_color"])


def test_recipients_of_any_script_and_five_thousand_come_back_as_they_will_be_mailed(owner: Account) -> None:
    given = person(province="texas", postal_code="787011234", country="usa", email="jane@example.com")
    whole = {"name": "Jane Doe", "address": "14 Main St, Austin, TX 78701"}
    jane = {"name": "Jane Doe", "address2": None, "city": "Austin", "province": "TX", "country": "US"}
    assert owner.send(recipients=[given, whole]).json()["recipients"] == [
        jane | {"address": "12 Main St", "postal_code": "78701-1234"},
        jane | {"address": "14 Main St", "postal_code": "78701"},
    ]
    places = (("東京都千代田区1-1", "東京", "JP"), ("東京都港区2-2", "東京", "JP"))
    tokyo = [{"name": "Sato", "address": street, "city": city, "country": code} for street, city, code in places]
    ottawa = [person(country="CA", province="ON", city="Ottawa", postal_code=code) for code in ("K1A 0B1", "K1A 0B2")]
    assert owner.send(recipients=tokyo + ottawa).json()["total_estimated_recipients"] == 4
    answer = owner.send(message="Hello!", recipients=people(5_000)).json()
    assert (answer["total_estimated_recipients"], answer["authorization_total"]) == (5_000, 5_000 * 109)


def test_the_return_address_is_of_the_call_its_sub_account_or_its_account(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(**HOME | {"return_address": "PO Box 9"}))
    housed = make_sub_account(
        container, owner, return_name="Branch", return_address="9 Branch Rd", return_state="TX", return_city="Waco"
    )
    homeless = make_sub_account(container, owner, title="No address")
    own = HOME | {"return_address2": "Suite 4"}
    named = {name: value for name, value in own.items() if name != "return_state"} | {"return_province": "TX"}
    for given in (own, named):
        answer = owner.send(sub_account_id=housed, **given).json()
        assert {name: answer[name] for name in answer if name.startswith("return_")} == named
    cases: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
        ({"sub_account_id": housed}, ("Branch", "9 Branch Rd", "TX")),
        ({"sub_account_id": housed, "return_name": "Dana"}, ("Dana", "9 Branch Rd", "TX")),
        ({"sub_account_id": homeless}, ("Dana", "PO Box 9", "TX")),
        ({}, ("Dana", "PO Box 9", "TX")),
        ({"return_address": "  "}, ("Dana", "PO Box 9", "TX")),
    ]
    for changes, expected in cases:
        sent = owner.send(**changes).json()
        assert (sent["return_name"], sent["return_address"], sent["return_province"]) == expected, changes
    # It may stand on one line, or abroad.
    names = ("return_address", "return_address2", "return_city", "return_province", "return_postal_code")
    abroad = {"return_address": "1 Rue Roy", "return_city": "Laval", "return_state": "QC"}
    for given, place in (
        ({"return_address": "1 Own Rd, Tulsa, OK 74101"}, ["1 Own Rd", None, "Tulsa", "OK", "74101"]),
        ({"return_address": "7 Elm St, Austin, Texas 78701", "return_address2": "Unit 2"},
         ["7 Elm St", "Unit 2", "Austin", "TX", "78701"]),
        (abroad | {"return_postal_code": "H7A 0A1"}, ["1 Rue Roy", None, "Laval", "QC", "H7A 0A1"]),
    ):  # fmt: skip
        sent = owner.send(sub_account_id=housed, **given).json()
        assert [sent[name] for name in names] == place, given


def test_the_sub_account_is_shown_and_choices_are_kept_under_each_name(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner, title="Branch", return_city="Waco")
    for body in ({"sub_account_id": branch}, {"sub_account": branch}, {"sub_account_id": str(branch)}):
        answer = owner.send(**body).json()
        assert answer["sub_account_id"] == branch
        assert answer["sub_account"] == owner.get(f"/sub-accounts/{branch}").json()
        assert (answer["sub_account"]["id"], answer["sub_account"]["return_city"]) == (branch, "Waco")
    answer = owner.send(
        append_or_current_resident=True, allow_duplicates=True, font_size="small", handwriting_color="#102030",
        qrcode_url="https://example.com/~FIRST_NAME~",
    ).json()  # fmt: skip
    assert answer["append_or_current_resident"] is True
    assert (answer["font_size"], answer["handwriting_color"]) == ("small", "rgba(16,32,48,1)")
    assert answer["qrcode_url"] == "https://example.com/~FIRST_NAME~"
    assert stored(container, answer["id"]).allow_duplicates is True
    for style in ({"handwriting_style": 1}, {"handwriting_style_id": "1"}):
        assert owner.send(**style).json()["style"] == 1
    people_to_notify = ["a@example.com", "+15125550100@sms"]
    for notified in ({"notification_emails": people_to_notify}, {"email_additional": ", ".join(people_to_notify)}):
        assert stored(container, owner.send(**notified).json()["id"]).notification_emails == people_to_notify


def test_null_is_as_good_as_left_out_and_what_means_nothing_is_named(owner: Account, container: Container) -> None:
    """Typed clients write every field of theirs, those that nobody set too."""
    unset = dict.fromkeys(SendPostcard.model_fields.keys() - {"recipients", "message"})
    plain = owner.send(allow_duplicates=False)
    explicit = owner.send(**unset, recipients=[person(address="8 Elm St")])
    assert (explicit.status_code, explicit.headers.get("X-Ignored-Fields")) == (200, None), explicit.text
    differ = {name for name, value in explicit.json().items() if plain.json()[name] != value}
    assert differ <= {"id", "created_at", "updated_at", "recipients"}
    sent = owner.send(mesage="typo", pdf_only_url="https://example.com/x.pdf", recipients=[person(zip="1")])
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "mesage, pdf_only_url, recipients.*.zip")
    assert "X-Ignored-Fields" not in owner.send().headers
    branch = make_sub_account(container, owner)
    twice = owner.send(sub_account_id=branch, sub_account=branch + 1)
    assert (twice.json()["sub_account_id"], twice.headers["X-Ignored-Fields"]) == (branch, "sub_account")
    # So is, by a refusal, the typo for which something is missing.
    typo, nowhere = {"recipents": [person()], "message": "Hi"}, person(postal_code=None) | {"zipcode": "78701"}
    for refused, ignored in (
        (owner.post("/send/postcard", typo), "recipents"),
        (owner.send(recipients=[nowhere]), "recipients.*.zipcode"),
        (owner.send(message=7, mesage="Hi"), "mesage"),
    ):
        assert (refused.status_code, refused.headers["X-Ignored-Fields"]) == (422, ignored)
    again = [owner.post("/send/postcard", {"mesage": "Hi"}, headers={"Idempotency-Key": "k"}) for _ in "12"]
    assert {each.headers["X-Ignored-Fields"] for each in again} == {"mesage"}


def test_letters_that_the_hand_lacks_are_warned_of(owner: Account) -> None:
    sent = owner.send(message="Grüße an Иван, Әлия und ሀ")
    warned = sent.headers["X-Warnings"]
    assert warned.isascii()
    assert "has no \\u04d8 (cyrillic capital letter schwa): another face is used instead." in warned
    assert "No face has \\u1200 (ethiopic syllable ha): it is spelled in Latin letters, or left out." in warned
    kept = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    assert [warning.split(" (")[0] for warning in kept] == ["The hand Zeyada has no Ә", "No face has ሀ"]
    assert "X-Warnings" not in owner.send().headers
    to_aliya = owner.send(message="Hi %FIRST_NAME%", recipients=[person(name="Әлия Серік")])
    assert "cyrillic" in to_aliya.headers["X-Warnings"]


def test_a_scheduled_order_can_be_cancelled_until_its_day(owner: Account, container: Container, clock: Clock) -> None:
    soon = owner.send(schedule_for="2026-05-04T12:00:01Z").json()["id"]  # does not shorten the review
    assert stored(container, soon).due_at.isoformat() == "2026-05-04T12:00:10+00:00"
    later = owner.send(schedule_for="2026-06-01T09:00:00-05:00").json()["id"]
    assert stored(container, later).due_at.isoformat() == "2026-06-01T14:00:00+00:00"
    clock.advance(days=20)
    assert owner.get(f"/orders/{later}").json()["cancellable"] is True


def test_estimates_average_prices_and_fail_as_sends_do(owner: Account, container: Container, http: TestClient) -> None:
    with unchanged(container):
        assert owner.post("/estimate/postcard", postcard()).status_code == 200
        assert owner.post("/estimate/postcard", postcard(preview=True)).json()["message"] == "OK"
        for wrong in (postcard(message="A long story. " * 200), postcard(size="5x7"), {}):
            refused, sent = owner.post("/estimate/postcard", wrong), owner.post("/send/postcard", wrong)
            assert (refused.status_code, refused.json()) == (sent.status_code, sent.json())
            assert refused.status_code == 422
    live = make_account(container, http, "live@example.com", mode="live")
    abroad, home = person(country="CA", province="ON", postal_code="K1A 0B1"), "1 Elm St, Waco, TX 76701"
    for caller, audience, expected in (
        (owner, [person(), abroad], (109 + 219, 164, True)),
        (owner, [{"email": "e@example.com"}], (0, 109, True)),
        (live, [person()], (109, 109, False)),
    ):
        body = postcard(recipients=audience, return_address=home)
        data = caller.post("/estimate/postcard", body).json()["data"]
        assert (data["authorization_total"], data["unit_price"], data["test_mode"]) == expected


THEIRS = {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "state": "TX", "zip": "78701"}
OURS = {"province": "TX", "postal_code": "78701"}
BOTH = THEIRS | OURS | {"state": "CA", "zip": "90210"}
NULLS = THEIRS | {"province": None, "postal_code": None}


def taken(answer: Response, *path: str | int) -> tuple[dict[str, str], str | None]:
    """The recipient's place as we call it, and what the answer says was not needed."""
    row = answer.json()
    for step in path:
        row = row[step]
    return {name: row[name] for name in OURS}, answer.headers.get(IGNORED_HEADER)


def test_sends_take_state_and_zip_unless_the_specified_names_are_there(owner: Account) -> None:
    """Null beside another name is as good as left out."""
    both = "recipients.*.state, recipients.*.zip"
    for whom, ignored in ((THEIRS, None), (NULLS, None), (BOTH, both)):
        sent = owner.send(recipients=[whom])
        assert (sent.status_code, taken(sent, "recipients", 0)) == (200, (OURS, ignored))
        items = owner.get(f"/orders/{sent.json()['id']}/items")
        assert taken(items, "data", 0, "recipient") == (OURS, None)
    assert owner.post("/estimate/postcard", postcard(recipients=[THEIRS])).json()["data"]["total_recipients"] == 1
    assert "recipients.0.postal_code" in owner.send(recipients=[THEIRS | {"zip": "7870"}]).json()["errors"]


def test_recipients_are_made_changed_and_removed_with_state_and_zip(owner: Account, lists: ListOwner) -> None:
    here = {"mailing_list_id": lists.make()}
    assert taken(owner.post("/recipients", BOTH | {"mailing_list_id": lists.make()})) == (OURS, "state, zip")
    made = owner.post("/recipients", THEIRS | here)
    assert (made.status_code, taken(made)) == (201, (OURS, None))
    path = f"/recipients/{made.json()['id']}"
    dallas = {"address": "9 Oak Ave", "city": "Dallas", "state": "TX", "zip": "75201"}
    assert taken(owner.put(path, dallas))[0] == {"province": "TX", "postal_code": "75201"}
    moved = owner.put(path, {"province": None, "state": "CA"})
    assert (moved.status_code, moved.json()["province"]) == (200, "CA")
    assert owner.put(path, {"province": None}).json()["province"] is None
    assert taken(owner.post("/recipients", NULLS | here)) == (OURS, None)
    elsewhere = {"mailing_list_id": None, "mailing_list": here["mailing_list_id"], "address": "11 Oak Ave"}
    many = owner.post("/recipients_multi", [NULLS | elsewhere, THEIRS | here | {"zip": "1"}])
    assert taken(many, 0) == (OURS, None)
    assert (many.json()[1]["zip"], "error" in many.json()[1]) == ("1", True)
    gone = owner.post("/recipients-utils/delete-by-address", THEIRS | here)
    assert (gone.status_code, gone.headers.get(IGNORED_HEADER)) == (200, "name")
    erased = owner.post("/recipients/erase", {name: THEIRS[name] for name in THEIRS if name != "name"})
    assert (erased.status_code, erased.headers.get(IGNORED_HEADER)) == (200, None)
    hook = f"/hooks/lists/{lists.read(lists.make())['api_key']}"
    for whom in (BOTH, THEIRS | {"address": "14 Main St"}):
        assert taken(owner.http.post(hook, json=whom), 0)[0] == OURS


@pytest.mark.usefixtures("clean_database")
def test_a_replay_takes_state_and_zip(owner: Account, container: Container, clock: Clock) -> None:
    order = owner.send().json()["id"]
    factories.run_jobs_for(container, clock, seconds=45)
    again = owner.post(f"/orders/{order}/replay", {"recipients": [THEIRS | {"address": "3 Elm St"}]})
    assert (again.status_code, taken(again, "recipients", 0)[0]) == (200, OURS)


def test_every_installed_hand_is_listed_for_everybody_with_a_sample_that_opens_and_can_be_sent(
    owner: Account, stranger: Account, container: Container, http: TestClient
) -> None:
    answer = owner.get("/handwriting-styles")
    assert (answer.status_code, list(answer.json())) == (200, ["data"])
    assert stranger.get("/handwriting-styles").json() == answer.json()
    listed = answer.json()["data"]
    assert [(row["handwriting_style_id"], row["name"], row["type"]) for row in listed] == [
        (style.number, style.name, style.kind) for style in container.renderer.hands.styles.values()
    ]
    assert listed[0] == {"handwriting_style_id": 1, "name": "Zeyada", "sample": listed[0]["sample"], "type": "AI"}
    assert {row["type"] for row in listed} == {"Realistic", "Bold", "International", "AI"}
    assert len({row["sample"] for row in listed}) == len(listed)
    assert listed[0]["sample"].startswith("http://quillpost.test/hands/1.png?v=")
    assert http.get(listed[0]["sample"]).content.startswith(b"\x89PNG"), "without a token"
    bold = next(row["handwriting_style_id"] for row in listed if row["type"] == "Bold")
    assert owner.send(handwriting_style_id=bold).json()["style"] == bold
    refused = owner.send(handwriting_style_id=len(STYLES) + 1)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["handwriting_style"])


def test_every_hand_is_there_without_what_comes_from_npm(build: Build, tmp_path: Path) -> None:
    container = build(font_packages=tmp_path / "nothing here")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        listed = make_account(container, http, "owner@example.com").get("/handwriting-styles").json()["data"]
        assert http.get("/hands/31.png").content.startswith(b"\x89PNG")
    assert [row["name"] for row in listed] == [style.name for style in STYLES]


NO_OBJECT = "metadata must be a JSON object of key/value pairs."
LIMIT = 8_192


def test_odd_long_or_deep_metadata_is_refused(subtests: pytest.Subtests, owner: Account, container: Container) -> None:
    def of_bytes(size: int, letter: str) -> str:
        room, width = size - len('{"k":""}'), len(letter.encode())
        written = json.dumps({"k": "." * (room % width) + letter * (room // width)}, ensure_ascii=False)
        assert len(written.replace(": ", ":").encode()) == size
        return written

    def nested(levels: int, opening: str, closing: str) -> str:
        return '{"a":' + opening * levels + "1" + closing * levels + "}"

    letters, brackets = ("x", "é", "漢", "🙂"), (('{"a":', "}"), ("[", "]"))
    longest = [of_bytes(LIMIT, letter) for letter in letters]
    deepest = [nested(30, *pair) for pair in brackets]
    for accepted in (*longest, *deepest):
        order_id = send_raw(owner, postcard_with("metadata", accepted)).json()["id"]
        assert metadata_text(owner.get(f"/orders/{order_id}")) == accepted.replace(": ", ":")
    cases: list[tuple[str, ...]] = [
        *((wrong, "metadata", NO_OBJECT) for wrong in ("[]", '["a"]', '"text"', "5", "true", "1.5")),
        *((of_bytes(LIMIT + 1, letter), "metadata", "8,193 bytes") for letter in letters),
    ]
    assert_refused(subtests, container, lambda text: send_raw(owner, postcard_with("metadata", text)), cases)
    with unchanged(container):
        for pair in brackets:
            for levels in (31, 900, 4_000):
                assert send_raw(owner, postcard_with("metadata", nested(levels, *pair))).status_code == 422, levels
