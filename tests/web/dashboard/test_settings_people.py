"""People on the settings' pages: invited, joined, changed and removed; an account keeps an owner."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR, Actor
from quillpost.accounts.models import Role
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users import invitations as invitation_service
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import invitations, memberships, people
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.notifications import notices
from quillpost.core.tokens import mint_secret
from support import pages
from support.factories import Account, Clock, make_sub_account
from support.pages import MEMBER, OWNER, AccountPages, WrongForm, assert_hides, assert_shows, form_errors
from support.sign_in import PASSWORD, make_user, send_emails, sign_in_browser
from support.test_client import TestClient

PAGE = "/settings/people"
NEW, SECOND, MEL = "kim@example.com", "second@example.com", "mel@example.com"
GOOD: dict[str, Any] = {"email": NEW, "role": "member"}
NEW_PASSWORD = "a brand new set of words"
JOIN = re.compile(r"https?://[^/]+(/join/qp_invitation_\w+)")
KEEPS_AN_OWNER = "An account keeps at least one owner: make somebody else an owner first."


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    send_emails(http, container)
    return AccountPages(container, http)


def invited(house: AccountPages) -> list[tuple[str, str, int | None]]:
    c = invitations.c
    query = sa.select(c.email, c.role, c.sub_account_id).where(c.revoked_at.is_(None), c.account_id == house.account.id)
    return [(row.email, row.role, row.sub_account_id) for row in house.rows(query.order_by(c.id))]


def invitation_id(house: AccountPages) -> int:
    own = invitations.c.account_id == house.account.id
    return int(house.value(sa.select(sa.func.max(invitations.c.id)).where(own)))


def letters(house: AccountPages) -> list[tuple[str, str]]:
    """To whom, and their words."""
    own = sa.select(notices).where(notices.c.account_id == house.account.id).order_by(notices.c.id)
    return [(row.address, f"{row.subject}: {row.words}") for row in house.rows(own)]


def place_of(house: AccountPages, email: str) -> tuple[int, str, int | None]:
    """The membership's number, the role and the sub account."""
    c = memberships.c
    found = sa.select(c.id, c.role, c.sub_account_id).join(people, people.c.id == c.person_id)
    [row] = house.rows(found.where(people.c.email == email, c.account_id == house.account.id))
    return row.id, row.role, row.sub_account_id


def test_everyone_of_the_account_is_listed_and_nobody_else(house: AccountPages, clock: Clock) -> None:
    house.member, house.limited, house.stranger  # noqa: B018 (are there by now)
    house.join("odd@example.com", house.account.id, role="member", name="<b>Bo</b>")
    house.execute(sa.update(people).where(people.c.email == MEMBER).values(totp_since=clock.now()))
    clock.advance(hours=2)
    page = house.owner.get(PAGE)
    assert_shows(
        page, OWNER, MEMBER, pages.LIMITED, "of Dallas alone", "2 hours ago", ">on<", ">off<", "(you)", "&lt;b&gt;Bo"
    )
    assert_hides(page, pages.STRANGER, "<b>Bo")


def test_an_invitation_waits_and_is_sent_again_or_taken_back(house: AccountPages, clock: Clock) -> None:
    answer = house.owner.post(f"{PAGE}/invite", **GOOD | {"email": " Kim@Example.com "}, sub_account_id=house.branch)
    assert_shows(answer, "The invitation is on its way.", NEW, "of Dallas alone", "11 May 2026", hides=["/join/"])
    assert (invited(house), len(letters(house))) == ([(NEW, "member", house.branch)], 1)
    assert_shows(house.owner.get("/settings/audit"), f"{OWNER} invited somebody: {NEW} (member")
    first = invitation_id(house)
    clock.advance(minutes=10)
    assert_shows(house.owner.post(f"{PAGE}/invitations/{first}/again"), "The invitation is on its way.")
    assert (invited(house), len(letters(house))) == ([(NEW, "member", house.branch)], 2)
    assert invitation_id(house) != first
    assert house.owner.post(f"{PAGE}/invitations/{first}/again").status_code == 404
    clock.advance(hours=1)  # takes no password
    path = f"{PAGE}/invitations/{invitation_id(house)}/take-back"
    assert_shows(house.owner.post(path), "The invitation is taken back.")
    assert (invited(house), house.owner.post(path).status_code) == ([], 404)
    assert_shows(house.owner.get("/settings/audit"), f"{OWNER} took an invitation back: {NEW}")


WRONG: list[WrongForm] = [
    ({"email": ""}, "email", "e-mail"),
    ({"email": "nobody"}, "email", "e-mail"),
    ({"email": "x" * 321}, "email", "At most 320 characters, please."),
    ({"email": OWNER}, "email", f"{OWNER} is in this account already."),
    ({"role": "king"}, "role", "Choose one of the roles."),
    ({"role": None}, "role", "Choose one of the roles."),
    ({"role": "operator"}, "role", "Choose one of the roles."),
    ({"sub_account_id": "999999"}, "sub_account_id", "There is no such sub account."),
    ({"sub_account_id": "Dallas"}, "sub_account_id", "Choose one that is on the list."),
]


def test_an_invalid_invitation_is_shown_again(house: AccountPages, subtests: pytest.Subtests) -> None:
    theirs = make_sub_account(house.parts, house.others, "Theirs")
    house.refuses_forms(subtests, f"{PAGE}/invite", GOOD, WRONG)
    assert_shows(house.owner.post(f"{PAGE}/invite", **GOOD | {"role": None}), f'value="{NEW}"')
    with house.unchanged():
        for where in ({"role": "owner", "sub_account_id": house.branch}, {"sub_account_id": theirs}):
            assert house.owner.post(f"{PAGE}/invite", **{**GOOD, **where}).status_code == 422
    assert_shows(house.owner.get(f"{PAGE}/invite"), 'value="member"', hides=['value="operator"'])
    house.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(is_operator=True))
    assert_shows(house.owner.get(f"{PAGE}/invite"), 'value="operator"')
    assert house.owner.post(f"{PAGE}/invite", email=NEW, role="operator").status_code == 200
    assert invited(house) == [(NEW, "operator", None)]


def test_a_role_is_changed_and_what_acted_in_the_old_one_ends(house: AccountPages) -> None:
    house.join(SECOND, house.account.id, role="owner")
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        actor = Actor(SECOND, person_id=house.person(SECOND))
        token = token_service.create_token(
            tx, house.account.id, name="Theirs", mode="test", scopes=None, sub_account_id=None,
            expires_at=None, actor=actor, now=house.parts.clock(),
        )  # fmt: skip
    number, _, _ = place_of(house, SECOND)
    path = f"{PAGE}/{number}/change"
    assert_shows(house.owner.get(path), 'value="owner" checked')
    assert_shows(house.owner.post(path, role="member", sub_account_id=house.branch), "The role is changed.")
    assert place_of(house, SECOND) == (number, "member", house.branch)
    assert house.ping(token) == 401
    assert_shows(house.owner.get(path), 'value="member" checked', f'value="{house.branch}" selected')
    assert_shows(unescape(house.owner.get("/settings/audit").text), f"changed somebody's role: {SECOND} (member")


def test_the_last_owner_stays_and_one_of_two_may_step_down_or_leave(house: AccountPages) -> None:
    house.member  # noqa: B018
    number, _, _ = place_of(house, OWNER)
    with house.unchanged():
        for act, status in (("change", 422), ("remove", 400)):
            refused = house.owner.post(f"{PAGE}/{number}/{act}", role="member")
            assert refused.status_code == status
            assert_shows(refused, KEEPS_AN_OWNER, 'role="alert"')
    assert place_of(house, OWNER)[1] == "owner"
    house.join(SECOND, house.account.id, role="owner")
    answer = house.owner.post(f"{PAGE}/{number}/change", role="member", follow=False)
    assert answer.headers["Location"].startswith("/settings?")  # which they may see
    assert house.owner.get(PAGE).status_code == 403
    house.execute(sa.update(memberships).where(memberships.c.id == number).values(role="owner"))
    assert_shows(house.owner.get(f"{PAGE}/{number}/remove"), "Leave Dana Whitfield?")
    assert house.owner.post(f"{PAGE}/{number}/remove", follow=False).headers["Location"] == "/"
    assert letters(house) == []
    assert house.owner.get(PAGE, follow=False).headers["Location"].startswith("/sign-in")


def test_removing_asks_first_says_what_ends_and_ends_it(house: AccountPages, clock: Clock) -> None:
    member = house.member
    number, _, _ = place_of(house, MEMBER)
    clock.advance(hours=1)  # takes no password
    path = f"{PAGE}/{number}/remove"
    assert_shows(house.owner.get(path), f"Remove {MEMBER}?", "The access tokens that they made here are revoked")
    assert member.get("/settings/apps", follow=False).status_code == 200
    assert_shows(house.owner.post(path), "no longer in this account")
    assert member.get("/settings/apps", follow=False).status_code == 303
    [(address, words)] = letters(house)  # who is forgotten, and told all the same
    assert address == MEMBER
    assert_shows(words, "You are no longer in Dana Whitfield: ", "you were removed from the account Dana Whitfield")
    assert house.rows(sa.select(people.c.id).where(people.c.email == MEMBER)) == []
    assert_hides(house.owner.get(PAGE), MEMBER)
    assert house.owner.post(path).status_code == 404
    assert_shows(house.owner.get("/settings/audit"), f"{OWNER} removed somebody: {MEMBER} (member")


def test_without_a_mail_server_links_are_handed_over(container: Container, http: TestClient) -> None:
    house = AccountPages(container, http)
    assert_shows(house.owner.get(f"{PAGE}/invite"), "This service sends no mail: you hand the link over yourself.")
    shown = house.owner.post(f"{PAGE}/invite", **GOOD, sub_account_id=house.branch)
    assert_hides(shown, "on its way")
    assert "qp_invitation_" not in str(shown.url)
    again = house.owner.post(f"{PAGE}/invitations/{invitation_id(house)}/again")
    [first], [second] = (re.findall(JOIN, page.text) for page in (shown, again))
    assert first != second
    [_, (_, words)] = letters(house)
    assert "invites you to the account Dana Whitfield at Quillpost, for its sub account Dallas." in words
    guest = house.nobody()
    assert_shows(guest.get(second), "<strong>Dallas</strong> alone")
    joined = guest.post(second, name="Kim", password=PASSWORD, again=PASSWORD)
    assert_shows(joined, "Welcome. You have joined Dana Whitfield, for Dallas.")
    known, unknown = (house.nobody().post("/forgot", email=email).text for email in (OWNER, "no@example.com"))
    assert known == unknown
    assert_shows(known, "This service sends no mail. Ask whoever runs it for a link.", hides=["Look into your mailbox"])
    assert_shows(house.nobody().get("/forgot"), "This service sends no mail")


def create_link(
    container: Container, owner: Account, email: str = MEL, *, role: Role = "member", sub_account_id: int | None = None
) -> str:
    """The path of an invitation's page."""
    with container.db.system_transaction() as tx:
        link = invitation_service.invite(
            tx, container.encryptor, owner.id, email=email, role=role, sub_account_id=sub_account_id,
            actor=COMMAND_LINE_ACTOR, base_url=container.base_url, now=container.clock(), send_email=False,
        )  # fmt: skip
    return link.removeprefix(container.base_url)


def test_somebody_new_joins_with_a_name_and_a_password(container: Container, owner: Account, http: TestClient) -> None:
    guest, path = sign_in_browser(http), create_link(container, owner)
    assert_shows(guest.get(path), MEL, "a member, who sends mail", status=200)
    for name, password, again, field in (
        ("Mel Ortiz", "short", "short", "password"),
        ("Mel Ortiz", NEW_PASSWORD, "another", "again"),
        ("", NEW_PASSWORD, NEW_PASSWORD, "name"),
        ("a" * 301, NEW_PASSWORD, NEW_PASSWORD, "name"),
    ):
        refused = guest.post(path, name=name, password=password, again=again)
        assert (refused.status_code, field in form_errors(refused)) == (422, True), field
        assert_shows(refused, f'value="{name[:300]}"', hides=[NEW_PASSWORD])
    joined = guest.post(path, name="Mel Ortiz", password=NEW_PASSWORD, again=NEW_PASSWORD)
    assert (joined.status_code, joined.url.path) == (200, "/")
    assert_shows(joined, "Welcome. You have joined Dana Whitfield.", "Mel Ortiz")
    guest.post("/sign-out")
    assert guest.sign_in(MEL, NEW_PASSWORD).url.path == "/"
    assert guest.get(path).status_code == 404


def test_somebody_known_may_accept(container: Container, owner: Account, stranger: Account, http: TestClient) -> None:
    make_user(container, stranger.id, MEL, name="Mel Ortiz")
    guest = sign_in_browser(http)
    path = create_link(container, owner, "Mel@example.com", sub_account_id=make_sub_account(container, owner, "Branch"))
    assert_shows(guest.get(path), "There is somebody with this e-mail here already.", hides=['name="password"'])
    guess: dict[str, Any] = {"name": "Eve", "password": NEW_PASSWORD, "again": NEW_PASSWORD}
    assert guest.post(path, **guess).text.count("somebody with this e-mail") == 1
    assert guest.sign_in(MEL, NEW_PASSWORD).status_code == 422
    assert guest.post("/sign-in", email=MEL, password=PASSWORD, next=path).url.path == path
    assert_shows(guest.post(path), "You have joined Dana Whitfield, for Branch.", "Other accounts")


def test_nobody_else_may_join(container: Container, owner: Account, stranger: Account, http: TestClient) -> None:
    make_user(container, stranger.id, "eve@example.com", name="Eve")
    eve, path = sign_in_browser(http), create_link(container, owner)
    eve.sign_in("eve@example.com")
    guess: dict[str, Any] = {"name": "Eve", "password": NEW_PASSWORD, "again": NEW_PASSWORD}
    for shown in (eve.get(path), eve.post(path), eve.post(path, **guess)):
        assert_shows(shown, "this invitation is for somebody else")
    assert_hides(eve.get("/"), "Other accounts")
    out = eve.post("/sign-out", next=path)
    assert out.url.path == path
    assert_shows(out, 'name="password"')


def test_links_that_are_over_look_alike(container: Container, owner: Account, http: TestClient, clock: Clock) -> None:
    guest, first = sign_in_browser(http), create_link(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(name="<script>alert(1)</script>"))
    second = create_link(container, owner)
    assert_shows(guest.get(second), "&lt;script&gt;alert(1)", hides=["<script>alert"], status=200)
    responses = [guest.get(each) for each in (first, "/join/" + mint_secret("invitation", bytes(32)), "/join/nonsense")]
    clock.advance(days=7, seconds=1)
    responses += [guest.get(second), guest.post(second, name="Mel", password=NEW_PASSWORD, again=NEW_PASSWORD)]
    assert {each.status_code for each in responses} == {404}
    assert len({each.text for each in responses}) == 1
    assert_shows(responses[0], "This link is over.")
