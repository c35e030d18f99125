"""What an automation that is switched on counts on stays: whoever would take it away is told its name.

Automations lie far above; here is only the question that those below them ask.
"""

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.engine import past_the_limits
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import Refused


def refuse_while_automated(tx: Tx, *needs: sa.ColumnElement[bool], what: str) -> None:
    """`Refused` while an automation of the account for which all this is true is switched on.

    In either mode and of any sub account: it may be one that the caller does not see.
    """
    with past_the_limits(tx):
        found = tx.execute(
            sa.select(automations.c.id, automations.c.name)
            .where(automations.c.enabled, *needs)
            .order_by(automations.c.id)
            .limit(1)
        ).first()
    if found is not None:
        raise Refused(f'Automation {found.id} ("{found.name}") uses this {what}: switch it off first.')
