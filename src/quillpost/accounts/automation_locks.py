"""What an automation that is switched on counts on stays: whoever would take it away is told its name.

Automations lie far above; here is only the question that those below them ask.
"""

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.engine import account_wide_access
from quillpost.core.database.tables.notifications import automations
from quillpost.core.errors import Refused


def refuse_if_used_by_automation(tx: Tx, *conditions: sa.ColumnElement[bool], kind: str) -> None:
    """`Refused` while an automation of the account for which all this is true is switched on.

    In either mode and of any sub account: it may be one that the caller does not see.
    """
    with account_wide_access(tx):
        automation = tx.execute(
            sa.select(automations.c.id, automations.c.name)
            .where(automations.c.enabled, *conditions)
            .order_by(automations.c.id)
            .limit(1)
        ).first()
    if automation is not None:
        raise Refused(f'Automation {automation.id} ("{automation.name}") uses this {kind}: switch it off first.')
