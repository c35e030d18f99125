"""Gateways to addresses: what a verifier is asked, the port's contract for sources, and what their answers do."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.recipients import lead_purchases
from quillpost.core.errors import NotReady
from quillpost.integrations.address_verification.http import HttpVerifier, build_http_verifier
from quillpost.integrations.leads.http import BASE_RESPONSE_BYTES, MAX_BYTES_PER_RECORD, HttpLeadProvider
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.recipients.leads.ports import LeadProvider, LeadProviderDown, LeadQuery
from quillpost.recipients.leads.service import enqueue_unreported_purchases
from quillpost.recipients.verification.ports import (
    AddressQuery,
    AddressVerification,
    ChangeOfAddress,
    PersonQuery,
    VerifierDown,
)
from quillpost.web.application import create_app
from support import fake_server
from support.factories import Account, Build, make_account, run_due_jobs
from support.fake_server import respond
from support.leads import CENTRE, SECRET, LeadServer, make_address, radius_search, record, store_addresses
from support.test_client import TestClient
from support.verification_server import KEY, VerificationServer, place_of

JANE = AddressQuery("Jane Doe", None, ("12 MAIN ST", None, "AUSTIN", "TX", "78701"))
NOTHING = AddressVerification()


@pytest.fixture
def house() -> Iterator[VerificationServer]:
    with VerificationServer() as house:
        yield house


@pytest.fixture
def verifier(house: VerificationServer) -> HttpVerifier:
    return HttpVerifier(house.url(), key=KEY, can_append=True, seconds=10)


def test_every_question_has_its_answer_by_its_number(house: VerificationServer, verifier: HttpVerifier) -> None:
    results = [
        {"id": 1, "dpv": "N"},
        {"id": 0, "dpv": "Y", "vacant": True, "address": place_of("12 Main St")},
        {"id": 2, "moved": {"date": "2026-05", "address": place_of("9 ELM ST")}},
        {"id": 3, "moved": {"date": "2026-05-31", "address": None}},
        {"id": 4, "moved": {"date": "2026-13", "address": None}},
    ]
    house.answers = [fake_server.respond(200, {"answers": results})]
    first, second, third, fourth, fifth, sixth = verifier.verify([JANE] * 6)
    assert first.corrected == ("12 MAIN ST", None, "DALLAS", "TX", "75201-0001")
    assert (first.dpv, first.is_vacant, second.dpv, second.corrected) == ("Y", True, "N", None)
    assert third.moved is not None
    assert third.moved.new_address == ("9 ELM ST", None, "DALLAS", "TX", "75201-0001")
    assert str(third.moved.moved_on) == "2026-05-01"
    assert fourth.moved is not None
    assert (fourth.moved.new_address, str(fourth.moved.moved_on)) == (None, "2026-05-31")
    assert (fifth, sixth) == (AddressVerification(moved=ChangeOfAddress()), NOTHING)


def test_the_gateway_hears_what_the_documentation_says(house: VerificationServer, verifier: HttpVerifier) -> None:
    house.finds["jane@example.com"] = place_of("9 ELM ST")
    verifier.verify([JANE])
    verifier.verify([JANE])
    people = [PersonQuery(None, None, "joe@example.com"), PersonQuery("Jane Doe", "Doe Homes", "jane@example.com")]
    assert verifier.append(people) == [None, ("9 ELM ST", None, "DALLAS", "TX", "75201-0001")]
    address = {"address": "12 MAIN ST", "address2": None, "city": "AUSTIN", "state": "TX", "zip": "78701"}
    payload = {"id": 0, "name": "Jane Doe", "company": None} | address
    joe = {"id": 0, "name": None, "company": None, "email": "joe@example.com"}
    jane = {"id": 1, "name": "Jane Doe", "company": "Doe Homes", "email": "jane@example.com"}
    assert house.questions == [payload, payload, joe, jane]
    assert [call.path for call in house.calls] == ["/gateway/verify"] * 2 + ["/gateway/append"]
    first, again, other = (call.headers["idempotency-key"] for call in house.calls)
    assert first == again != other


def test_odd_words_are_no_answer(house: VerificationServer, verifier: HttpVerifier, subtests: pytest.Subtests) -> None:
    main = place_of("12 MAIN ST")
    odd: list[object] = [
        *({"id": 7, "dpv": "Y"}, {"id": "0", "dpv": "Y"}, {"id": True, "dpv": "Y"}, "yes", None),
        *({"id": 0, "dpv": "X"}, {"id": 0, "dpv": ["Y"]}, {"id": 0, "address": place_of("12 MAIN ST", code="7870")}),
        *({"id": 0, "address": main | {"state": "ZZ"}}, {"id": 0, "address": main | {"city": " "}}),
        *({"id": 0, "address": place_of("1" * 301)}, {"id": 0, "address": place_of("12 MAIN\u202eST")}),
        *({"id": 0, "moved": {"address": {"address": "somewhere"}}}, {"id": 0, "moved": "yes"}),
    ]
    for answer in odd:
        with subtests.test(str(answer)[:60]):
            house.answers = [fake_server.respond(200, {"answers": [answer]})]
            assert verifier.verify([JANE]) == [NOTHING]


def test_a_failed_request_can_be_repeated(
    house: VerificationServer, verifier: HttpVerifier, subtests: pytest.Subtests
) -> None:
    answers = [
        (401, b"", "does not let us in, it answered with status 401: see QUILLPOST_VERIFIER_KEY."),
        (302, b"", "redirects to another address: give the final one in QUILLPOST_VERIFIER."),
        (429, b"secret words", "127.0.0.1 answered with status 429."),
        (503, b"secret words", "127.0.0.1 answered with status 503."),
        (200, b"<html>", "The verifier's answer is not JSON."),
        (200, b"[]", "has no list named answers."),
        (200, b'{"answers": {}}', "has no list named answers."),
    ]
    for status, body, reason in answers:
        with subtests.test(status=status, body=body):
            house.answers = [fake_server.respond(status, body)]
            with pytest.raises(VerifierDown) as down:
                verifier.verify([JANE])
            assert str(down.value).endswith(reason)
            assert verifier.verify([JANE]) == [AddressVerification(dpv="Y")]
    failures: dict[str, fake_server.Answer] = {
        "did not answer within 0.2 seconds": fake_server.stay_silent,
        "closed the connection": fake_server.reset_connection,
        "answered with more than 4,000,000 bytes": fake_server.stream_forever,
        "broke off in the middle": fake_server.reply_with("HTTP/1.1 200 OK\nContent-Length: 900", b"{"),
    }
    for reason, answer in failures.items():
        with subtests.test(reason), fake_server.ScriptedServer(answer) as server:
            failing = HttpVerifier(server.url(), key=KEY, seconds=0.2 if "0.2" in reason else 10)
            with pytest.raises(VerifierDown, match=reason):
                failing.verify([JANE])


def test_conflicting_settings_are_reported(subtests: pytest.Subtests) -> None:
    cases = [
        ("verify.example.com", KEY, "must be an address such as https://host/path"),
        ("ftp://verify.example.com", KEY, "must be an address such as"),
        ("https://verify.example.com/?a=b", KEY, "must be an address such as"),
        ("https://[", KEY, "is not an address that we can read"),
        ("https://user:pass@verify.example.com", KEY, "must not hold a user or a password"),
        ("https://verify.example.com", None, "QUILLPOST_VERIFIER_KEY must be set too"),
    ]
    for address, key, error in cases:
        with subtests.test(address, key=key), pytest.raises(NotReady, match=error):
            build_http_verifier(address, key=key, can_append=False)


COUNT, BUY = "/mailing-lists-utils/count-radius-search", "/mailing-lists-utils/buy-radius-search"
OTHER = "whsec_" + base64.b64encode(b"of somebody else, also 32 bytes.").decode()
QUERY = LeadQuery(latitude=30.27, longitude=-97.74, count=3, address=CENTRE)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def lead_house() -> Iterator[LeadServer]:
    with LeadServer([record(n) for n in range(1, 8)]) as opened:
        yield opened


def http_leads(lead_house: LeadServer, secret: str = SECRET) -> HttpLeadProvider:
    return HttpLeadProvider(lead_house.url(), secrets=[secret], clock=now, seconds=5)


@pytest.mark.parametrize("kind", ["table", "http"])
def test_every_source_keeps_the_contract(kind: str, container: Container, lead_house: LeadServer) -> None:
    store_addresses(container, [make_address(number) for number in range(100, 107)])
    provider: LeadProvider = (
        TableLeadProvider(container.db, use_samples=True, clock=now) if kind == "table" else http_leads(lead_house)
    )
    few, all_of_them = provider.search(QUERY), provider.search(LeadQuery(30.27, -97.74, 100))
    assert len(few) == 3
    assert len(all_of_them) == 7
    assert [lead.id for lead in few] == [lead.id for lead in all_of_them[:3]]
    assert len({lead.id for lead in all_of_them}) == 7
    assert all(lead.resident.address for lead in all_of_them)
    for _ in range(2):
        provider.confirm_purchase("0e4b5c1e-3c1d-4c8e-9d53-2f8a4c1b7a10", [lead.id for lead in few], now=now())
    assert len(lead_house.purchases) == (0 if kind == "table" else 1)


def test_a_provider_receives_place_and_filters_of_a_search(lead_house: LeadServer) -> None:
    http_leads(lead_house).search(QUERY)
    assert lead_house.searches == [
        {
            "latitude": 30.27, "longitude": -97.74, "count": 3, "record_types": ["all"], "address": CENTRE,
            "include_condos": True, "include_businesses": True, "within_miles": None,
        }
    ]  # fmt: skip


def test_an_invalid_response_is_reported_in_a_sentence(lead_house: LeadServer, subtests: pytest.Subtests) -> None:
    bodies: list[object] = [b"<html>", b"[]", {"records": {}}, {"records": [{"address": "1 Oak St"}]}]
    bodies += [{"records": [{"id": ""}]}, {"records": [{"id": "a"}, {"id": "a"}]}]
    bodies += [b" " * (BASE_RESPONSE_BYTES + 3 * MAX_BYTES_PER_RECORD + 1)]
    for answer in (respond(500), respond(302), *(respond(200, body) for body in bodies)):
        lead_house.answers = [answer]
        with subtests.test(str(answer)[:60]), pytest.raises(LeadProviderDown, match=r"127\.0\.0\.1.*\.$"):
            http_leads(lead_house).search(QUERY)


def test_a_wrong_secret_is_refused_and_settings_are_checked(lead_house: LeadServer) -> None:
    with pytest.raises(LeadProviderDown, match="401"):
        http_leads(lead_house, OTHER).search(QUERY)
    for url in ("ftp://host", "https://", "https://me:secret@host", "https://host/?x=1"):
        with pytest.raises(NotReady, match="QUILLPOST_LEADS"):
            HttpLeadProvider(url, secrets=[SECRET], clock=now)
    with pytest.raises(NotReady, match="QUILLPOST_LEADS_SECRET"):
        HttpLeadProvider("https://host", secrets=[], clock=now)


@pytest.fixture
def seller(build: Build, lead_house: LeadServer) -> Iterator[tuple[Container, Account]]:
    container = build(leads=lead_house.url(), leads_secret=SECRET)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        yield container, make_account(container, http, "live@example.com", mode="live")


def test_a_purchase_is_reported_to_its_provider_once(seller: tuple[Container, Account], lead_house: LeadServer) -> None:
    parts, live = seller
    lead_house.records[1] |= {"address": None}  # nobody can be mailed to there
    lead_house.records[2] |= {"name": "\x00", "country": 7}
    bought = live.post(BUY, radius_search(3))
    assert bought.status_code == 200, bought.json()
    assert lead_house.purchases == {}
    lead_house.answers = [respond(503)]
    with pytest.raises(LeadProviderDown):
        run_due_jobs(parts)
    with parts.db.system_transaction() as tx:  # as where a worker has died over it
        tx.execute(sa.text("delete from procrastinate_jobs"))
    for _ in range(2):
        enqueue_unreported_purchases(parts.db)
        run_due_jobs(parts)
    [ids] = lead_house.purchases.values()
    assert ids == ["r-1", "r-3", "r-4"]
    with parts.db.system_transaction() as tx:
        purchase = tx.execute(sa.select(lead_purchases)).one()
    assert (purchase.lead_ids, str(purchase.reference)) == (None, *lead_house.purchases)
    rows = live.get(f"/mailing-lists/{bought.json()['mailing_list_id']}/recipients").json()["data"]
    assert [row["name"] for row in rows] == ["Person 1", "Current Resident", "Person 4"]


def test_nobody_is_bought_beyond_the_distance_though_a_provider_does_not_know_it(
    seller: tuple[Container, Account], lead_house: LeadServer
) -> None:
    _, live = seller
    near, far = {"latitude": 30.27, "longitude": -97.74}, {"latitude": 30.9, "longitude": -97.74}
    lead_house.records[:] = [record(1, **near), record(2), record(3, **far), record(4, **near)]
    found = live.post(COUNT, radius_search(10, distance_miles=5))
    assert found.json() == {"message": "success", "count": 2, "leads_fee": 10}
    assert live.post(COUNT, radius_search(10)).json()["count"] == 4
    assert [search["within_miles"] for search in lead_house.searches] == [5, None]


def test_a_provider_that_is_down_is_a_503_and_no_row(seller: tuple[Container, Account], lead_house: LeadServer) -> None:
    parts, live = seller
    lead_house.answers = [respond(500, {"secret": "of theirs"})]
    answer = live.post(BUY, radius_search(3))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "secret" not in answer.text
    with parts.db.system_transaction() as tx:
        assert tx.execute(sa.select(lead_purchases)).all() == []
