"""The answer to a send, key for key, and where each of its values comes from."""

import re
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, orders
from quillpost.web.api.send.requests import SendPostcard
from support.factories import Account, Clock, make_account, make_sub_account, people, person, postcard
from support.test_client import TestClient
from support.traces import FORM, send_raw, traces

NULLABLE_TEXTS = (
    "return_name", "return_address", "return_address2", "return_city", "return_province",
    "return_postal_code", "qrcode_url", "custom_background_url",
)  # fmt: skip
KINDS: dict[str, type | tuple[type, ...]] = {
    "id": int,
    "total_estimated_recipients": int,
    "authorization_total": int,
    "leads_fee": int,
    "mailing_list_ids_used": str,
    "handwriting_color": str,
    "front_image": str,
    "message": str,
    "append_or_current_resident": bool,
    "type": str,
    "size": str,
    **{name: (str, type(None)) for name in NULLABLE_TEXTS},
    "message_template_id": (int, type(None)),
    "image_template_id": (int, type(None)),
    "method": str,
    "sub_account_id": (int, type(None)),
    "sub_account": (dict, type(None)),
    "font_size": str,
    "giftcard_brand": type(None),
    "giftcard_image": type(None),
    "giftcard_amount": type(None),
    "giftcard_brand_longname": str,
    "status": str,
    "display_status": str,
    "display_trigger": str,
    "display_type": str,
    "style": int,
    "user_id": int,
    "created_at": str,
    "updated_at": str,
    "recipients": list,
}
HOME = {
    "return_name": "Dana",
    "return_address": "PO Box 1",
    "return_city": "Waco",
    "return_state": "TX",
    "return_postal_code": "76701",
}


def column(container: Container, order_id: int, name: str) -> Any:
    with container.db.system_transaction() as tx:
        return tx.execute(sa.select(orders.c[name]).where(orders.c.id == order_id)).scalar_one()


def test_the_answer_has_exactly_the_keys_and_types_of_the_interface(owner: Account) -> None:
    answer = owner.send().json()
    assert set(answer) == set(KINDS)
    for name, kind in KINDS.items():
        assert isinstance(answer[name], kind), name


def test_a_new_order_is_under_review(owner: Account) -> None:
    answer = owner.send().json()
    assert answer["user_id"] == owner.id
    assert (answer["status"], answer["display_status"]) == ("reviewing", "Reviewing")
    assert (answer["method"], answer["display_trigger"]) == ("api", "API")
    assert (answer["mailing_list_ids_used"], answer["giftcard_brand_longname"]) == ("", "")
    assert answer["created_at"] == answer["updated_at"] == "2026-05-04 12:00:00"
    assert re.fullmatch(r"rgba\(\d+,\d+,\d+,1\)", answer["handwriting_color"])


def test_the_recipients_come_back_as_they_will_be_mailed(owner: Account) -> None:
    given = person(province="texas", postal_code="787011234", country="usa", email="jane@example.com")
    assert owner.send(recipients=[given]).json()["recipients"] == [
        {
            "name": "Jane Doe",
            "address": "12 Main St",
            "address2": None,
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701-1234",
            "country": "US",
        }
    ]


def test_an_address_on_one_line_is_taken_apart(owner: Account) -> None:
    whole = {"name": "Jane Doe", "address": "12 Main St, Austin, TX 78701"}
    (shown,) = owner.send(recipients=[whole]).json()["recipients"]
    assert (shown["address"], shown["city"], shown["province"], shown["postal_code"]) == (
        "12 Main St", "Austin", "TX", "78701",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "type_", "display", "cents"),
    [
        ({}, "postcard", "Postcard-4x6", 109),
        ({"send_standard_mail": True}, "postcard", "Postcard-4x6", 94),
        ({"size": "6x9"}, "postcard", "Postcard-6x9", 134),
        ({"size": "6x11"}, "postcard6x11", "Postcard-6x11", 149),
        ({"size": "6x11", "send_standard_mail": True}, "postcard6x11", "Postcard-6x11", 121),
        ({"recipients": [person(country="CA", province="ON", postal_code="K1A 0B1")]},
         "postcard", "Postcard-4x6", 219),
        ({"recipients": [*people(2), person(country="DE", province=None, postal_code="10115")]},
         "postcard", "Postcard-4x6", 2 * 109 + 219),
    ],
)  # fmt: skip
def test_the_total_follows_size_class_and_country(
    owner: Account, changes: dict[str, Any], type_: str, display: str, cents: int
) -> None:
    answer = owner.send(**changes).json()
    assert (answer["type"], answer["display_type"], answer["authorization_total"]) == (type_, display, cents)


def test_refused_recipients_are_neither_counted_nor_billed_but_seen(owner: Account) -> None:
    audience = [person(), person(name="Twin", address="12  MAIN st."), {"email": "only@example.com"}]
    answer = owner.send(recipients=audience).json()
    assert (answer["total_estimated_recipients"], answer["authorization_total"]) == (1, 109)
    items = owner.get(f"/orders/{answer['id']}/items").json()["data"]
    assert [item["status"] for item in items] == ["Processing", "Failed", "Failed"]
    assert "same address" in items[1]["failure"]
    assert "no mailing address" in items[2]["failure"]


def test_addresses_in_other_scripts_are_distinguished(owner: Account) -> None:
    tokyo = [
        {"name": "Sato", "address": "東京都千代田区1-1", "city": "東京", "country": "JP"},
        {"name": "Mori", "address": "東京都港区2-2", "city": "東京", "country": "JP"},
    ]
    ottawa = [person(country="CA", province="ON", city="Ottawa", postal_code=code) for code in ("K1A 0B1", "K1A 0B2")]
    assert owner.send(recipients=tokyo + ottawa).json()["total_estimated_recipients"] == 4


@pytest.mark.parametrize("alias", ["return_state", "return_province"])
def test_the_calls_own_return_address_comes_first(owner: Account, container: Container, alias: str) -> None:
    branch = make_sub_account(container, owner, return_name="Branch", return_address="9 Branch Rd")
    own = HOME | {"return_address2": "Suite 4"}
    own[alias] = own.pop("return_state")
    answer = owner.send(sub_account_id=branch, **own).json()
    assert {name: answer[name] for name in answer if name.startswith("return_")} == {
        "return_name": "Dana",
        "return_address": "PO Box 1",
        "return_address2": "Suite 4",
        "return_city": "Waco",
        "return_province": "TX",
        "return_postal_code": "76701",
    }


def test_the_return_address_falls_back_to_the_sub_account_then_to_the_account(
    owner: Account, container: Container
) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(**HOME))
    housed = make_sub_account(container, owner, return_name="Branch", return_address="9 Branch Rd")
    homeless = make_sub_account(container, owner, title="No address")
    assert owner.send(sub_account_id=housed).json()["return_address"] == "9 Branch Rd"
    assert owner.send(sub_account_id=homeless).json()["return_address"] == "PO Box 1"
    assert owner.send().json()["return_province"] == "TX"
    assert owner.send(return_address="  ").json()["return_address"] == "PO Box 1"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"return_address": "7 Elm St"}, ["return_city", "return_state", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_state": "TX"}, ["return_city", "return_postal_code"]),
        ({"return_address": "7 Elm St", "return_city": "Waco"}, ["return_state", "return_postal_code"]),
        ({"return_state": "TX"}, ["return_address", "return_city", "return_postal_code"]),
        (HOME | {"return_city": None}, ["return_city"]),
        (HOME | {"return_postal_code": ""}, ["return_postal_code"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["test", "live"])
def test_half_a_return_address_is_refused(
    container: Container, http: TestClient, mode: str, given: dict[str, str], missing: list[str]
) -> None:
    caller = make_account(container, http, "half@example.com", mode=mode)
    refused = caller.send(**given)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, missing), refused.text


def test_a_return_address_may_stand_on_one_line_or_abroad(owner: Account) -> None:
    names = ("return_address", "return_address2", "return_city", "return_province", "return_postal_code")
    whole = owner.send(return_address="7 Elm St, Austin, Texas 78701", return_address2="Unit 2").json()
    assert [whole[name] for name in names] == ["7 Elm St", "Unit 2", "Austin", "TX", "78701"]
    abroad = {
        "return_address": "1 Rue Roy", "return_city": "Laval", "return_state": "QC",
        "return_postal_code": "H7A 0A1",
    }  # fmt: skip
    sent = owner.send(**abroad).json()
    assert [sent[name] for name in names] == ["1 Rue Roy", None, "Laval", "QC", "H7A 0A1"]


def test_live_mail_without_any_return_address_is_refused(container: Container, http: TestClient) -> None:
    live = make_account(container, http, "live@example.com", mode="live")
    before = traces(container)
    for blank in ({}, {"return_address": ""}):
        refused = live.send(**blank)
        assert refused.status_code == 422
        assert list(refused.json()["errors"]) == ["return_address"]
    assert traces(container) == before
    assert live.send(**HOME).status_code == 200


def test_the_sub_account_is_named_and_shown(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner, title="Branch", return_city="Waco")
    for body in ({"sub_account_id": branch}, {"sub_account": branch}, {"sub_account_id": str(branch)}):
        answer = owner.send(**body).json()
        assert answer["sub_account_id"] == branch
        assert answer["sub_account"] == owner.get(f"/sub-accounts/{branch}").json()
        assert (answer["sub_account"]["id"], answer["sub_account"]["return_city"]) == (branch, "Waco")


@pytest.mark.parametrize("style", [{"handwriting_style": 1}, {"handwriting_style_id": "1"}])
def test_the_handwriting_style_has_two_names(owner: Account, style: dict[str, Any]) -> None:
    assert owner.send(**style).json()["style"] == 1


@pytest.mark.parametrize("field", ["mailing_lists", "mailing_list_ids"])
def test_a_list_that_is_not_there_is_refused_under_both_names(owner: Account, container: Container, field: str) -> None:
    before = traces(container)
    refused = owner.send(**{field: [5]})
    assert (refused.status_code, refused.json()) == (400, {"message": "Mailing List Does Not Exist"})
    assert traces(container) == before


@pytest.mark.parametrize("field", ["image_template", "image_template_id", "message_template", "message_template_id"])
def test_a_template_that_is_not_there_is_refused_under_both_names(
    owner: Account, container: Container, field: str
) -> None:
    before = traces(container)
    refused = owner.send(**{field: 5})
    assert refused.status_code == 400
    assert refused.json()["message"].endswith("does not exist")
    assert traces(container) == before


@pytest.mark.parametrize(
    "body",
    [
        {"notification_emails": ["a@example.com", "+15125550100@sms"]},
        {"email_additional": "a@example.com, +15125550100@sms"},
    ],
)
def test_notifications_go_to_an_array_or_a_text_with_commas(
    owner: Account, container: Container, body: dict[str, Any]
) -> None:
    order_id = owner.send(**body).json()["id"]
    assert column(container, order_id, "notification_emails") == ["a@example.com", "+15125550100@sms"]


def test_choices_of_the_call_are_kept(owner: Account, container: Container) -> None:
    answer = owner.send(
        append_or_current_resident=True,
        allow_duplicates=True,
        font_size="small",
        handwriting_color="#102030",
        qrcode_url="https://example.com/~FIRST_NAME~",
    ).json()
    assert answer["append_or_current_resident"] is True
    assert (answer["font_size"], answer["handwriting_color"]) == ("small", "rgba(16,32,48,1)")
    assert answer["qrcode_url"] == "https://example.com/~FIRST_NAME~"
    assert column(container, answer["id"], "allow_duplicates") is True


def test_null_is_as_good_as_left_out(owner: Account) -> None:
    """Typed clients write every field of theirs, those that nobody set too."""
    unset = dict.fromkeys(SendPostcard.model_fields.keys() - {"recipients", "message"})
    plain = owner.send(allow_duplicates=False)
    explicit = owner.send(**unset, recipients=[person(address="8 Elm St")])
    assert (explicit.status_code, explicit.headers.get("X-Ignored-Fields")) == (200, None), explicit.text
    differ = {name for name, value in explicit.json().items() if plain.json()[name] != value}
    assert differ <= {"id", "created_at", "updated_at", "recipients"}


def test_what_means_nothing_is_named_and_ignored(owner: Account) -> None:
    sent = owner.send(mesage="typo", pdf_only_url="https://example.com/x.pdf", recipients=[person(zip="1")])
    assert sent.status_code == 200
    assert sent.headers["X-Ignored-Fields"] == "mesage, pdf_only_url, recipients.*.zip"
    assert "X-Ignored-Fields" not in owner.send().headers


def test_a_refusal_names_the_typo_for_which_something_is_missing(owner: Account) -> None:
    nothing = owner.post("/send/postcard", {"recipents": [person()], "message": "Hi"})
    assert (nothing.status_code, nothing.headers["X-Ignored-Fields"]) == (422, "recipents")
    nowhere = owner.send(recipients=[person(postal_code=None) | {"zipcode": "78701"}])
    assert (nowhere.status_code, nowhere.headers["X-Ignored-Fields"]) == (422, "recipients.*.zipcode")
    misread = owner.send(message=7, mesage="Hi")
    assert (misread.status_code, misread.headers["X-Ignored-Fields"]) == (422, "mesage")
    again = [owner.post("/send/postcard", {"mesage": "Hi"}, headers={"Idempotency-Key": "k"}) for _ in "12"]
    assert {each.headers["X-Ignored-Fields"] for each in again} == {"mesage"}


def test_a_field_given_under_two_names_counts_once_and_the_other_is_named(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    sent = owner.send(sub_account_id=branch, sub_account=branch + 1)
    assert sent.json()["sub_account_id"] == branch
    assert sent.headers["X-Ignored-Fields"] == "sub_account"


def test_letters_that_the_hand_lacks_are_warned_of_by_name(owner: Account) -> None:
    sent = owner.send(message="Grüße an Жук und ሀ")
    warned = sent.headers["X-Warnings"]
    assert warned.isascii()
    assert "has no \\u0416 (cyrillic capital letter zhe), " in warned
    assert "No face has \\u1200 (ethiopic syllable ha): it is spelled in Latin letters, or left out." in warned
    kept = owner.get(f"/orders/{sent.json()['id']}").json()["warnings"]
    assert [warning.split(" (")[0] for warning in kept] == ["The hand Zeyada has no Ж", "No face has ሀ"]
    assert "X-Warnings" not in owner.send().headers


def test_a_form_is_read_where_fields_are_single_values(owner: Account, container: Container) -> None:
    before = traces(container)
    sent = send_raw(owner, "message=Hi&preview=false&handwriting_style=1&size=6x9", FORM)
    assert sent.status_code == 422
    assert sent.json()["errors"] == {
        "recipients": ["Give at least one recipient, or mailing_list_ids, or a radius_search."]
    }
    assert traces(container) == before


def test_a_scheduled_order_waits_and_can_be_cancelled_until_then(
    owner: Account, container: Container, clock: Clock
) -> None:
    answer = owner.send(schedule_for="2026-06-01T09:00:00-05:00").json()
    due = column(container, answer["id"], "due_at")
    assert due.isoformat() == "2026-06-01T14:00:00+00:00"
    clock.advance(days=20)
    assert owner.get(f"/orders/{answer['id']}").json()["cancellable"] is True


def test_a_schedule_within_the_review_does_not_shorten_it(owner: Account, container: Container) -> None:
    answer = owner.send(schedule_for="2026-05-04T12:00:01Z").json()
    assert column(container, answer["id"], "due_at").isoformat() == "2026-05-04T12:00:10+00:00"


def test_five_thousand_recipients_go_in_one_call(owner: Account) -> None:
    answer = owner.send(message="Hello!", recipients=people(5_000)).json()
    assert (answer["total_estimated_recipients"], answer["authorization_total"]) == (5_000, 5_000 * 109)


def test_every_path_takes_a_slash_at_its_end(owner: Account) -> None:
    order_id = owner.post("/send/postcard/", postcard()).json()["id"]
    hook = owner.post("/webhooks/", {"url": "https://example.com/hook", "type": "*"}).json()["id"]
    for path in (
        "/ping/", "/orders/", "/orders/list/", f"/orders/{order_id}/", f"/orders/{order_id}/track/",
        f"/orders/{order_id}/items/", "/webhooks/", f"/webhooks/{hook}/", "/openapi.json/",
    ):  # fmt: skip
        assert owner.get(path).status_code == 200, path
    assert owner.call("PUT", f"/orders/{order_id}/cancel/").status_code == 200
    assert owner.call("DELETE", f"/webhooks/{hook}/").status_code == 200


@pytest.mark.parametrize("message", ["\u200b\u200d", "%COMPANY%"])
def test_a_message_that_would_leave_the_card_blank_is_refused(owner: Account, message: str) -> None:
    answer = owner.send(message=message)
    assert answer.status_code == 422
    assert "empty" in str(answer.json()["errors"]["message"])


def test_a_recipients_own_letters_are_warned_of(owner: Account) -> None:
    sent = owner.send(message="Hi %FIRST_NAME%", recipients=[person(name="Иван Петров")])
    assert "cyrillic" in sent.headers["X-Warnings"]


def test_ink_that_cannot_be_seen_is_refused_and_faint_ink_warned_of(owner: Account) -> None:
    assert owner.send(handwriting_color="rgba(0,0,0,0)").status_code == 422
    assert "hard to read on white" in owner.send(handwriting_color="#fdfdfd").headers["X-Warnings"]
