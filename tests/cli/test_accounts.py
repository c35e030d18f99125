"""`quillpost account`, `audit`, `people`, `token`, `erase` and `retention`, for whoever has the machine in hand."""

import csv
import json
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor, AuditEntry, list_audit_entries
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens import service as token_service
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_grants, people, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.database.tables.notifications import notices
from support.cli_results import CommandResult, Quillpost
from support.factories import Account, make_sub_account
from support.rows import execute, run, scalar, scalars
from support.sign_in import make_user, sign_in_browser, turn_on_second_factor
from support.tenant_rows import insert_least, metadata

OWNER, DANA, NOBODY = "owner@example.com", "dana@example.com", "who@example.com"
PASSWORD = "a card for every neighbor"
OF_OWNER = ("--account", OWNER)
CREATE = ("token", "create", *OF_OWNER, "--mode")

REFUSED: tuple[tuple[tuple[object, ...], str], ...] = (
    *((("account", "credit", "--email", OWNER, "--amount", amount), "dollars and cents")
      for amount in ("0", "0.00", "1.5", "1,000", "1e3", "ten", "1.234", "9" * 10, "٣")),
    (("account", "credit", "--email", OWNER, "--amount", "1.00", "--withdraw"), ""),
    (("account", "credit", "--email", NOBODY, "--amount", "1.00"), ""),
    (("audit", "--account", NOBODY), ""),
    (("erase", *OF_OWNER), ""),
    (("erase", "--address", "12 Main St, Austin, TX 78701", "--account", NOBODY), ""),
    (("people", "invite", "--account", NOBODY, "--email", DANA, "--role", "member"), ""),
    (("people", "list", "--account", NOBODY), ""),
    (("people", "reset", NOBODY), ""),
    (("people", "second-factor-off", NOBODY), ""),
    (("people", "second-factor-off", DANA), f"{DANA} has no second factor."),
    (("people", "remove", *OF_OWNER, "--email", NOBODY), ""),
    (("people", "remove", *OF_OWNER, "--email", DANA), "keeps at least one owner"),
    (("people", "invite", *OF_OWNER, "--email", "nobody", "--role", "member"), "This is not an e-mail address."),
    (("people", "invite", *OF_OWNER, "--email", "lee@example.com", "--role", "operator"),
     "This account does not run the service"),
    (("people", "invite", *OF_OWNER, "--email", "lee@example.com", "--role", "owner", "--sub-account", 1),
     "Only a member can be limited to one sub account."),
    (("people", "invite", *OF_OWNER, "--email", "lee@example.com", "--role", "member", "--sub-account", 4711),
     "There is no such sub account."),
    ((*CREATE, "test", "--scopes", "mail:read"), "Unknown scope mail:read"),
    ((*CREATE, "test", "--sub-account", 2**40), "There is no such sub account"),
    ((*CREATE, "test", "--name", ""), "name"),
    (("token", "revoke"), "Say which token"),
    (("token", "revoke", "5"), "Say which token"),
    (("token", "revoke", *OF_OWNER), "Say which token"),
    (("token", "revoke", "5", "--leaked"), "give neither an id nor an account"),
    (("token", "revoke", "--leaked", *OF_OWNER), "give neither an id nor an account"),
    (("token", "revoke", "5", "--account", "who@example.com"), "There is no account with the e-mail"),
)  # fmt: skip


def test_refusals_are_one_sentence_and_change_nothing(
    beside: Quillpost, owner: Account, stranger: Account, container: Container, subtests: pytest.Subtests
) -> None:
    make_user(container, owner.id, DANA)
    for words, error in REFUSED:
        with subtests.test(" ".join(map(str, words))):
            assert beside(*words).is_one_sentence(error)
    theirs = beside(*CREATE, "test", "--sub-account", make_sub_account(container, stranger))
    assert theirs.is_one_sentence("There is no such sub account")
    token_id = scalar(container, sa.select(tokens.c.id).where(tokens.c.account_id == stranger.id))
    assert beside("token", "revoke", token_id, *OF_OWNER).is_one_sentence()
    none = beside("token", "revoke", "--leaked", stdin=b"qp_live_nothing of ours")
    assert none.is_one_sentence("There is no token on the standard input")
    assert (ping(stranger, stranger.token), audit_lines(container, owner)) == (200, [])


def audit_lines(container: Container, account: Account) -> list[str]:
    return [describe_entry(entry) for entry in run(container, list_audit_entries, account.id)]


@pytest.mark.usefixtures("owner")
def test_credit_is_paid_in_and_out_and_with_a_key_once(beside: Quillpost) -> None:
    def pay(*words: object) -> CommandResult:
        return beside("account", "credit", "--email", OWNER, "--amount", *words)

    results = [pay("100.00"), pay("0.50", "--note", "a coin"), pay("1234"), pay("34.50", "--withdraw")]
    assert [one.out for one in results] == ["$100.00\n", "$100.50\n", "$1,334.50\n", "$1,300.00\n"]
    assert {one.code for one in results} == {0}
    assert [pay("5.00", "--key", "invoice 7").out for _ in range(2)] == ["$1,305.00\n"] * 2
    assert pay("6.00", "--key", "invoice 7").is_one_sentence("invoice 7 was used for a deposit of $5.00")


def note(container: Container, account: Account, act: str, email: str = DANA, **about: object) -> None:
    actor = Actor(email, address="203.0.113.7")
    run(container, audit_service.record_audit_entry, account.id, act, actor, about=about, now=container.clock())


def test_a_log_is_shown_in_pages(beside: Quillpost, owner: Account, stranger: Account, container: Container) -> None:
    note(container, stranger, "sign_in")
    assert beside("audit", *OF_OWNER).out == "There is nothing in it.\n"
    for _ in range(4):
        note(container, owner, "sign_in")
    note(container, owner, "token.created", name="[bold]Zapier[/]", mode="live", id=7)
    page = beside("audit", *OF_OWNER, "--most", 3)
    second, first, oldest = page.out.splitlines()
    assert first.endswith("2026-05-04T12:00:00Z  dana@example.com signed in, from 203.0.113.7")
    assert "dana@example.com made a token: [bold]Zapier[/] (live), from 203.0.113.7" in second
    number = oldest.split()[0]
    assert (page.code, page.err) == (0, f"Older lines: --before {number}\n")
    rest = beside("audit", *OF_OWNER, "--before", number)
    assert (len(rest.out.splitlines()), rest.err) == (2, "")


def test_a_spreadsheet_sees_no_formula(beside: Quillpost, owner: Account, container: Container) -> None:
    note(container, owner, "client.created", "+1@example.com", name='=cmd|" /C calc"!A1, "x"')
    [header, row] = csv.reader(beside("audit", *OF_OWNER, "--csv").out.splitlines())
    assert header == ["id", "at", "actor", "act", "about", "sub_account_id", "network"]
    shown = ["2026-05-04T12:00:00Z", "'+1@example.com", "client.created", '\'=cmd|" /C calc"!A1, "x"', ""]
    assert row[1:] == [*shown, "203.0.113.7"]


@pytest.mark.usefixtures("container")
def test_opening_an_account_and_moving_its_credit_are_noted(beside: Quillpost) -> None:
    opened = beside("account", "create", "--email", "new@example.com", "--name", "New", "--operator")
    assert (opened.code, opened.out.strip().isdigit()) == (0, True)
    pay = ("account", "credit", "--email", "new@example.com", "--amount")
    for words in (("100.00", "--note", "invoice 7", "--key", "7"),) * 2 + (("30.00", "--withdraw"),):
        assert beside(*pay, *words).code == 0
    assert beside(*pay, "99.00", "--withdraw").is_one_sentence()
    lines = beside("audit", "--account", "new@example.com").out.splitlines()
    assert [line.partition("Z  ")[2] for line in lines] == [
        "the command line moved credit: -$30.00",
        "the command line moved credit: $100.00 (note: invoice 7)",
        "the command line opened the account: New, new@example.com (operator: yes)",
    ]


TARGETS: tuple[tuple[dict[str, object], str], ...] = (
    ({}, "made a token"), ({"id": 3}, "made a token"),
    ({"name": "Zapier", "mode": "live"}, "made a token: Zapier (live)"),
    ({"name": "Zapier", "sub_account": "North"}, "made a token: Zapier (North)"),
    ({"email": "dana@example.com", "role": "owner"}, "made a token (owner)"),
    ({"how_many": 3}, "made a token (how many: 3)"),
    ({"scopes": ["a", "b"], "note": None}, "made a token (scopes: a, b)"),
)  # fmt: skip


def test_the_target_is_described_in_plain_words(container: Container) -> None:
    entries = [AuditEntry(1, "token.created", DANA, about, None, None, container.clock()) for about, _ in TARGETS]
    assert list(map(describe_entry, entries)) == [f"{DANA} {words}" for _, words in TARGETS]


@pytest.mark.usefixtures("owner")
def test_an_operator_erases_a_person_and_sees_what_is_kept(beside: Quillpost) -> None:
    whom = (*OF_OWNER, "--address", "12 Main St, Austin, TX 78701")
    declined = beside("erase", *whom, stdin=b"n\n")
    assert (declined.code, "On lists: 0. Pieces: 0." in declined.out, "Erased." in declined.out) == (1, True, False)
    done = beside("erase", *whom, "--yes")
    assert (done.code, "Erased. Files are removed" in done.out) == (0, True)
    shown = beside("retention", columns=80, keep_people_days=400)
    rows = {line.split()[-1]: line for line in shown.out.splitlines()}
    assert "400" in rows["QUILLPOST_KEEP_PEOPLE_DAYS"]
    assert "QUILLPOST_KEEP_FACTS_DAYS" in rows
    assert max(map(len, shown.out.splitlines())) <= 80


Invite = Callable[..., CommandResult]


@pytest.fixture
def invite(beside: Quillpost, owner: Account) -> Invite:
    def run(email: str = DANA, role: str = "owner", *more: object) -> CommandResult:
        return beside("people", "invite", *OF_OWNER, "--email", email, "--role", role, *more)

    return run


def listed(beside: Quillpost) -> dict[str, list[dict[str, object]]]:
    shown: dict[str, list[dict[str, object]]] = json.loads(beside("people", "list", *OF_OWNER, "--json").out)
    return shown


def mailed(container: Container) -> list[str]:
    return scalars(container, sa.select(notices.c.address).order_by(notices.c.id))


def path_of(link: str) -> str:
    assert link.startswith("http://quillpost.test/")
    return link.strip().removeprefix("http://quillpost.test")


@pytest.mark.usefixtures("clean_database")
def test_an_invitation_goes_out_once(beside: Quillpost, invite: Invite, owner: Account, container: Container) -> None:
    assert beside("people", "list", *OF_OWNER).out.startswith("Nobody is in it")
    invited = invite(DANA, "owner", "--no-mail")
    assert (invited.code, invited.err, invited.out.count("\n")) == (0, "", 1)
    browser = sign_in_browser(owner.http)
    assert browser.post(path_of(invited.out), name="Dana", password=PASSWORD, again=PASSWORD).status_code == 200
    [member] = listed(beside)["members"]
    assert (member["email"], member["role"], member["name"]) == (DANA, "owner", "Dana")
    assert f"the command line invited somebody: {DANA} (owner)" in audit_lines(container, owner)
    assert mailed(container) == []
    branch = make_sub_account(container, owner)
    link = invite("lee@example.com", "member", "--sub-account", branch).out
    assert mailed(container) == ["lee@example.com"]
    [waiting] = listed(beside)["invited"]
    shown = beside("people", "list", *OF_OWNER).out
    assert (waiting["email"], waiting["role"], waiting["sub_account_id"]) == ("lee@example.com", "member", branch)
    for word in ("lee@example.com", str(waiting["sub_account_title"]), f"({branch})", "invited until"):
        assert word in shown
    taken_back = beside("people", "remove", *OF_OWNER, "--email", "lee@example.com")
    assert taken_back.out == "lee@example.com is no longer invited.\n"
    assert sign_in_browser(owner.http).get(path_of(link)).status_code == 404
    assert listed(beside)["invited"] == []


def test_people_fit_on_eighty_letters(beside: Quillpost, invite: Invite, owner: Account, container: Container) -> None:
    long = "dana.whitfield@north.example.com"
    make_user(container, owner.id, long, name="Dana [bold] Whitfield")
    branch = make_sub_account(container, owner, "North Shop")
    invite("kim.invited@north.example.com", "member", "--sub-account", branch)
    lines = beside("people", "list", *OF_OWNER, columns=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    [dana] = [line for line in lines if long in line]
    assert all(word in dana for word in ("owner", "off", "not lately"))
    assert "[bold]" in " ".join(lines)
    at = next(n for n, line in enumerate(lines) if "kim.invited@north.example.com" in line)
    words = " ".join(lines[at:]).split()
    assert {"invited", "until", "member", "North", "Shop", f"({branch})"} <= set(words)
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d", word) for word in words)


@pytest.mark.usefixtures("clean_database")
def test_somebody_gets_another_password_and_is_removed(beside: Quillpost, owner: Account, container: Container) -> None:
    make_user(container, owner.id, "first@example.com")
    person = make_user(container, owner.id, DANA, role="member")
    link = beside("people", "reset", DANA.upper())
    assert (link.code, link.err, link.out.count("\n")) == (0, "", 1)
    browser = sign_in_browser(owner.http)
    browser.post(path_of(link.out), password=PASSWORD, again=PASSWORD)
    browser.sign_in(DANA, PASSWORD)
    assert browser.get("/settings", follow=False).status_code == 200
    assert any(line.startswith("the command line asked for another password") for line in audit_lines(container, owner))

    turn_on_second_factor(container, DANA)
    before = mailed(container)
    assert beside("people", "second-factor-off", DANA).out == f"{DANA} signs in with the password alone now.\n"
    with container.db.system_transaction() as tx:
        factor = sa.select(people.c.totp_sealed, people.c.totp_since).where(people.c.id == person)
        assert tuple(tx.execute(factor).one()) == (None, None)
        assert mailed(container)[len(before) :] == [DANA]
        now = container.clock()
        _, token = insert_token(tx, owner.id, name="hers", mode="test", scopes=None, person_id=person, now=now)

    assert beside("people", "remove", *OF_OWNER, "--email", DANA).out == f"{DANA} is no longer in the account.\n"
    assert execute(container, sa.select(sessions.c.id).where(sessions.c.person_id == person)) == []
    ping = owner.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"})
    assert (ping.status_code, owner.get("/ping").status_code) == (401, 200)


def acts(container: Container, account_id: int) -> list[tuple[str, str]]:
    return [(entry.act, entry.actor) for entry in run(container, list_audit_entries, account_id)]


def ping(owner: Account, token: str) -> int:
    return owner.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_token_is_printed_works_and_may_be_limited(beside: Quillpost, owner: Account, container: Container) -> None:
    made = beside(*CREATE, "live", "--name", "Zapier")
    assert (made.code, made.err, made.out.count("\n")) == (0, "", 1)
    assert token_format.is_of_kind(made.out.strip(), "live")
    assert ping(owner, made.out.strip()) == 200
    assert acts(container, owner.id) == [("token.created", "the command line")]
    branch = make_sub_account(container, owner)
    limits = ("--scopes", "orders:read, lists:write", "--sub-account", branch, "--expires-days", 30)
    limited = beside(*CREATE, "test", *limits).out.strip()
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(tokens).where(tokens.c.digest == token_format.hash_token(limited))).one()
    assert (row.sub_account_id, row.scopes) == (branch, ["orders:read", "lists:write"])
    assert row.expires_at - row.created_at == timedelta(days=30)


@pytest.mark.usefixtures("owner")
def test_the_list_tells_tokens_apart_and_shows_none(beside: Quillpost) -> None:
    made = beside(*CREATE, "live", "--scopes", "send:write", "--name", "[red]Zapier").out.strip()
    shown = beside("token", "list", *OF_OWNER)
    assert made not in shown.out
    line = next(line for line in shown.out.splitlines() if "[red]Zapier" in line)
    assert f"qp_live_…{made[-4:]}" in line
    assert "send:write" in line
    [newest, first] = json.loads(beside("token", "list", *OF_OWNER, "--json").out)
    assert (newest["mode"], newest["scopes"], first["name"]) == ("live", ["send:write"], "test")
    assert made not in json.dumps([newest, first])


def test_tokens_fit_on_eighty_letters(beside: Quillpost, owner: Account, container: Container) -> None:
    email, now = "dana.whitfield@north.example.com", container.clock()
    maker, ends = Actor(email, person_id=make_user(container, owner.id, email)), now + timedelta(days=365)
    with container.db.transaction(Tenant(owner.id)) as tx:
        token_service.create_token(
            tx, owner.id, name="Newsletter robot", mode="live", scopes=None, sub_account_id=None, expires_at=ends,
            actor=maker, now=now,
        )  # fmt: skip
    lines = beside("token", "list", *OF_OWNER, columns=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if "Newsletter robot" in line)
    for words in ("Newsletter robot", "qp_live_…", "everything", "never"):
        assert words in lines[at]
    assert f"by {email}" in lines[at + 1]
    assert f"{ends:%Y-%m-%d}" in lines[at + 1]


def test_a_revoked_token_is_unknown_from_then_on(beside: Quillpost, owner: Account, container: Container) -> None:
    [mine] = json.loads(beside("token", "list", *OF_OWNER, "--json").out)
    assert ping(owner, owner.token) == 200
    assert beside("token", "revoke", mine["id"], *OF_OWNER).out == f"Token {mine['id']} is revoked.\n"
    assert ping(owner, owner.token) == 401
    assert beside("token", "list", *OF_OWNER).out == "No token is in force.\n"
    assert acts(container, owner.id) == [("token.revoked", "the command line")]
    again = beside("token", "revoke", mine["id"], *OF_OWNER)
    assert again.is_one_sentence(f"owner@example.com has no token {mine['id']} that is in force.")


def test_leaked_tokens_are_revoked(beside: Quillpost, owner: Account, stranger: Account, container: Container) -> None:
    log = f'GET /?key={owner.token}&x=1 200\n{owner.token}\n{{"token":"{stranger.token}"}}\n'
    outcome = beside("token", "revoke", "--leaked", stdin=log.encode())
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "2 tokens found. What was in force is revoked, and the owners are told.\n"
    assert [ping(each, each.token) for each in (owner, stranger)] == [401, 401]
    assert acts(container, owner.id) == [("token.leaked", "the command line")]
    again = beside("token", "revoke", "--leaked", stdin=owner.token.encode())
    assert again.out == "1 token found. None was in force.\n"

    refresh, whose = token_format.mint_secret("refresh", bytes(range(24))), {"account_id": owner.id, "mode": "test"}
    with container.db.system_transaction() as tx:
        person = insert_least(tx, metadata.tables["people"], {})
        app = {"client_id": insert_least(tx, metadata.tables["oauth_clients"], whose), "person_id": person}
        grant = insert_least(tx, oauth_grants, whose | app)
        later = {"digest": token_format.hash_token(refresh), "expires_at": container.clock() + timedelta(days=365)}
        insert_least(tx, metadata.tables["refresh_tokens"], {"grant_id": grant, **later})
    outcome = beside("token", "revoke", "--leaked", stdin=refresh.encode())
    assert "1 token found. What was in force is revoked" in outcome.out
    assert scalar(container, sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant)) == "leak"
