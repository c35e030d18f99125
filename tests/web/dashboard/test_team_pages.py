"""The page of people: owners invite, change and remove; an account keeps an owner; others see none of it."""

from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.tokens import service as token_service
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import invitations, memberships, people
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import notices
from support.account_pages import LIMITED, MEMBER, OWNER, STRANGER, AccountPages
from support.browser_sessions import send_emails
from support.factories import Clock, make_sub_account

PAGE = "/settings/people"
NEW = "kim@example.com"


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    send_emails(http, container)
    return AccountPages(container, http)


def invite(house: AccountPages, **changes: Any) -> Response:
    return house.owner.post(f"{PAGE}/invite", **{"email": NEW, "role": "member"} | changes)


def invited(house: AccountPages) -> list[tuple[str, str, int | None]]:
    c = invitations.c
    with house.parts.db.system_transaction() as tx:
        rows = tx.execute(
            sa.select(c.email, c.role, c.sub_account_id)
            .where(c.revoked_at.is_(None), c.account_id == house.account.id)
            .order_by(c.id)
        )
        return [(row.email, row.role, row.sub_account_id) for row in rows]


def invitation_id(house: AccountPages) -> int:
    with house.parts.db.system_transaction() as tx:
        found = tx.execute(sa.select(invitations.c.id).order_by(invitations.c.id.desc())).scalars()
        return int(found.first() or 0)


def place_of(house: AccountPages, email: str) -> tuple[int, str, int | None]:
    """The membership's number, the role and the sub account."""
    c = memberships.c
    with house.parts.db.system_transaction() as tx:
        row = tx.execute(
            sa.select(c.id, c.role, c.sub_account_id)
            .join(people, people.c.id == c.person_id)
            .where(people.c.email == email, c.account_id == house.account.id)
        ).one()
        return row.id, row.role, row.sub_account_id


def letters(house: AccountPages) -> int:
    with house.parts.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(notices)).scalar_one())


def run_the_service(house: AccountPages) -> None:
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(is_operator=True))


def test_everyone_of_the_account_is_listed_and_nobody_else(house: AccountPages, clock: Clock) -> None:
    house.member, house.limited, house.stranger  # noqa: B018 (are there by now)
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(people).where(people.c.email == MEMBER).values(totp_since=clock.now()))
    clock.advance(hours=2)
    page = house.owner.get(PAGE).text
    for words in (OWNER, MEMBER, LIMITED, "of Dallas alone", "2 hours ago", ">on<", ">off<", "(you)"):
        assert words in page
    assert STRANGER not in page


@pytest.mark.usefixtures("clean_database")
def test_an_invitation_goes_out_and_waits_on_the_page(house: AccountPages) -> None:
    answer = invite(house, email=" Kim@Example.com ", sub_account_id=house.branch)
    assert "The invitation is on its way." in answer.text
    assert invited(house) == [(NEW, "member", house.branch)]
    for words in (NEW, "of Dallas alone", "11 May 2026"):
        assert words in answer.text
    assert letters(house) == 1
    assert "/join/" not in answer.text
    assert f"{OWNER} invited somebody: {NEW} (member" in house.owner.get("/settings/audit").text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"email": ""}, "e-mail"),
        ({"email": "nobody"}, "e-mail"),
        ({"email": "x" * 321}, "At most 320 characters, please."),
        ({"email": OWNER}, f"{OWNER} is in this account already."),
        ({"role": "king"}, "Choose one of the roles."),
        ({"role": None}, "Choose one of the roles."),
        ({"role": "operator"}, "Choose one of the roles."),
        ({"sub_account_id": "999999"}, "There is no such sub account."),
        ({"sub_account_id": "Dallas"}, "Choose one that is on the list."),
    ],
)
def test_an_invalid_invitation_is_shown_again_and_stores_nothing(
    house: AccountPages, changes: dict[str, Any], sentence: str
) -> None:
    before = house.everything()
    answer = invite(house, **changes)
    assert answer.status_code == 422
    errors = unescape(answer.text).split('role="alert">')[1:]
    assert sentence in "".join(errors)
    if "email" not in changes:
        assert f'value="{NEW}"' in answer.text
    assert house.everything() == before


def test_an_owner_of_one_sub_account_there_is_not(house: AccountPages) -> None:
    before = house.everything()
    assert invite(house, role="owner", sub_account_id=house.branch).status_code == 422
    theirs = make_sub_account(house.parts, house.others, "Theirs")
    assert invite(house, sub_account_id=theirs).status_code == 422
    assert house.everything() == before | {"sub_accounts": before["sub_accounts"] + 1}


def test_operators_there_are_only_where_the_service_is_run(house: AccountPages) -> None:
    form = house.owner.get(f"{PAGE}/invite").text
    assert 'value="member"' in form
    assert 'value="operator"' not in form
    run_the_service(house)
    assert 'value="operator"' in house.owner.get(f"{PAGE}/invite").text
    assert invite(house, role="operator").status_code == 200
    assert invited(house) == [(NEW, "operator", None)]


def test_an_invitation_can_be_taken_back(house: AccountPages) -> None:
    invite(house)
    path = f"{PAGE}/invitations/{invitation_id(house)}/take-back"
    answer = house.owner.post(path)
    assert "The invitation is taken back." in answer.text
    assert invited(house) == []
    assert house.owner.post(path).status_code == 404
    assert f"{OWNER} took an invitation back: {NEW}" in house.owner.get("/settings/audit").text


@pytest.mark.usefixtures("clean_database")
def test_an_invitation_can_be_sent_again_for_the_same_place(house: AccountPages, clock: Clock) -> None:
    invite(house, sub_account_id=house.branch)
    first = invitation_id(house)
    clock.advance(minutes=10)
    answer = house.owner.post(f"{PAGE}/invitations/{first}/again")
    assert "The invitation is on its way." in answer.text
    assert invited(house) == [(NEW, "member", house.branch)]
    assert invitation_id(house) != first
    assert letters(house) == 2
    assert house.owner.post(f"{PAGE}/invitations/{first}/again").status_code == 404


def test_a_role_is_changed_and_what_acted_in_the_old_one_ends(house: AccountPages) -> None:
    house.join("second@example.com", house.account.id, role="owner")
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        actor = Actor("second@example.com", person_id=house.person("second@example.com"))
        token = token_service.create_token(
            tx, house.account.id, name="Theirs", mode="test", scopes=None, sub_account_id=None,
            expires_at=None, actor=actor, now=house.parts.clock(),
        )  # fmt: skip
    number, _, _ = place_of(house, "second@example.com")
    path = f"{PAGE}/{number}/change"
    assert 'value="owner" checked' in house.owner.get(path).text
    answer = house.owner.post(path, role="member", sub_account_id=house.branch)
    assert "The role is changed." in answer.text
    assert place_of(house, "second@example.com") == (number, "member", house.branch)
    assert house.ping(token) == 401
    form = house.owner.get(path).text
    assert 'value="member" checked' in form
    assert f'value="{house.branch}" selected' in form
    assert "changed somebody's role: second@example.com (member" in unescape(house.owner.get("/settings/audit").text)


def test_the_last_owner_cannot_step_down_or_leave_and_reads_why(house: AccountPages) -> None:
    house.member  # noqa: B018
    number, _, _ = place_of(house, OWNER)
    before = house.everything()
    changed = house.owner.post(f"{PAGE}/{number}/change", role="member")
    removed = house.owner.post(f"{PAGE}/{number}/remove")
    assert (changed.status_code, removed.status_code) == (422, 400)
    for answer in (changed, removed):
        assert "An account keeps at least one owner: make somebody else an owner first." in answer.text
        assert 'role="alert"' in answer.text
    assert place_of(house, OWNER)[1] == "owner"
    assert house.everything() == before


def test_an_owner_stepping_down_is_led_to_a_page_they_may_see(house: AccountPages) -> None:
    house.join("second@example.com", house.account.id, role="owner")
    number, _, _ = place_of(house, OWNER)
    answer = house.owner.post(f"{PAGE}/{number}/change", role="member", follow=False)
    assert answer.headers["Location"].startswith("/settings?")
    assert house.owner.get(PAGE).status_code == 403


def test_an_owner_can_leave_the_account(house: AccountPages) -> None:
    house.join("second@example.com", house.account.id, role="owner")
    number, _, _ = place_of(house, OWNER)
    assert "Leave Dana Whitfield?" in house.owner.get(f"{PAGE}/{number}/remove").text
    assert house.owner.post(f"{PAGE}/{number}/remove", follow=False).headers["Location"] == "/"
    assert house.owner.get(PAGE, follow=False).headers["Location"].startswith("/sign-in")


def test_removing_asks_first_says_what_ends_and_ends_it(house: AccountPages, clock: Clock) -> None:
    member = house.member
    number, _, _ = place_of(house, MEMBER)
    clock.advance(hours=1)  # takes no password
    path = f"{PAGE}/{number}/remove"
    confirmation = house.owner.get(path).text
    assert f"Remove {MEMBER}?" in confirmation
    assert "The access tokens that they made here are revoked" in confirmation
    assert member.get("/settings/apps", follow=False).status_code == 200
    assert "no longer in this account" in house.owner.post(path).text
    assert member.get("/settings/apps", follow=False).status_code == 303
    assert MEMBER not in house.owner.get(PAGE).text
    assert house.owner.post(path).status_code == 404
    assert f"{OWNER} removed somebody: {MEMBER} (member" in house.owner.get("/settings/audit").text


def test_what_gives_power_takes_a_password_of_late(house: AccountPages, clock: Clock) -> None:
    house.member  # noqa: B018
    invite(house)
    number, _, _ = place_of(house, MEMBER)
    clock.advance(minutes=31)
    before = house.everything()
    again = f"{PAGE}/invitations/{invitation_id(house)}/again"
    calls = [("GET", f"{PAGE}/invite"), ("POST", f"{PAGE}/invite"), ("GET", f"{PAGE}/{number}/change"),
             ("POST", f"{PAGE}/{number}/change"), ("POST", again)]  # fmt: skip
    for method, path in calls:
        answer = (house.owner.get if method == "GET" else house.owner.post)(path, follow=False)
        assert answer.status_code == 303
        assert answer.headers["Location"].startswith("/sign-in/confirm")
    assert house.everything() == before


def test_a_stranger_a_teammate_and_another_accounts_owner_do_nothing_here(house: AccountPages) -> None:
    invite(house)
    house.refuses_others(f"GET {PAGE}", f"GET {PAGE}/invite", f"POST {PAGE}/invite")
    number, _, _ = place_of(house, MEMBER)
    forms = [f"{method} {PAGE}/{number}/{act}" for act in ("change", "remove") for method in ("GET", "POST")]
    house.refuses_others(*forms, another=number)
    waiting = invitation_id(house)
    posts = [f"POST {PAGE}/invitations/{waiting}/{act}" for act in ("again", "take-back")]
    house.refuses_others(*posts, another=waiting)
    assert house.is_as_if_unknown(house.stranger, f"{PAGE}/{number}/change", number)
    assert place_of(house, MEMBER) == (number, "member", None)
    assert invited(house) == [(NEW, "member", None)]


def test_a_name_is_text_and_nothing_else(house: AccountPages) -> None:
    house.join("odd@example.com", house.account.id, role="member", name="<b>Bo</b>")
    page = house.owner.get(PAGE).text
    assert "<b>Bo" not in page
    assert "&lt;b&gt;Bo" in page


@pytest.mark.parametrize("number", ["0", "999999", "x", "9" * 40])
def test_what_is_nobody_is_a_missing_page(house: AccountPages, number: str) -> None:
    for path in (f"{PAGE}/{number}/change", f"{PAGE}/{number}/remove"):
        assert house.owner.get(path).status_code == 404
        assert house.owner.post(path).status_code == 404
    assert house.owner.post(f"{PAGE}/invitations/{number}/take-back").status_code == 404
