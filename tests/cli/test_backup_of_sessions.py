"""A restored service knows everyone, and has nobody signed in."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import passwords
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import password_resets, people, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.settings import Settings
from quillpost.web.application import create_app
from support.browser_sessions import make_user, sign_in_browser
from support.cli_results import Quillpost
from support.factories import Account
from support.test_client import TestClient

pytestmark = pytest.mark.costly

DANA = "dana@example.com"


def test_sessions_end_with_a_restore_and_people_stay(
    owner: Account, container: Container, conninfo: str, blank: str, tmp_path: Path, quillpost: Quillpost
) -> None:
    person = make_user(container, owner.id, DANA)
    browser = sign_in_browser(owner.http)
    browser.sign_in(DANA)
    assert browser.get("/settings", follow=False).status_code == 200
    with container.db.system_transaction() as tx:
        [session] = tx.execute(sa.select(sessions.c.id)).scalars()
        passwords.create_reset_link(tx, person, base_url="http://quillpost.test", now=container.clock())
        insert_token(tx, owner.id, name="a page's", mode="test", scopes=None, session_id=session, now=container.clock())
    file = tmp_path / "monday.qpb"
    assert quillpost("backup", file, home=tmp_path / "home", database_url=conninfo).code == 0
    restored = quillpost("restore", file, home=tmp_path / "another", database_url=blank)
    assert restored.code == 0, restored.err
    assert "Everyone signs in anew." in restored.out

    service = bootstrap.build_container(Settings(home=tmp_path / "another"), blank, clock=container.clock)
    with service.db.system_transaction() as tx:
        assert tx.execute(sa.select(people.c.email)).scalars().all() == [DANA]
        assert tx.execute(sa.select(sessions.c.id)).all() == []
        assert tx.execute(sa.select(password_resets.c.digest)).all() == []
        assert tx.execute(sa.select(tokens.c.name)).scalars().all() == ["test"]
    with TestClient(create_app(service), base_url="http://quillpost.test") as http:
        again = sign_in_browser(http)
        again.sign_in(DANA)
        assert again.get("/settings", follow=False).status_code == 200
    service.db.close()
