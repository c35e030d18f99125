"""Alembic runs this file; the connection comes from `database.schema`, ready and in the owner's role."""

from alembic import context

from quillpost.core.database.tables.base import metadata


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return not (kind == "table" and name is not None and name.startswith("procrastinate_"))


context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, include_name=is_ours)
with context.begin_transaction():
    context.run_migrations()
