"""Who issues gift cards: the port's contract for all of them, and what each makes of odd answers."""

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.cli.doctor.installation import check_giftcard_issuer
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.core.settings import Settings
from quillpost.integrations.giftcards.http import MAX_ATTEMPTS, MAX_RESPONSE_BYTES
from quillpost.integrations.giftcards.stock import SandboxCards, StockCards
from quillpost.integrations.giftcards.tango import TangoCards, read_credentials
from quillpost.integrations.giftcards.tremendous import TremendousCards
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret, GiftcardIssuer, IssuerDown
from support.factories import Clock
from support.fake_server import FakeResponse, respond
from support.giftcard_orders import BRAND, VALUE, add_stock, card, is_issued
from support.giftcard_servers import (
    ACCOUNT,
    CUSTOMER,
    FUNDING_SOURCE,
    TANGO_KEY,
    TREMENDOUS_KEY,
    GiftcardServer,
    TangoServer,
    TremendousServer,
)

KINDS = ("sandbox", "stock", "tremendous", "tango")
HOUSES = ("tremendous", "tango")
IN_STOCK = 8
NOW = Clock().now()
EVERY_HOUSE = pytest.mark.parametrize("kind", HOUSES)


@pytest.fixture
def house(kind: str) -> Iterator[GiftcardServer]:
    with TangoServer() if kind == "tango" else TremendousServer() as opened:
        yield opened


@pytest.fixture
def rests() -> list[float]:
    return []


@pytest.fixture
def issuer(kind: str, request: pytest.FixtureRequest) -> GiftcardIssuer:
    if kind in HOUSES:
        house, rests = request.getfixturevalue("house"), request.getfixturevalue("rests")
        return at_house(kind, house, rests=rests)
    request.getfixturevalue("clean_database")  # the stock is everybody's
    parts, clock = request.getfixturevalue("container"), request.getfixturevalue("clock")
    if kind == "sandbox":
        return SandboxCards(parts.db, parts.encryptor, clock=clock.now)
    add_stock(parts, request.getfixturevalue("tmp_path"), clock, [f"CODE-{n}" for n in range(IN_STOCK)])
    return StockCards(parts.db, parts.encryptor, clock=clock.now)


def at_house(
    kind: str, house: GiftcardServer, *, rests: list[float] | None = None, seconds: float = 5.0
) -> TremendousCards | TangoCards:
    async def rest(wait: float) -> None:
        if rests is not None:
            rests.append(wait)

    if kind == "tango":
        account = f"{CUSTOMER}/{ACCOUNT}"
        return TangoCards(house.url(), key=TANGO_KEY, account=account, seconds=seconds, sleep=rest)
    return TremendousCards(house.url(), key=TREMENDOUS_KEY, funding_source=FUNDING_SOURCE, seconds=seconds, sleep=rest)


def issue(issuer: GiftcardIssuer, *requests: CardRequest) -> dict[str, CardSecret | CardNotIssued]:
    return dict(issuer.issue(requests, now=NOW))


def refused(issuer: GiftcardIssuer, request: CardRequest) -> CardNotIssued:
    [found] = issue(issuer, request).values()
    assert isinstance(found, CardNotIssued)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_reference_gives_the_same_card_until_it_is_given_back(issuer: GiftcardIssuer, kind: str) -> None:
    assert issuer.name == kind
    a, b, c = (card() for _ in range(3))
    first = issue(issuer, a, b, a)
    again = issue(issuer, c, b, a)
    assert {reference: again[reference] for reference in first} == first
    assert len(set(is_issued(again))) == 3
    assert again.keys() == {each.reference for each in (a, b, c)}
    assert issuer.in_stock(BRAND, "PRODUCT1", VALUE) == (IN_STOCK - 3 if kind == "stock" else None)
    assert [issuer.return_card(a.reference, now=NOW) for _ in range(2)] == [kind != "tango"] * 2
    if kind == "stock":
        assert issuer.in_stock(BRAND, "", VALUE) == IN_STOCK - 2
        assert is_issued(issue(issuer, card())) == [again[a.reference]]
    assert issuer.return_card(str(uuid4()), now=NOW) == (kind != "tango")


@pytest.mark.parametrize("kind", KINDS)
def test_requests_at_once_get_the_same_cards(issuer: GiftcardIssuer, kind: str, request: pytest.FixtureRequest) -> None:
    card_requests = [card() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        orders = [card_requests, card_requests[::-1], card_requests[1:], card_requests[::-1]]
        found = list(pool.map(lambda each: issuer.issue(each, now=NOW), orders))
    merged: dict[str, Any] = {}
    for each in found:
        assert all(merged.setdefault(reference, made) == made for reference, made in each.items())
    assert len(set(is_issued(merged))) == 4
    if kind in HOUSES:
        assert len(request.getfixturevalue("house").orders) == 4
        return
    with request.getfixturevalue("container").db.system_transaction() as tx:
        taken = sa.select(sa.func.count()).where(giftcard_stock.c.taken_by.is_not(None))
        assert tx.execute(taken).scalar_one() == 4


@EVERY_HOUSE
def test_a_card_whose_response_was_lost_is_looked_up_before_a_refusal_is_believed(
    issuer: GiftcardIssuer, house: GiftcardServer, subtests: pytest.Subtests
) -> None:
    """The card may have been bought when it was first asked for, and its answer lost."""
    house.lost, card_request = 1, card()
    with pytest.raises(IssuerDown, match="without an answer"):
        issue(issuer, card_request)
    assert len(house.orders) == 1
    look_ups = (respond(400, {}), respond(422, {}), respond(402, {}), respond(404, {}), respond(400, b"<html>"))
    for status in (400, 402, 409, 422):
        with subtests.test(status=status):
            refusal = respond(status, {"errors": []})
            for look_up in look_ups:
                house.answers = [refusal, look_up]
                with pytest.raises(IssuerDown):
                    issue(issuer, card_request)
            house.answers = [refusal]
            [found] = is_issued(issue(issuer, card_request))
            assert (found.code or found.url) in house.secrets
    [found] = is_issued(issue(issuer, card_request))
    assert (found.code or found.url) in house.secrets
    assert len(house.orders) == 1


@pytest.mark.parametrize("kind", ["tremendous"])
def test_what_a_house_does_not_take_back_stays_bought(issuer: GiftcardIssuer, house: TremendousServer) -> None:
    card_request, house.cancels = card(), False
    issue(issuer, card_request)
    assert issuer.return_card(card_request.reference, now=NOW) is False
    for no_answer in (respond(400, {}), respond(404, {}), respond(500)):
        house.answers = [no_answer]
        with pytest.raises(IssuerDown):
            issuer.return_card(card_request.reference, now=NOW)
    house.lost = 1
    with pytest.raises(IssuerDown) as down:
        issuer.return_card(card_request.reference, now=NOW)
    assert down.value.__context__ is None, "what failed knows the request, and with it the key"


LEAK = "LEAKED-SECRET"
ODD: dict[str, FakeResponse] = {
    "a fault of theirs": respond(500, {"code": LEAK}),
    "a redirect": respond(302, LEAK, Location=f"https://elsewhere.example/{LEAK}"),
    "a closed door": respond(401, LEAK),
    "no right": respond(403, LEAK),
    "an unknown status": respond(418, LEAK),
    "nothing of the kind": respond(404, {"code": LEAK}),
    "a page of somebody in between": respond(400, f"<html>The load balancer: {LEAK}".encode()),
    "no JSON": respond(200, f"<html>{LEAK}".encode()),
    "no UTF-8": respond(200, b"\xff\xfe" + LEAK.encode()),
    "a list": respond(200, [LEAK]),
    "nothing": respond(200, {}),
    "too much": respond(200, b'{"order": "' + LEAK.encode() * MAX_RESPONSE_BYTES + b'"}'),
    "another order": respond(200, {"order": {"external_id": LEAK}, "externalRefID": LEAK}),
    "parts of the wrong kind": respond(200, {"order": LEAK, "reward": [LEAK], "referenceOrderID": "../" + LEAK}),
}


@EVERY_HOUSE
def test_an_odd_answer_is_a_sentence_without_a_secret(
    issuer: GiftcardIssuer, house: GiftcardServer, subtests: pytest.Subtests
) -> None:
    hushed = [LEAK, TREMENDOUS_KEY, TANGO_KEY, house.authorization]
    for name, answer in ODD.items():
        with subtests.test(name):
            house.answers = [answer]
            with capture_logs() as logs, pytest.raises(IssuerDown, match=r"^127\.0\.0\.1 .*\.$") as down:
                issue(issuer, card())
            error: BaseException | None = down.value
            shown = repr(logs) + "".join(traceback.format_exception(down.value))
            while error is not None:
                shown += repr(error) + repr(vars(error))
                error = error.__context__
            assert [secret for secret in hushed if secret in shown] == []
    house.answers = [respond(200, b" " * (MAX_RESPONSE_BYTES + 1))]
    with pytest.raises(IssuerDown, match=r"more than 200,000 bytes"):
        issue(issuer, card())


@EVERY_HOUSE
def test_one_bad_response_skips_a_card_and_a_down_issuer_is_left(issuer: GiftcardIssuer, house: GiftcardServer) -> None:
    card_requests = [card() for _ in range(12)]
    house.answers = [respond(500)]
    with capture_logs() as logs:
        found = issuer.issue(card_requests, now=NOW)
    assert len(is_issued(found)) == 11
    assert [(line["issued"], "500" in line["error"]) for line in logs] == [(11, True)]
    assert not any(secret in repr((logs, found)) for secret in house.secrets)
    house.answers, house.calls = [respond(503)] * 12, []
    with pytest.raises(IssuerDown, match="503"):
        issuer.issue(card_requests, now=NOW)
    assert len(house.calls) < 8


@EVERY_HOUSE
def test_a_rate_limit_is_retried_as_it_says(issuer: GiftcardIssuer, house: GiftcardServer, rests: list[float]) -> None:
    house.answers = [respond(429, Retry_After="7"), respond(429), respond(429, Retry_After="86400")]
    assert len(is_issued(issue(issuer, card()))) == 1
    assert rests == [7, 1, 30]
    house.answers = [respond(429)] * MAX_ATTEMPTS
    with pytest.raises(IssuerDown, match="too many"):
        issue(issuer, card())


@EVERY_HOUSE
def test_what_a_house_does_not_sell_is_for_the_operator_to_fix_and_another_amount_is_not_taken(
    issuer: GiftcardIssuer, house: GiftcardServer
) -> None:
    unknown, fine = card(issuer_product="UNKNOWN"), card()
    found = issue(issuer, unknown, fine)
    not_sold = found[unknown.reference]
    assert isinstance(not_sold, CardNotIssued)
    assert not_sold.issuer_status == "none"
    assert [word for word in ("UNKNOWN", BRAND, "$25.00", "422") if word not in not_sold.reason] == []
    assert isinstance(found[fine.reference], CardSecret)
    for poor in (respond(402), respond(422, {"errors": [{"message": f"Insufficient FUNDS {LEAK}"}]})):
        house.answers = [poor]
        none = refused(issuer, card())
        assert (none.issuer_status, "funds" in none.reason, LEAK in none.reason) == ("none", True, False)
    house.answers = [respond(409, {})]
    assert refused(issuer, card()).issuer_status == "ordered", "it has the order and does not find it"
    with pytest.raises(IssuerDown, match="cannot be read"):
        issue(issuer, card(fine.reference, cents=VALUE + 1))


@EVERY_HOUSE
def test_a_house_that_says_nothing_is_down(kind: str, house: GiftcardServer) -> None:
    house.is_silent = True
    with pytest.raises(IssuerDown, match=r"within 0\.1 seconds"):
        at_house(kind, house, seconds=0.1).issue([card()], now=NOW)


@pytest.mark.parametrize("kind", ["tremendous"])
def test_a_pending_order_is_requested_again_unless_it_failed(issuer: GiftcardIssuer, house: TremendousServer) -> None:
    card_request, house.status = card(), "PENDING APPROVAL"
    assert refused(issuer, card_request).issuer_status == "ordered"
    house.orders[card_request.reference]["status"], house.links_later = "EXECUTED", True
    [found] = is_issued(issue(issuer, card_request))
    assert [found.url] == house.secrets
    house.orders[card_request.reference]["status"] = "FAILED"
    assert refused(issuer, card_request).issuer_status == "never"
    assert len(house.orders) == 1


@pytest.mark.parametrize("kind", ["tango"])
def test_a_card_issued_later_is_requested_again(issuer: GiftcardIssuer, house: TangoServer) -> None:
    card_request, house.is_late = card(), True
    assert refused(issuer, card_request).issuer_status == "ordered"
    house.is_late = False
    assert len(is_issued(issue(issuer, card_request))) == 1


CREDENTIALS: list[tuple[list[tuple[str, Any]], CardSecret | None]] = [
    ([("Card Number", "6006"), ("PIN", "12")], CardSecret(code="6006", pin="12")),
    ([("Redemption Link", "https://a.example/x")], CardSecret(url="https://a.example/x")),
    ([("Claim", "https://a.example/x"), ("Access Code", "7")], CardSecret(url="https://a.example/x", pin="7")),
    ([("Redemption URL", "javascript:alert(1)")], None),
    ([("E-Gift Card Number", 12345), ("Security Code", 7)], CardSecret(code="12345", pin="7")),
    ([("Gift Code", "A"), ("Expiration Date", "2030-01-31T00:00:00Z")], CardSecret("A", expires_on=date(2030, 1, 31))),
    ([("Gift Code", "A\x00B")], None),
    ([("Gift Code", "A" * 500)], None),
    ([("PIN", "12")], None),
    ([], None),
]


def test_what_a_card_is_redeemed_with_is_read_by_what_it_is_called_and_not_shown(subtests: pytest.Subtests) -> None:
    for credentials, expected in CREDENTIALS:
        with subtests.test(str(credentials)[:80]):
            as_list = [{"label": label, "value": value} for label, value in credentials]
            assert read_credentials({"credentialList": as_list}) == expected
            assert read_credentials({"credentials": dict(credentials)}) == expected
    assert "HUSH" not in repr(CardSecret(code="HUSH1", pin="HUSH2", url="https://HUSH3"))


@EVERY_HOUSE
def test_the_doctor_asks_whether_we_are_let_in_and_can_pay(kind: str, house: GiftcardServer) -> None:
    keys = {"tango": TANGO_KEY, "tremendous": TREMENDOUS_KEY}
    accounts = {"tango": f"{CUSTOMER}/{ACCOUNT}", "tremendous": FUNDING_SOURCE}

    def finding(**more: str) -> tuple[str, str]:
        usual = {"giftcards_key": keys[kind], "giftcards_account": accounts[kind]}
        given = {"giftcards": f"{kind}:{house.url()}", **usual, **more}
        found = check_giftcard_issuer(Settings.model_validate(given))
        return found.status, found.message

    assert finding() == ("ok", "127.0.0.1 lets us in")
    assert finding(giftcards_key="some:body")[0] == "warning"
    assert "QUILLPOST_GIFTCARDS_KEY" in finding(giftcards_key="some:body")[1]
    status, what = finding(giftcards_account="nobody/unknown")
    assert (status, "knows no" in what) == ("broken", True)
    assert house.orders == {}
