"""An idempotency key is held by a session of the database, not by a row: rows have an answer."""

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    # Of calls that ran when the service was stopped: none had an effect.
    op.execute("delete from idempotency_keys where answer_status is null")
    op.execute(
        """
        alter table idempotency_keys
            drop column leased_until,
            alter column answer_status set not null,
            alter column answer_headers set not null,
            alter column answer_body set not null
        """
    )
