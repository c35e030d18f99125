"""People by their e-mail, for whoever runs the service."""

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.people_tables import people
from quillpost.kit.errors import Refused
from quillpost.people import emails


def find_person(tx: Tx, email: str) -> int:
    """Whoever signs in with this e-mail. Takes the worker's transaction."""
    found = tx.execute(
        sa.select(people.c.id).where(sa.func.lower(people.c.email) == emails.plain(email))
    ).scalar()
    if found is None:
        raise Refused(f"Nobody signs in with the e-mail {email}.")
    return int(found)


def has_second_factor(tx: Tx, person_id: int) -> bool:
    since = tx.execute(sa.select(people.c.totp_since).where(people.c.id == person_id)).scalar()
    return since is not None
