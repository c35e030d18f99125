"""Which issuer of gift cards the settings ask for, and what is wrong with them."""

import pytest

from quillpost.app.environments import build_live_giftcard_issuer
from quillpost.cli.doctor.installation import check_giftcard_issuer
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from support.factories import Build


def test_live_cards_come_from_whom_the_settings_name(build: Build) -> None:
    container = build()
    assert {mode: issuer.name for mode, issuer in container.production.giftcard_issuers.items()} == {
        "test": "sandbox",
        "live": "stock",
    }
    container = build(giftcards="tremendous:https://www.tremendous.example", giftcards_key="k")
    assert container.production.giftcard_issuers["live"].name == "tremendous"
    assert container.production.giftcard_issuers["test"].name == "sandbox"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"giftcards": "https://host", "giftcards_key": "k"}, "tremendous:https://host or tango"),
        ({"giftcards": "tremendous:http://host", "giftcards_key": "k"}, "must begin with https"),
        ({"giftcards": "tango:http://127.example.com", "giftcards_key": "n:k", "giftcards_account": "c/a"}, "https"),
        ({"giftcards": "tremendous:ftp://host", "giftcards_key": "k"}, "an address such as"),
        ({"giftcards": "tremendous:https://me:secret@host", "giftcards_key": "k"}, "QUILLPOST_GIFTCARDS_KEY"),
        ({"giftcards": "tremendous:https://host/?a=b", "giftcards_key": "k"}, "an address such as"),
        ({"giftcards": "tremendous:https://host"}, "QUILLPOST_GIFTCARDS_KEY must be set"),
        ({"giftcards": "tango:https://host", "giftcards_key": "k"}, "NAME:KEY"),
        ({"giftcards": "tango:https://host", "giftcards_key": "n:k"}, "CUSTOMER/ACCOUNT"),
    ],
)
def test_conflicting_settings_are_refused_before_anything_starts(named: dict[str, str], why: str) -> None:
    settings = Settings.model_validate(named)
    with pytest.raises(NotReady, match=why) as wrong:
        build_live_giftcard_issuer(settings)
    assert "secret" not in str(wrong.value)
    assert check_giftcard_issuer(settings).status == "broken"
