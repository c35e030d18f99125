"""Calls that meet others at the same thing: nobody waits, and none loses what another did."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import sqlalchemy as sa

from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import files, image_templates, items, orders, stored_sends
from quillpost.core.errors import Message
from quillpost.orders import changes
from support.factories import Account, make_sub_account, person, postcard, run_due_jobs
from support.images import ImageServer
from support.rows import execute, run_as
from support.uploads import BLUE, png, upload

pytestmark = pytest.mark.usefixtures("clean_database", "loopback_urls")

Deed = Callable[[], object]
Meanwhile = Callable[[Deed], list[object]]


@pytest.fixture
def while_storing(container: Container, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return lambda deed: _first_do(monkeypatch, container.storage, "put", deed)


@pytest.fixture
def while_laying_out(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    return lambda deed: _first_do(monkeypatch, changes, "check_fit", deed)


def _first_do(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, deed: Deed) -> list[object]:
    """Do it each time before the function is called; what came of it."""
    real, done = getattr(where, name), list[object]()

    def after_the_deed(*args: Any, **kwargs: Any) -> Any:
        done.append(deed())
        return real(*args, **kwargs)

    monkeypatch.setattr(where, name, after_the_deed)
    return done


def is_free(container: Container, table: sa.Table) -> bool:
    """Whether nobody holds a row of it; fails where somebody does."""
    return bool(execute(container, sa.select(table.c.id).with_for_update(nowait=True)))


def change(container: Container, table: sa.Table, **columns: object) -> None:
    execute(container, sa.update(table).values(**columns))


def remove(container: Container, owner: Account, branch: int) -> None:
    run_as(container, Tenant(owner.id), remove_sub_account, branch, now=container.clock())


def image_of(container: Container, template: int) -> UUID:
    [row] = execute(container, sa.select(image_templates).where(image_templates.c.id == template))
    found: UUID = row.image_file_id
    return found


GONE = (400, {"message": "Sub Account ID does not exist"})


def test_nobody_waits_while_pictures_are_put_away_or_another_message_is_laid_out(
    owner: Account, container: Container, art: ImageServer, while_storing: Meanwhile, while_laying_out: Meanwhile
) -> None:
    body = postcard(front_image_url=art.picture(), custom_background_image=art.picture("pink"))
    url = owner.post("/stored_send/postcard", body).json()["stored_send_url"]
    stored = while_storing(lambda: is_free(container, stored_sends))
    sent = owner.get(urlsplit(url).path.removeprefix("/api/v2"))
    assert (sent.status_code, stored) == (200, [True, True])
    laid_out = while_laying_out(lambda: is_free(container, orders))
    changed = owner.put(f"/orders/{sent.json()['id']}", {"message": "Other words"})
    assert (changed.status_code, laid_out) == (200, [True])


def test_an_image_is_neither_saved_for_nor_moved_to_a_sub_account_that_goes_meanwhile(
    owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch, while_storing: Meanwhile
) -> None:
    for has_history in (False, True):
        branch = make_sub_account(container, owner)
        if has_history:
            earlier = upload(owner, image=png(BLUE), sub_account_id=branch).json()["id"]
            assert owner.delete(f"/image-templates/{earlier}").status_code == 200
        done = while_storing(lambda branch=branch: remove(container, owner, branch))  # type: ignore[misc]
        refused = upload(owner, sub_account_id=branch)
        assert ((refused.status_code, refused.json()), len(done)) == (GONE, 1)
        assert owner.get("/image-templates").json()["data"] == []
        monkeypatch.undo()
    branch, made = make_sub_account(container, owner), upload(owner).json()
    while_storing(lambda: remove(container, owner, branch))
    refused = owner.put(f"/image-templates/{made['id']}", {"sub_account_id": branch})
    assert (refused.status_code, refused.json()) == GONE
    assert owner.get(f"/image-templates/{made['id']}").json() == made


def test_an_image_of_a_moved_template_stays(owner: Account, container: Container, while_storing: Meanwhile) -> None:
    branch, made = make_sub_account(container, owner), upload(owner).json()
    while_storing(lambda: change(container, image_templates, sub_account_id=branch))
    path = f"/image-templates/{made['id']}"
    crossed = upload(owner, image=png(BLUE), method="PUT", path=path)
    assert (crossed.status_code, crossed.headers["Retry-After"]) == (409, "1")
    assert "try again" in crossed.json()["message"]
    assert owner.get(path).json() == made | {"sub_account_id": branch}
    again = upload(owner, image=png(BLUE), method="PUT", path=path)
    assert (again.status_code, again.json()["sub_account_id"]) == (200, branch)
    seen = run_as(container, Tenant(owner.id, branch), lambda tx: tx.scalars(sa.select(files.c.id)).all())
    assert image_of(container, made["id"]) in seen


def test_a_template_that_moves_does_not_take_an_earlier_image_along(
    owner: Account, container: Container, while_storing: Meanwhile
) -> None:
    branch, made = make_sub_account(container, owner), upload(owner).json()
    newer = image_of(container, upload(owner, image=png(BLUE)).json()["id"])
    while_storing(lambda: change(container, image_templates, image_file_id=newer))
    assert owner.put(f"/image-templates/{made['id']}", {"sub_account_id": branch}).status_code == 409
    assert image_of(container, made["id"]) == newer


def test_a_template_that_is_deleted_meanwhile_is_not_found(owner: Account, while_storing: Meanwhile) -> None:
    path = f"/image-templates/{upload(owner).json()['id']}"
    while_storing(lambda: owner.delete(path))
    assert upload(owner, image=png(BLUE), method="PUT", path=path).status_code == 404


def test_of_two_message_changes_one_is_409(owner: Account, container: Container, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send().json()['id']}"
    while_laying_out(lambda: change(container, orders, message="Faster words"))
    crossed = owner.put(path, {"message": "Slower words"})
    assert (crossed.status_code, crossed.headers["Retry-After"]) == (409, "1")
    assert "try again" in crossed.json()["message"]
    assert owner.get(path).json()["message"] == "Faster words"
    assert owner.put(path, {"message": "Slower words"}).json()["message"] == "Slower words"


def test_an_order_that_is_cancelled_meanwhile_keeps_its_message(owner: Account, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send(message='First').json()['id']}"
    while_laying_out(lambda: owner.put(f"{path}/cancel"))
    refused = owner.put(path, {"message": "Second"})
    assert (refused.status_code, "no longer be changed" in refused.json()["message"]) == (400, True)
    assert owner.get(path).json()["message"] == "First"


def test_lists_that_become_items_meanwhile_get_the_other_message(
    owner: Account, container: Container, while_laying_out: Meanwhile
) -> None:
    friends = owner.post("/mailing-lists", {"description": "Friends"}).json()["id"]
    owner.post("/recipients", person(mailing_list_id=friends))
    order = owner.send(mailing_list_ids=[friends], recipients=None).json()["id"]
    while_laying_out(lambda: run_due_jobs(container))
    changed = owner.put(f"/orders/{order}", {"message": "Other words"})
    assert (changed.status_code, changed.json()["order_total"]) == (200, 109)
    with container.db.system_transaction() as tx:
        keys = [tx.execute(sa.select(table.c.creative_key)).scalar_one() for table in (items, orders)]
    assert keys[0] == keys[1]


def test_a_warning_that_comes_then_stays(owner: Account, container: Container, while_laying_out: Meanwhile) -> None:
    path = f"/orders/{owner.send(message='漢').json()['id']}"
    while_laying_out(lambda: change(container, orders, warnings=[Message("other", "Something else.")]))
    assert owner.put(path, {"message": "Hello"}).json()["warnings"] == ["Something else."]
