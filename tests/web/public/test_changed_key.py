"""What was sealed or signed before the key was changed, and is out of our hands."""

from datetime import timedelta
from pathlib import Path

import pytest

from quillpost.accounts.users.sign_in import create_browser_token, identify_browser
from quillpost.app.container import Container
from quillpost.core.encryption import KeyFile, key_fingerprint
from quillpost.notifications import service as refusals
from quillpost.notifications.messages import NotificationReader
from support.browser_sessions import PASSWORD, make_user, sign_in_browser
from support.factories import Account, Build
from support.test_client import TestClient

DANA = "dana@example.com"


@pytest.fixture
def container(build: Build) -> Container:
    return build(receiver=True)


def test_all_that_is_out_there_is_good_until_the_former_key_is_forgotten(
    container: Container, http: TestClient, owner: Account, tmp_path: Path
) -> None:
    file, now = KeyFile(tmp_path / "home" / "secret.key"), container.clock()
    [old] = file.read_keys()
    person = make_user(container, owner.id, DANA)
    link = container.storage.signed_path("proof-1", expires_at=now + timedelta(days=1)).rpartition("/")[2]
    unsubscribe = f"/unsubscribe/{refusals.encode_token(container.encryptor, NotificationReader(owner.id, DANA))}"
    receiver = f"/receiver/{container.receiver_key}"
    known = create_browser_token(container.encryptor, person, DANA, password_changed_at=None, now=now)
    browser = sign_in_browser(http)
    browser.get("/sign-in")
    word = browser.csrf()

    def are_good() -> list[bool]:
        user = identify_browser(container.encryptor, known, person, DANA, password_changed_at=None, now=now)
        signed_in = browser.post("/sign-in", email=DANA, password="wrong " + PASSWORD, csrf=word)
        return [
            container.storage.verify_token(link, now=now) == "proof-1",
            http.get(unsubscribe).status_code == 200,
            http.get(receiver).status_code == 200,
            user is not None,
            signed_in.status_code != 403,
        ]

    file.add_key()
    assert are_good() == [True] * 5
    file.delete_key(key_fingerprint(old))
    assert are_good() == [False] * 5
    assert http.get(f"/receiver/{container.receiver_key}").status_code == 200, "a dead address is shown"
