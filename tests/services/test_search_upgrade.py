"""Who was on a list before words lay apart from people is found after the upgrade, and changes with it."""

import pytest
import sqlalchemy as sa
from test_upgrade import database_of_before

from quillpost.core.database import Database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import migrate
from quillpost.core.database.search import select_matching_recipients

pytestmark = pytest.mark.costly

WRITE = sa.text(
    """
    with account as (
        insert into accounts (email, name, created_at, updated_at)
        values ('old@example.com', 'Olga', now(), now()) returning id),
    list as (
        insert into mailing_lists (account_id, description, processed, created_at, updated_at)
        select id, 'Visitors', true, now(), now() from account returning id, account_id)
    insert into recipients (account_id, mailing_list_id, name, told_apart, created_at, updated_at)
    select account_id, id, 'Zelda Quick', '', now(), now() from list returning account_id
    """
)


def test_people_of_the_release_before_are_found(postgres: EmbeddedPostgres, template: str) -> None:
    with database_of_before(postgres, "0023") as old:
        engine = create_admin_engine(old)
        with engine.begin() as tx:
            account = tx.execute(WRITE).scalar_one()
        engine.dispose()
        migrate(old)
        db = Database(old)
        try:
            assert how_many(db, account, "zel qui") == 1
            with db.system_transaction() as tx:
                tx.execute(sa.text("update recipients set name = 'Ada'"))
            assert (how_many(db, account, "zelda"), how_many(db, account, "ada")) == (0, 1)
            with db.system_transaction() as tx:
                tx.execute(sa.text("delete from recipients"))
                assert tx.execute(sa.text("select count(*) from recipient_search")).scalar_one() == 0
        finally:
            db.close()


def how_many(db: Database, account_id: int, search: str) -> int:
    found = select_matching_recipients(search, account_id)
    with db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(found)).scalar_one())
