"""Files handed in over the API, and the job that works them off, made for tests."""

import csv
import io
from dataclasses import dataclass
from typing import Any

from httpx2 import Response

from quillpost.app.container import Container
from quillpost.recipients.imports import tasks as import_tasks
from support.mailing_lists import ListOwner

HEAD = "Name,Street,City,State,Zip\n"
JANE = "Jane Doe,12 Main St,Austin,TX,78701\n"
JOHN = "John Roe,14 Main St,Austin,TX,78701\n"


def import_context(container: Container) -> import_tasks.ImportContext:
    return import_tasks.ImportContext(container.db, container.storage.store, container.clock)


@dataclass(frozen=True)
class Importer:
    """Someone who fills lists from files."""

    lists: ListOwner
    container: Container

    def upload(
        self,
        list_id: int,
        data: str | bytes = HEAD + JANE + JOHN,
        *,
        name: str = "people.csv",
        headers: dict[str, str] | None = None,
        to: str | None = None,
        **fields: Any,
    ) -> Response:
        raw = data.encode() if isinstance(data, str) else data
        path = to or f"/mailing-lists/{list_id}/import"
        files = {"file": (name, raw)}
        return self.lists.account.call("POST", path, files=files, data=fields, headers=headers or {})

    def fill(self, import_id: int) -> dict[str, Any]:
        """The import, after its job has run."""
        import_tasks.run_import(import_context(self.container), import_id)
        return self.read(import_id)

    def run(self, list_id: int, data: str | bytes, **how: Any) -> dict[str, Any]:
        """The import of a file, from upload to end."""
        begun = self.upload(list_id, data, **how)
        assert begun.status_code == 202, begun.text
        return self.fill(begun.json()["id"])

    def read(self, import_id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.lists.account.get(f"/imports/{import_id}").json()
        return found

    def rejected(self, import_id: int) -> list[list[str]]:
        answer = self.lists.account.get(f"/imports/{import_id}/rejected.csv")
        assert answer.status_code == 200, answer.text
        return list(csv.reader(io.StringIO(answer.text, newline="")))

    def names(self, list_id: int) -> list[str]:
        found = self.lists.account.get(f"/mailing-lists/{list_id}/recipients?items_per_page=1000").json()
        return [row["name"] for row in found["data"]]

    @property
    def files(self) -> list[str]:
        return list(self.container.storage.store.keys("imports/"))


def counts(done: dict[str, Any]) -> tuple[int, int, int, int]:
    return done["rows_read"], done["rows_imported"], done["rows_rejected"], done["duplicates"]
