"""Letters at the addresses that other clients know them by."""

import pytest

from support.factories import Account, postcard

ADDRESSES = {"letter/windowed": "letter", "letter/windowless": "windowlessletter"}


@pytest.mark.parametrize(("path", "kind"), ADDRESSES.items())
def test_a_letter_is_sent_estimated_and_stored_there(owner: Account, path: str, kind: str) -> None:
    sent = owner.post(f"/send/{path}", postcard())
    assert (sent.status_code, sent.json()["type"]) == (200, kind)
    assert owner.post(f"/estimate/{path}", postcard()).json()["data"]["type"] == kind
    shown = owner.post(f"/send/{path}", postcard(preview=True))
    assert shown.json()["data"]["sides"][0] == "cover"
    stored = owner.post(f"/stored_send/{path}", postcard(message="Stored.")).json()["stored_send_url"]
    number = stored.rpartition("/")[2]
    looked = owner.call("HEAD", f"/stored_send/{path}/{number}")
    assert looked.status_code == 200
    opened = owner.get(f"/stored_send/{path}/{number}")
    assert (opened.status_code, opened.json()["type"], opened.json()["message"]) == (200, kind, "Stored.")


def test_its_address_is_no_stored_letter(owner: Account) -> None:
    assert owner.get("/stored_send/letter/windowed").status_code in (404, 405)
    assert owner.call("PUT", "/send/letter/windowed").headers["Allow"] == "POST, OPTIONS"
