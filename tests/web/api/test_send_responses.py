"""The answer to a send, key for key, and where each of its values comes from."""

import re
from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from quillpost.orders.models import Order
from quillpost.orders.queries import read_order
from quillpost.web.api.send.requests import SendPostcard
from support.factories import Account, Clock, make_account, make_sub_account, people, person, postcard
from support.test_client import TestClient
from support.traces import unchanged

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
HOME = {
    "return_name": "Dana", "return_address": "PO Box 1", "return_city": "Waco", "return_state": "TX",
    "return_postal_code": "76701",
}  # fmt: skip


def stored(container: Container, order_id: int) -> Order:
    with container.db.system_transaction() as tx:
        return read_order(tx, order_id)


def test_the_answer_has_exactly_the_keys_of_the_interface_and_a_new_order_is_under_review(owner: Account) -> None:
    answer = owner.send().json()
    kinds = {name: kind for kind, names in KINDS.items() for name in names.split()}
    assert set(answer) == set(kinds)
    assert {name for name, kind in kinds.items() if not isinstance(answer[name], kind)} == set()
    assert answer["user_id"] == owner.id
    assert (answer["status"], answer["display_status"]) == ("reviewing", "Reviewing")
    assert (answer["method"], answer["display_trigger"]) == ("api", "API")
    assert (answer["mailing_list_ids_used"], answer["giftcard_brand_longname"]) == ("", "")
    assert answer["created_at"] == answer["updated_at"] == "2026-05-04 12:00:00"
    assert re.fullmatch(r"rgba\(\d+,\d+,\d+,1\)", answer["handwriting_color"])


def test_the_recipients_come_back_as_they_will_be_mailed(owner: Account) -> None:
    given = person(province="texas", postal_code="787011234", country="usa", email="jane@example.com")
    whole = {"name": "Jane Doe", "address": "14 Main St, Austin, TX 78701"}
    jane = {"name": "Jane Doe", "address2": None, "city": "Austin", "province": "TX", "country": "US"}
    assert owner.send(recipients=[given, whole]).json()["recipients"] == [
        jane | {"address": "12 Main St", "postal_code": "78701-1234"},
        jane | {"address": "14 Main St", "postal_code": "78701"},
    ]


def test_addresses_in_other_scripts_are_distinguished_and_five_thousand_go_in_one_call(owner: Account) -> None:
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


def test_the_sub_account_is_named_and_shown(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner, title="Branch", return_city="Waco")
    for body in ({"sub_account_id": branch}, {"sub_account": branch}, {"sub_account_id": str(branch)}):
        answer = owner.send(**body).json()
        assert answer["sub_account_id"] == branch
        assert answer["sub_account"] == owner.get(f"/sub-accounts/{branch}").json()
        assert (answer["sub_account"]["id"], answer["sub_account"]["return_city"]) == (branch, "Waco")


def test_choices_of_the_call_are_kept_under_each_of_their_names(owner: Account, container: Container) -> None:
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
    for body in ({"notification_emails": people_to_notify}, {"email_additional": ", ".join(people_to_notify)}):
        assert stored(container, owner.send(**body).json()["id"]).notification_emails == people_to_notify


def test_null_is_as_good_as_left_out(owner: Account) -> None:
    """Typed clients write every field of theirs, those that nobody set too."""
    unset = dict.fromkeys(SendPostcard.model_fields.keys() - {"recipients", "message"})
    plain = owner.send(allow_duplicates=False)
    explicit = owner.send(**unset, recipients=[person(address="8 Elm St")])
    assert (explicit.status_code, explicit.headers.get("X-Ignored-Fields")) == (200, None), explicit.text
    differ = {name for name, value in explicit.json().items() if plain.json()[name] != value}
    assert differ <= {"id", "created_at", "updated_at", "recipients"}


def test_what_means_nothing_is_named_in_answers_and_refusals(owner: Account, container: Container) -> None:
    sent = owner.send(mesage="typo", pdf_only_url="https://example.com/x.pdf", recipients=[person(zip="1")])
    assert sent.status_code == 200
    assert sent.headers["X-Ignored-Fields"] == "mesage, pdf_only_url, recipients.*.zip"
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
    sent = owner.send(message="Grüße an Жук und ሀ")
    warned = sent.headers["X-Warnings"]
    assert warned.isascii()
    assert "has no \\u0416 (cyrillic capital letter zhe), " in warned
    assert "No face has \\u1200 (ethiopic syllable ha): it is spelled in Latin letters, or left out." in warned
    kept = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    assert [warning.split(" (")[0] for warning in kept] == ["The hand Zeyada has no Ж", "No face has ሀ"]
    assert "X-Warnings" not in owner.send().headers
    to_ivan = owner.send(message="Hi %FIRST_NAME%", recipients=[person(name="Иван Петров")])
    assert "cyrillic" in to_ivan.headers["X-Warnings"]


def test_a_scheduled_order_can_be_cancelled_until_its_day(owner: Account, container: Container, clock: Clock) -> None:
    soon = owner.send(schedule_for="2026-05-04T12:00:01Z").json()["id"]  # does not shorten the review
    assert stored(container, soon).due_at.isoformat() == "2026-05-04T12:00:10+00:00"
    later = owner.send(schedule_for="2026-06-01T09:00:00-05:00").json()["id"]
    assert stored(container, later).due_at.isoformat() == "2026-06-01T14:00:00+00:00"
    clock.advance(days=20)
    assert owner.get(f"/orders/{later}").json()["cancellable"] is True


# Estimates


def test_an_estimate_is_refused_as_the_send_is_and_leaves_nothing_behind(owner: Account, container: Container) -> None:
    with unchanged(container):
        assert owner.post("/estimate/postcard", postcard()).status_code == 200
        assert owner.post("/estimate/postcard", postcard(preview=True)).json()["message"] == "OK"
        for wrong in (postcard(message="A long story. " * 200), postcard(size="5x7"), {}):
            refused, sent = owner.post("/estimate/postcard", wrong), owner.post("/send/postcard", wrong)
            assert (refused.status_code, refused.json()) == (sent.status_code, sent.json())
            assert refused.status_code == 422


def test_an_estimate_averages_prices_and_names_its_mode(owner: Account, container: Container, http: TestClient) -> None:
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
