"""URLs with variables, which lead each recipient elsewhere or show each another picture."""

from itertools import product
from typing import Any

import pytest

from quillpost.core.errors import Invalid
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.orders.models import ContentSource, ResolvedRequest
from quillpost.orders.products import POSTCARD
from quillpost.orders.requests.rules import validate_request
from quillpost.rendering.handwriting.models import STYLES
from support.factories import people, person

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
        handwriting_color="blue", handwriting_manner="natural", font_size="auto", **sources,
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
