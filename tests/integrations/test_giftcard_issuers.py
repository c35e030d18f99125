"""Who issues gift cards: the port's contract for all of them, and what each makes of odd answers."""

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from quillpost.app.container import Container
from quillpost.cli.doctor.installation import check_giftcard_issuer
from quillpost.core.database.tables.orders import giftcard_stock
from quillpost.core.settings import Settings
from quillpost.integrations.giftcards.http import MAX_ATTEMPTS, MAX_RESPONSE_BYTES
from quillpost.integrations.giftcards.stock import SandboxCards, StockCards
from quillpost.integrations.giftcards.tango import TangoCards, read_credentials
from quillpost.integrations.giftcards.tremendous import TremendousCards
from quillpost.orders.giftcards.ports import CardNotIssued, CardSecret, GiftcardIssuer, IssuerDown
from support.factories import Clock
from support.fake_server import FakeResponse, respond
from support.giftcard_requests import BRAND, CENTS, add_stock, card, is_issued
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
        return TangoCards(house.url, key=TANGO_KEY, account=account, seconds=seconds, sleep=rest)
    return TremendousCards(house.url, key=TREMENDOUS_KEY, funding_source=FUNDING_SOURCE, seconds=seconds, sleep=rest)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_reference_always_gives_the_same_card(issuer: GiftcardIssuer, kind: str, clock: Clock) -> None:
    assert issuer.name == kind
    a, b, c = (card() for _ in range(3))
    first = issuer.issue([a, b, a], now=clock.now())
    again = issuer.issue([c, b, a], now=clock.now())
    assert {reference: again[reference] for reference in first} == first
    assert len(set(is_issued(again))) == 3
    assert again.keys() == {each.reference for each in (a, b, c)}
    assert issuer.in_stock(BRAND, "PRODUCT1", CENTS) == (IN_STOCK - 3 if kind == "stock" else None)


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_that_ask_at_once_all_have_the_same_cards(
    issuer: GiftcardIssuer, kind: str, container: Container, request: pytest.FixtureRequest, clock: Clock
) -> None:
    card_requests = [card() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        orders = [card_requests, card_requests[::-1], card_requests[1:], card_requests[::-1]]
        found = list(pool.map(lambda each: issuer.issue(each, now=clock.now()), orders))
    merged: dict[str, Any] = {}
    for each in found:
        assert all(merged.setdefault(reference, made) == made for reference, made in each.items())
    assert len(set(is_issued(merged))) == 4
    with container.db.system_transaction() as tx:
        taken = sa.select(sa.func.count()).where(giftcard_stock.c.taken_by.is_not(None))
        made = tx.execute(taken).scalar_one()
    assert (len(request.getfixturevalue("house").orders) if kind in HOUSES else made) == 4


@pytest.mark.parametrize("kind", HOUSES)
def test_a_card_whose_response_was_lost_is_the_same_when_requested_again(
    issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock
) -> None:
    house.lost, card_request = 1, card()
    with pytest.raises(IssuerDown, match="without an answer"):
        issuer.issue([card_request], now=clock.now())
    assert len(house.orders) == 1
    [found] = is_issued(issuer.issue([card_request], now=clock.now()))
    assert len(house.orders) == 1
    assert (found.code or found.url) in house.secrets


REFUSALS = [respond(status, {"errors": []}) for status in (400, 402, 409, 422)]


@pytest.mark.parametrize("kind", HOUSES)
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal[0]))
def test_a_refusal_is_looked_up_before_it_is_believed(
    issuer: GiftcardIssuer, house: GiftcardServer, refusal: FakeResponse, clock: Clock
) -> None:
    """The card may have been bought when it was first asked for, and its answer lost."""
    house.lost, card_request = 1, card()
    with suppress(IssuerDown):
        issuer.issue([card_request], now=clock.now())
    for look_up in (respond(400, {}), respond(422, {}), respond(402, {}), respond(404, {}), respond(400, b"<html>")):
        house.answers = [refusal, look_up]
        with pytest.raises(IssuerDown):
            issuer.issue([card_request], now=clock.now())
    house.answers = [refusal]
    [found] = is_issued(issuer.issue([card_request], now=clock.now()))
    assert (found.code or found.url) in house.secrets
    assert len(house.orders) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_giving_back_twice_is_giving_back_once(issuer: GiftcardIssuer, kind: str, clock: Clock) -> None:
    card_request = card()
    [given] = is_issued(issuer.issue([card_request], now=clock.now()))
    answers = [issuer.return_card(card_request.reference, now=clock.now()) for _ in range(2)]
    assert answers == [kind != "tango"] * 2
    if kind == "stock":
        assert issuer.in_stock(BRAND, "", CENTS) == IN_STOCK
        assert is_issued(issuer.issue([card()], now=clock.now())) == [given]
    assert issuer.return_card(str(uuid4()), now=clock.now()) == (kind != "tango")


@pytest.mark.parametrize("kind", ["tremendous"])
def test_what_a_house_does_not_take_back_stays_bought(
    issuer: GiftcardIssuer, house: TremendousServer, clock: Clock
) -> None:
    card_request, house.cancels = card(), False
    issuer.issue([card_request], now=clock.now())
    assert issuer.return_card(card_request.reference, now=clock.now()) is False
    for no_answer in (respond(400, {}), respond(404, {}), respond(500)):
        house.answers = [no_answer]
        with pytest.raises(IssuerDown):
            issuer.return_card(card_request.reference, now=clock.now())
    house.lost = 1
    with pytest.raises(IssuerDown) as down:
        issuer.return_card(card_request.reference, now=clock.now())
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


@pytest.mark.parametrize("kind", HOUSES)
@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_answer_is_a_sentence_without_a_secret(
    issuer: GiftcardIssuer, house: GiftcardServer, answer: FakeResponse, clock: Clock
) -> None:
    house.answers = [answer]
    with capture_logs() as logs, pytest.raises(IssuerDown, match=r"^127\.0\.0\.1 .*\.$") as down:
        issuer.issue([card()], now=clock.now())
    error: BaseException | None = down.value
    shown = repr(logs) + "".join(traceback.format_exception(down.value))
    while error is not None:
        shown += repr(error) + repr(vars(error))
        error = error.__context__
    hushed = [LEAK, TREMENDOUS_KEY, TANGO_KEY, house.authorization]
    assert [secret for secret in hushed if secret in shown] == []


@pytest.mark.parametrize("kind", HOUSES)
def test_no_more_of_an_answer_is_read_than_any_could_have(
    issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock
) -> None:
    house.answers = [respond(200, b" " * (MAX_RESPONSE_BYTES + 1))]
    with pytest.raises(IssuerDown, match=r"more than 200,000 bytes"):
        issuer.issue([card()], now=clock.now())


@pytest.mark.parametrize("kind", HOUSES)
def test_one_bad_response_skips_one_card_and_an_issuer_that_is_down_is_not_called_for_all(
    issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock
) -> None:
    card_requests = [card() for _ in range(12)]
    house.answers = [respond(500)]
    with capture_logs() as logs:
        found = issuer.issue(card_requests, now=clock.now())
    assert len(is_issued(found)) == 11
    assert [(line["issued"], "500" in line["error"]) for line in logs] == [(11, True)]
    assert not any(secret in repr((logs, found)) for secret in house.secrets)
    house.answers, house.calls = [respond(503)] * 12, []
    with pytest.raises(IssuerDown, match="503"):
        issuer.issue(card_requests, now=clock.now())
    assert len(house.calls) < 8


@pytest.mark.parametrize("kind", HOUSES)
def test_an_issuer_that_limits_requests_is_retried_when_it_says(
    issuer: GiftcardIssuer, house: GiftcardServer, rests: list[float], clock: Clock
) -> None:
    house.answers = [respond(429, Retry_After="7"), respond(429), respond(429, Retry_After="86400")]
    assert len(is_issued(issuer.issue([card()], now=clock.now()))) == 1
    assert rests == [7, 1, 30]
    house.answers = [respond(429)] * MAX_ATTEMPTS
    with pytest.raises(IssuerDown, match="too many"):
        issuer.issue([card()], now=clock.now())


@pytest.mark.parametrize("kind", HOUSES)
def test_unknown_products_and_missing_funds_are_for_the_operator_to_fix(
    issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock
) -> None:
    unknown, fine = card(issuer_product="UNKNOWN"), card()
    found = issuer.issue([unknown, fine], now=clock.now())
    refused = found[unknown.reference]
    assert isinstance(refused, CardNotIssued)
    assert refused.issuer_status == "none"
    assert [word for word in ("UNKNOWN", BRAND, "$25.00", "422") if word not in refused.reason] == []
    assert isinstance(found[fine.reference], CardSecret)
    for poor in (respond(402), respond(422, {"errors": [{"message": f"Insufficient FUNDS {LEAK}"}]})):
        house.answers = [poor]
        [none] = issuer.issue([card()], now=clock.now()).values()
        assert isinstance(none, CardNotIssued)
        assert (none.issuer_status, "funds" in none.reason, LEAK in none.reason) == ("none", True, False)


@pytest.mark.parametrize("kind", HOUSES)
def test_an_order_that_a_house_has_and_does_not_find_stays_with_it(
    issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock
) -> None:
    house.answers = [respond(409, {})]
    [none] = issuer.issue([card()], now=clock.now()).values()
    assert isinstance(none, CardNotIssued)
    assert none.issuer_status == "ordered"


@pytest.mark.parametrize("kind", HOUSES)
def test_a_house_that_says_nothing_is_down(kind: str, house: GiftcardServer, clock: Clock) -> None:
    house.is_silent = True
    with pytest.raises(IssuerDown, match=r"within 0\.1 seconds"):
        at_house(kind, house, seconds=0.1).issue([card()], now=clock.now())


@pytest.mark.parametrize("kind", ["tremendous"])
def test_a_pending_order_is_requested_again_unless_it_failed(
    issuer: GiftcardIssuer, house: TremendousServer, clock: Clock
) -> None:
    card_request, house.status = card(), "PENDING APPROVAL"
    [waiting] = issuer.issue([card_request], now=clock.now()).values()
    assert isinstance(waiting, CardNotIssued)
    assert waiting.issuer_status == "ordered"
    house.orders[card_request.reference]["status"], house.links_later = "EXECUTED", True
    [found] = is_issued(issuer.issue([card_request], now=clock.now()))
    assert [found.url] == house.secrets
    house.orders[card_request.reference]["status"] = "FAILED"
    [failed] = issuer.issue([card_request], now=clock.now()).values()
    assert isinstance(failed, CardNotIssued)
    assert failed.issuer_status == "never"
    assert len(house.orders) == 1


@pytest.mark.parametrize("kind", ["tango"])
def test_a_card_issued_later_is_requested_again(issuer: GiftcardIssuer, house: TangoServer, clock: Clock) -> None:
    card_request, house.is_late = card(), True
    [waiting] = issuer.issue([card_request], now=clock.now()).values()
    assert isinstance(waiting, CardNotIssued)
    assert waiting.issuer_status == "ordered"
    house.is_late = False
    assert len(is_issued(issuer.issue([card_request], now=clock.now()))) == 1


@pytest.mark.parametrize("kind", HOUSES)
def test_a_card_over_another_amount_is_not_taken(issuer: GiftcardIssuer, house: GiftcardServer, clock: Clock) -> None:
    card_request = card()
    issuer.issue([card_request], now=clock.now())
    with pytest.raises(IssuerDown, match="cannot be read"):
        issuer.issue([card(card_request.reference, cents=CENTS + 1)], now=clock.now())


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        ([("Card Number", "6006"), ("PIN", "12")], CardSecret(code="6006", pin="12")),
        ([("Redemption Link", "https://a.example/x")], CardSecret(url="https://a.example/x")),
        ([("Claim", "https://a.example/x"), ("Access Code", "7")], CardSecret(url="https://a.example/x", pin="7")),
        ([("Redemption URL", "javascript:alert(1)")], None),
        ([("E-Gift Card Number", 12345), ("Security Code", 7)], CardSecret(code="12345", pin="7")),
        (
            [("Gift Code", "A"), ("Expiration Date", "2030-01-31T00:00:00Z")],
            CardSecret(code="A", expires_on=date(2030, 1, 31)),
        ),
        ([("Gift Code", "A\x00B")], None),
        ([("Gift Code", "A" * 500)], None),
        ([("PIN", "12")], None),
        ([], None),
    ],
)
def test_what_a_card_is_redeemed_with_is_read_by_what_it_is_called(
    credentials: list[tuple[str, Any]], expected: CardSecret | None
) -> None:
    as_list = [{"label": label, "value": value} for label, value in credentials]
    assert read_credentials({"credentialList": as_list}) == expected
    assert read_credentials({"credentials": dict(credentials)}) == expected


@pytest.mark.parametrize("kind", HOUSES)
def test_the_doctor_asks_whether_we_are_let_in_and_can_pay(kind: str, house: GiftcardServer) -> None:
    keys = {"tango": TANGO_KEY, "tremendous": TREMENDOUS_KEY}
    accounts = {"tango": f"{CUSTOMER}/{ACCOUNT}", "tremendous": FUNDING_SOURCE}

    def finding(**more: str) -> tuple[str, str]:
        usual = {"giftcards_key": keys[kind], "giftcards_account": accounts[kind]}
        given = {"giftcards": f"{kind}:{house.url}", **usual, **more}
        found = check_giftcard_issuer(Settings.model_validate(given))
        return found.status, found.message

    assert finding() == ("ok", "127.0.0.1 lets us in")
    assert finding(giftcards_key="some:body")[0] == "warning"
    assert "QUILLPOST_GIFTCARDS_KEY" in finding(giftcards_key="some:body")[1]
    status, what = finding(giftcards_account="nobody/unknown")
    assert (status, "knows no" in what) == ("broken", True)
    assert house.orders == {}


def test_no_card_shows_what_it_is_redeemed_with() -> None:
    shown = repr(CardSecret(code="HUSH1", pin="HUSH2", url="https://HUSH3"))
    assert "HUSH" not in shown
