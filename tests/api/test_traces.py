"""What the tests' own eye for traces sees."""

from itertools import pairwise

import sqlalchemy as sa
from traces import traces

from makers import Account
from quillpost.database.tables import accounts, mailing_lists
from quillpost.parts import Parts


def test_a_row_that_was_changed_or_added_is_seen_in_any_table(owner: Account, parts: Parts) -> None:
    seen = [traces(parts)]
    with parts.db.work() as tx:
        tx.execute(sa.update(accounts).values(company="Another"))
    seen.append(traces(parts))
    owner.post("/mailing-lists", {"description": "Visitors"})
    seen.append(traces(parts))
    with parts.db.work() as tx:
        tx.execute(sa.update(mailing_lists).values(description="Friends"))
    seen.append(traces(parts))
    assert all(before != after for before, after in pairwise(seen))


def test_what_only_reads_leaves_none(owner: Account, parts: Parts) -> None:
    owner.send()
    before = traces(parts)
    assert owner.get("/orders").status_code == 200
    assert traces(parts) == before
