"""The HTTP verifier against a gateway: what it is asked, and what becomes of its answers."""

from collections.abc import Iterator

import pytest

from quillpost.core.errors import NotReady
from quillpost.integrations.address_verification.http import HttpVerifier, build_http_verifier
from quillpost.recipients.verification.ports import (
    AddressQuery,
    AddressVerification,
    ChangeOfAddress,
    PersonQuery,
    VerifierDown,
)
from support import fake_server
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


def test_what_cannot_be_understood_is_no_answer(
    house: VerificationServer, verifier: HttpVerifier, subtests: pytest.Subtests
) -> None:
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


def test_a_failed_request_is_reported_and_can_be_repeated(
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
