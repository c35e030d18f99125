"""Who a mailing goes to, the URLs with variables that lead each of them on, and how pictures are fetched."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import product
from threading import BoundedSemaphore, Lock
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from quillpost.core.errors import Invalid
from quillpost.core.ports import FetchedDocument, FetchFailed
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.orders.models import ContentSource, ResolvedRequest
from quillpost.orders.products import POSTCARD
from quillpost.orders.requests.rules import validate_request
from quillpost.orders.templates import images
from quillpost.orders.templates.images import MAX_FETCHES_PER_CALL, FileToFetch, fetch_images
from quillpost.recipients import rules
from quillpost.recipients.addresses.cities import STATE_CODES, find_state_code
from quillpost.recipients.addresses.text import STATE_CODES_BY_NAME
from quillpost.recipients.models import CUSTOM_FIELDS, Person
from quillpost.rendering.handwriting.models import STYLES
from support.factories import people, person
from support.images import saved

DOUBLE = "Another recipient of this order has the same address."
HOME = ("Austin", "TX", "78701")


def one(**changes: Any) -> Person:
    [found] = rules.validate_recipients([person(**changes)])
    return found


def errors_of(*rows: dict[str, Any]) -> dict[str, list[str]]:
    with pytest.raises(Invalid) as refused:
        rules.validate_recipients(rows)
    return refused.value.fields


def refusals(*rows: dict[str, Any]) -> list[str | None]:
    return [found.refusal for found in rules.validate_recipients(rows)]


# Addresses

LINES = {
    "12 Main St, Austin, TX 78701": ("12 Main St", *HOME),
    "12 Main St, Austin TX 78701": ("12 Main St", *HOME),
    "12 Main St,Austin,  tx, 78701": ("12 Main St", *HOME),
    "12 Main St, Apt 4, Austin, TX 78701": ("12 Main St, Apt 4", *HOME),
    "12 Main St, Austin, Texas 78701-1234": ("12 Main St", "Austin", "TX", "78701-1234"),
    "12 Main St, Austin, TX 787011234, USA": ("12 Main St", "Austin", "TX", "78701-1234"),
    "1 Elm Rd, St. Paul, Minnesota 55101, United States": ("1 Elm Rd", "St. Paul", "MN", "55101"),
    "9 Oak Ave, Salt Lake City, UT 84101": ("9 Oak Ave", "Salt Lake City", "UT", "84101"),
    "1 Kanawha Blvd, Charleston, West Virginia 25301": ("1 Kanawha Blvd", "Charleston", "WV", "25301"),
    "5 Fifth Ave, New York, New York 10001": ("5 Fifth Ave", "New York", "NY", "10001"),
    "5 Fifth Ave, New York NY 10001": ("5 Fifth Ave", "New York", "NY", "10001"),
    "2 Palace Ave, Santa Fe, New Mexico 87501": ("2 Palace Ave", "Santa Fe", "NM", "87501"),
    "9 K St NW, Washington, D.C. 20001": ("9 K St NW", "Washington", "DC", "20001"),
    "7 Chestnut St, Virginia, Minnesota 55792": ("7 Chestnut St", "Virginia", "MN", "55792"),
}
NOT_WHOLE = (
    *("12 Main St", "12 Main St, Austin, XX 78701", "12 Main St, Austin, TX 7870"),
    *("12 Main St, West Virginia 25301", "12 Main St, Apt 4, TX 78701", "12 Main St, , TX 78701"),
)


def test_an_address_on_one_line_is_taken_apart(subtests: pytest.Subtests) -> None:
    for line, place in LINES.items():
        with subtests.test(line):
            [found] = rules.validate_recipients([{"name": "Jane", "address": line}])
            assert (found.address, found.city, found.province, found.postal_code) == place
            assert found.refusal is None
    line = "12 Main St, Austin, TX 78701"
    assert one(address=line, city="Dallas").address == line, "parts that are given win"
    for line in NOT_WHOLE:
        with subtests.test(line):
            found_errors = errors_of({"address": line})
            assert set(found_errors) == {"recipients.0.city", "recipients.0.province", "recipients.0.postal_code"}
            assert "12 Main St, Austin, TX 78701" in found_errors["recipients.0.city"][0]


def test_states_and_fields_are_kept_in_their_usual_form() -> None:
    for name, letters in STATE_CODES_BY_NAME.items():
        assert find_state_code(name.title()) == find_state_code(letters) == letters
        assert letters in STATE_CODES
    assert (find_state_code("D.C."), find_state_code("new   york")) == ("DC", "NY")
    assert {one(province=text).province for text in ("TX", "tx", "Texas", "TEXAS", " texas ")} == {"TX"}
    for given_code, kept in (("78701", "78701"), ("78701-1234", "78701-1234"), ("787011234", "78701-1234")):
        assert one(postal_code=given_code).postal_code == kept
    for day in ("1980-02-29", "02/29/1980", " 1980-02-29 "):
        assert (one(dob=day, anniversary=day).dob, one(anniversary=day).anniversary) == (date(1980, 2, 29),) * 2
    assert [one(dob=nothing).dob for nothing in ("", "  ", None)] == [None] * 3
    home = (None, "", "us", "USA", "U.S.", "u.s.a.", "United States")
    assert {one(country=text).country for text in home} == {"US"}
    ottawa = one(country="ca", province="Ontario", postal_code="K1A 0B1", city="Ottawa")
    assert (ottawa.country, ottawa.province, ottawa.postal_code) == ("CA", "Ontario", "K1A 0B1")
    assert one(**{name: name.upper() for name in CUSTOM_FIELDS}).custom == tuple(name.upper() for name in CUSTOM_FIELDS)
    assert one(name="x" * rules.MAX_FIELD_LENGTH).name == "x" * rules.MAX_FIELD_LENGTH


REFUSALS: dict[str, tuple[str, tuple[str, ...]]] = {
    "province": ("This is not a state of the US; use two letters.", ("Bavaria", "ZZ", "T", "T€")),
    "postal_code": (
        "A ZIP code has 5 digits, or 5-4.", ("7870", "787012", "78701-12", "ABCDE", "٧٨٧٠١", "78701 1234"),
    ),
    "anniversary": ("it must exist", ("1981-02-29", "2000-13-01", "31/12/1999", "yesterday", "1980-02-29T00:00")),
    "email": (
        "This is not an e-mail address.", ("jane", "jane@", "@example.com", "jane@example", "a b@example.com"),
    ),
    "country": ("", ("Atlantis", "C", "C1", "ATL", "XX")),
    "custom3": (f"At most {rules.MAX_FIELD_LENGTH} characters, please.", ("x" * (rules.MAX_FIELD_LENGTH + 1),)),
}  # fmt: skip


def test_what_is_no_such_thing_is_refused_by_its_field(subtests: pytest.Subtests) -> None:
    for field, (reason, texts) in REFUSALS.items():
        for text in texts:
            with subtests.test(field=field, text=text[:30]):
                [(named, [error])] = errors_of(person(city="Nowhere", **{field: text})).items()
                assert named == f"recipients.0.{field}"
                assert reason in error
    found = errors_of(person(postal_code="1", province="??"), person(), {"name": "Jane"}, {"address": "  "})
    places = ("0.postal_code", "0.province", "2.address", "3.address")
    assert set(found) == {f"recipients.{place}" for place in places}
    assert found["recipients.3.address"] == ["Give an address, or at least an email."]
    assert refusals({"address": "1 Rue X", "city": "Paris", "country": "FR"}) == [None]
    apart = "Outside the US and Canada give city and postal_code apart."
    assert errors_of({"address": "1 Rue X", "country": "FR"}) == {"recipients.0.city": [apart]}


# Doubles


def test_another_spelling_of_an_address_is_a_double_and_another_address_none() -> None:
    spellings: list[dict[str, str]] = [
        {"address": "12 MAIN ST"}, {"address": "12  Main St."}, {"address": "12 Main St,"}, {"province": "Texas"},
        {"postal_code": "78701-1234"}, {"postal_code": "787019999"}, {"name": "Mr. J. Doe"}, {"country": "usa"},
    ]  # fmt: skip
    for spelling in spellings:
        assert refusals(person(), person(**spelling)) == [None, DOUBLE], spelling
    on_one_line = {"name": person()["name"], "address": "12 main st, Austin, TX 78701-0001"}
    assert refusals(person(), on_one_line) == [None, DOUBLE]
    assert refusals(person(), person(), person(address="9 Elm St"), person()) == [None, DOUBLE, None, DOUBLE]
    pairs: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {"address": "13 Main St"}), ({}, {"address2": "Apt 2"}), ({}, {"postal_code": "78702"}),
        ({"address": "1 22nd St"}, {"address": "12 2nd St"}), ({"address": "1-22 Elm St"}, {"address": "12/2 Elm St"}),
        ({"address2": "Bldg 1 12"}, {"address2": "Bldg 11 2"}),
        ({"address": "12 ถนนดี", "country": "TH"}, {"address": "12 ถนนดุ", "country": "TH"}),
        ({"address": "12 गली", "country": "IN"}, {"address": "12 गला", "country": "IN"}),
    ]  # fmt: skip
    for here, there in pairs:
        assert refusals(person(**here), person(**there)) == [None, None], (here, there)


def test_whom_a_name_or_an_e_mail_may_bar_alone_is_no_sure_double() -> None:
    """Whether the first is mailed is known once suppressions are: where not, the address is the next one's."""
    assert refusals(person(), person(name="Somebody Else"), person()) == [None, None, DOUBLE]
    emails: dict[tuple[str | None, ...], list[str | None]] = {
        (None, "b@x.org"): [None, DOUBLE], ("a@x.org", "a@x.org"): [None, DOUBLE], ("a@x.org", None): [None, None],
        ("a@x.org", "b@x.org", "a@x.org"): [None, None, DOUBLE],
    }  # fmt: skip
    assert {given: refusals(*(person(email=email) for email in given)) for given in emails} == emails
    alone = {"email": "jane@example.com"}
    assert refusals(alone, alone) == ["There is no mailing address, only an e-mail."] * 2


@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["name", "address", "city", "country", "dob", "email"]), st.text()))
)
def test_anything_is_either_examined_or_refused_with_its_place(rows: list[dict[str, str]]) -> None:
    named: set[int] = set()
    try:
        spoken_for = len(rules.validate_recipients(rows))
    except Invalid as refused:
        named = {int(field.split(".")[1]) for field in refused.fields}
        spoken_for = len(rows)
    assert spoken_for == len(rows)
    assert named <= set(range(len(rows)))


# Someone alone


def test_someone_alone_is_faulted_by_the_names_of_the_fields_and_written_as_given() -> None:
    with pytest.raises(Invalid) as wrong:
        rules.validate_recipient(person(postal_code="1", dob="02/30/1980"))
    assert set(wrong.value.fields) == {"postal_code", "dob"}
    assert rules.validate_recipient({"email": "jane@example.com"}).refusal is None
    found, errors = rules.check_recipient(person(city=None))
    assert (found.address, list(errors)) == ("12 Main St", ["city"])
    whole = person(dob="1980-02-29", custom10="ten", email="jane@example.com", country="US")
    kept = rules.person_to_fields(one(**whole))
    assert {name: text for name, text in kept.items() if text is not None} == whole
    assert rules.validate_recipient(kept) == one(**whole)


DALLAS = "9 Oak Ave, Dallas, TX 75201"
CHANGES: list[tuple[dict[str, Any], tuple[str | None, ...]]] = [
    ({"name": "Joe"}, ("12 Main St", "Apt 4", *HOME)),
    ({"address": "9 Oak Ave"}, ("9 Oak Ave", "Apt 4", *HOME)),
    ({"address": DALLAS}, ("9 Oak Ave", None, "Dallas", "TX", "75201")),
    ({"address": DALLAS, "address2": "Apt 9", "city": None}, ("9 Oak Ave", "Apt 9", "Dallas", "TX", "75201")),
    (
        {"address": "9 Oak Ave, Waco, TX 76701", "city": "Dallas"},
        ("9 Oak Ave, Waco, TX 76701", "Apt 4", "Dallas", "TX", "78701"),
    ),
    ({"address2": None, "province": "Texas"}, ("12 Main St", None, *HOME)),
]


def test_a_change_keeps_what_it_does_not_name_but_a_whole_address_replaces_one_abroad() -> None:
    for changes, place in CHANGES:
        found = rules.apply_changes(one(address2="Apt 4"), changes)
        assert (found.address, found.address2, found.city, found.province, found.postal_code) == place
        assert found.address_key == rules.validate_recipient(rules.person_to_fields(found)).address_key
    with pytest.raises(Invalid):
        rules.apply_changes(one(), {"address": None})
    assert rules.apply_changes(one(email="jane@example.com"), {"address": None}).address_key is None
    abroad = one(country="CA", province="ON", postal_code="K1A 0B1", city="Ottawa", address2="Apt 5")
    at_home = rules.validate_recipient(person(address="9 Oak Ave", city="Dallas", postal_code="75201"))
    countries: list[dict[str, Any]] = [{}, {"country": None}, {"country": " usa "}]
    for country in countries:
        assert rules.apply_changes(abroad, {"address": DALLAS} | country) == at_home
    found = rules.apply_changes(one(), {"address": DALLAS, "country": "CA"})
    assert (found.address, found.city, found.country) == (DALLAS, "Austin", "CA"), "it is not taken apart"


FIELDS = {"front": "front_image_url", "background": "custom_background_image", "qrcode_url": "qrcode_url"}
PICTURES = list(FIELDS)[:2]
HANDS = {style.number: style for style in STYLES}


def url_errors(audience: Any = None, **changes: Any) -> dict[str, list[str]]:
    """What is wrong with a postcard that is good but for the changes."""
    sources: dict[str, Any] = dict(changes)
    sources |= {name: ContentSource(FIELDS[name], changes[name]) for name in PICTURES if name in changes}
    if "qrcode_url" in sources:
        sources["qr_source"] = ContentSource("qrcode_url", sources["qrcode_url"])
    order_request = ResolvedRequest(
        product=POSTCARD, size="4x6", recipients=audience or [person()], message="Hi!", style=1,
        handwriting_color="blue", handwriting_realism=True, font_size="auto", **sources,
    )  # fmt: skip
    try:
        validate_request(order_request, styles=HANDS, check_url=OutboundGuard().check_url, known_errors={})
    except Invalid as invalid:
        return invalid.fields
    return {}


GOOD = (
    "https://pictures.example/~FIRST_NAME~.png", "https://pictures.example/%FIRST_NAME|dear friend%.png",
    "https://pictures.example/~first_name~.png?for=~YOUR_COMPANY~", "https://~CITY~.pictures.example/a.png",
    "https://~YOUR_COMPANY~.pictures.example/a.png",
    "https://pictures.example/caf%C3%A9/%E2%82%AC/~FIRST_NAME~%20.png", "https://pictures.example/%DFEN%20.png",
)  # fmt: skip
FILLED = (
    ("https://~CUSTOM1~/a.png", "localhost", "localhost is not a public address."),
    ("https://~CUSTOM1~/a.png", "10.0.0.1", "10.0.0.1 is not a public address."),
    ("https://pictures.example/" + 9 * "~CUSTOM1~", 250 * "x", "The URL is longer than 2048 characters."),
)


@pytest.mark.parametrize("field", FIELDS)
def test_a_url_is_checked_before_and_after_its_values_are_filled_in(field: str, subtests: pytest.Subtests) -> None:
    name = FIELDS[field]
    for url in GOOD:
        with subtests.test(url):
            assert url_errors(**{field: url}) == {}
    for sign, variable in product("%~", ("SURNAME", "DATE", "ADRESS", "FAX")):
        with subtests.test(variable, sign=sign):
            found = url_errors(**{field: f"https://pictures.example/caf%C3%A9/{sign}{variable}{sign}.png"})
            assert list(found) == [name]
            assert found[name][0].startswith(f"Unknown variable %{variable}%. Known variables: %FIRST_NAME%")
    for url, value, reason in FILLED:
        with subtests.test(url, value=value):
            audience = [person(custom1="pictures.example"), person(address="9 Oak Ave", custom1=value)]
            assert url_errors(audience[:1], **{field: url}) == {}
            assert url_errors(audience, **{field: url}) == {name: [f"{reason} (for recipient 1)"]}
    found = url_errors([person(custom1="https://pictures.example/a.png")], **{field: "~CUSTOM1~"})
    assert found == {name: ["The URL must start with http:// or https://. (for recipient 0)"]}, "never a whole URL"
    too_long = "https://pictures.example/~NAME|" + 3_000 * "x" + "~"
    assert url_errors(**{field: too_long}) == {name: ["The URL is longer than 2048 characters."]}


@pytest.mark.parametrize("field", PICTURES)
def test_fifty_pictures_are_taken_and_one_more_is_refused(field: str) -> None:
    url = "https://pictures.example/~ADDRESS~.png"
    assert url_errors(people(50), **{field: url}) == {}
    assert url_errors([*people(50), *people(50)], **{field: url}) == {}, "doubles are not mailed"
    assert url_errors([*people(50), {"email": "only@example.com"}], **{field: url}) == {}
    assert url_errors(people(51), **{field: url}) == {
        FIELDS[field]: ["The URL names 51 different pictures: at most 50 in one call."]
    }


def test_qr_codes_may_lead_everyone_on_and_errors_are_reported_together() -> None:
    assert url_errors(people(200), qrcode_url="https://pages.example/~ADDRESS~") == {}
    found = url_errors([person(postal_code="1")], front="nowhere", qrcode_url="https://x.test/~NAME~")
    assert list(found) == ["recipients.0.postal_code", "front_image_url"]


FIELD = "front_image_url"


def picture(colour: str) -> bytes:
    return saved(Image.new("RGB", (1875, 1275), colour), "PNG")


class Shop:
    """Sells what it has; counts how many are served at once."""

    def __init__(self, goods: dict[str, bytes]) -> None:
        self._goods = goods
        self._lock = Lock()
        self._inside = 0
        self.most_at_once = 0
        self.requests: list[str] = []

    def fetch(self, url: str, *, max_bytes: int) -> FetchedDocument:
        with self._lock:
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
            self.requests.append(url)
        try:
            if url not in self._goods:
                raise FetchFailed(f"{url} is sold out.")
            return FetchedDocument("image/png", self._goods[url])
        finally:
            with self._lock:
                self._inside -= 1


def files_to_fetch(urls: Sequence[str]) -> list[FileToFetch]:
    return [FileToFetch(url, FIELD, f"for recipient {index}") for index, url in enumerate(urls)]


def test_pictures_are_fetched_in_order_a_few_at_a_time() -> None:
    goods = {f"{n}": picture(f"#{n:02x}0000") for n in range(10)}
    shop = Shop(goods)
    found = fetch_images(shop, files_to_fetch(list(goods)))
    assert ([one.body for one in found], sorted(shop.requests)) == (list(goods.values()), sorted(goods))
    assert shop.most_at_once <= MAX_FETCHES_PER_CALL


def test_the_first_error_in_order_is_reported_and_the_rest_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    places = BoundedSemaphore(MAX_FETCHES_PER_CALL)
    monkeypatch.setattr(images, "_fetch_slots", places)
    shop = Shop({"0": picture("red")})
    with pytest.raises(Invalid) as refusal:
        fetch_images(shop, files_to_fetch([f"{n}" for n in range(50)]))
    assert refusal.value.fields == {FIELD: ["The image could not be fetched: 1 is sold out. (for recipient 1)"]}
    assert len(shop.requests) <= 2 + MAX_FETCHES_PER_CALL
    assert all(places.acquire(blocking=False) for _ in range(MAX_FETCHES_PER_CALL)), "every slot is free again"


def test_what_is_no_picture_or_too_large_or_slow_is_refused() -> None:
    reason = r"^The image cannot be printed: .*\(for recipient 1\)$"
    with pytest.raises(Invalid) as refusal:
        fetch_images(Shop({"0": picture("red"), "1": b"words"}), files_to_fetch(["0", "1"]))
    [error] = refusal.value.fields[FIELD]
    assert re.match(reason, error)
    goods = {"red": picture("red"), "blue": picture("blue")}
    shop, files, size = Shop(goods), files_to_fetch(list(goods)), sum(map(len, goods.values()))
    assert len(fetch_images(shop, files, max_bytes=size)) == 2
    with pytest.raises(Invalid, match="The images take more than"):
        fetch_images(shop, files, max_bytes=size - 1)
    with pytest.raises(Invalid, match="takes longer than 0 seconds"):
        fetch_images(shop, files, max_seconds=0)
    assert len(fetch_images(shop, files[:1], max_seconds=0)) == 1, "it is there already"
