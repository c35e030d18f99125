"""PostgreSQL: connections, tables, row-level security, migrations, and an embedded server."""

from quillpost.core.database.engine import Database, Tenant, Tx, driver_connection, read_row

__all__ = ["Database", "Tenant", "Tx", "driver_connection", "read_row"]
