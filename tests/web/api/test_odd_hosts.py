"""URLs whose host nobody can have, or that spell an address oddly, are refused when they are given."""

import pytest

from quillpost.app.container import Container
from support.factories import Account, count_rows

ODD = [
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://a..b/",
    "http://-a.example/",
    "http://xn--a/",
    f"http://{'a' * 64}.example/",
    f"http://{'.'.join(['abcdefghi'] * 26)}/",
]


@pytest.mark.parametrize("url", ODD)
def test_no_webhook_goes_to_an_odd_host(owner: Account, container: Container, url: str) -> None:
    refused = owner.post("/webhooks", {"url": url, "type": "*"})
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["url"])
    assert count_rows(container)["webhooks"] == 0


def test_a_webhook_is_not_moved_to_an_odd_host(owner: Account) -> None:
    made = owner.post("/webhooks", {"url": "https://example.com/hook", "type": "*"}).json()["id"]
    for url in ODD:
        refused = owner.call("PUT", f"/webhooks/{made}", json={"url": url})
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["url"])
    assert owner.get(f"/webhooks/{made}").json()["url"] == "https://example.com/hook"


@pytest.mark.parametrize("field", ["front_image_url", "qrcode_url"])
def test_neither_pictures_nor_codes_are_at_one(owner: Account, field: str) -> None:
    for url in ODD:
        refused = owner.send(**{field: url})
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text


def test_an_image_template_is_not_at_one(owner: Account) -> None:
    for url in ODD:
        refused = owner.post("/image-templates", {"type": "postcard", "name": "Spring", "image": url})
        assert refused.status_code == 422
        assert list(refused.json()["errors"]) == ["image"], refused.text
