"""Count the functions and files that one postcard passes through, from its endpoint to its committed row.

    python tools/trace_send.py [--list]

It starts the service in this process over a database of its own, sends one postcard to one recipient, and prints
how many functions of `quillpost`, in how many files, were entered between the call of the endpoint and the commit
of the transaction that inserts the order, in all and by package. `--list` names them by file.

A function is a `def`: a property counts, and a lambda, a comprehension and what a dataclass generates do not. What
comes before the endpoint (middleware, authentication, reading the body) and after the commit is not counted. All
threads are. Another postcard is sent first, so that what a process does only once, such as loading handwriting, is not
counted either.
"""

import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import sqlalchemy as sa
from fastapi.testclient import TestClient
from pin_interface import SOURCE, Service, new_service

from quillpost.accounts import service as account_service
from quillpost.accounts.queries import insert_token
from quillpost.web.api.send import endpoints

PACKAGE = str(SOURCE / "quillpost")
RESUMABLE = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class SendTrace:
    """The functions entered between the call of the endpoint and the commit of the order."""

    def __init__(self) -> None:
        self.is_armed = False
        self._codes: set[CodeType] = set()
        self._is_open = False
        self._inserting: sa.Connection | None = None

    @contextmanager
    def follow_threads(self) -> Iterator[None]:
        """Every thread that starts from here on; what they do is noted while the trace is armed."""
        sa.event.listen(sa.Engine, "before_cursor_execute", self._note_insert)
        sa.event.listen(sa.Engine, "commit", self._note_commit)
        threading.setprofile(self._profile)
        try:
            yield
        finally:
            threading.setprofile(None)
            sa.event.remove(sa.Engine, "before_cursor_execute", self._note_insert)
            sa.event.remove(sa.Engine, "commit", self._note_commit)

    @property
    def functions(self) -> Mapping[str, list[str]]:
        """Their names by file, in the order of the source."""
        by_file = defaultdict[str, list[tuple[int, str]]](list)
        for code in self._codes:
            if not code.co_name.startswith("<"):
                file = str(Path(code.co_filename).relative_to(PACKAGE))
                by_file[file].append((code.co_firstlineno, code.co_qualname))
        return {file: [name for _, name in sorted(by_file[file])] for file in sorted(by_file)}

    def _profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not self.is_armed:
            return
        code = frame.f_code
        if code.co_flags & RESUMABLE and frame.f_lineno != code.co_firstlineno:
            return  # a coroutine that was entered earlier goes on
        if code.co_name == "send" and code.co_filename == endpoints.__file__:
            self._is_open = True
        if self._is_open and code.co_filename.startswith(PACKAGE):
            self._codes.add(code)

    def _note_insert(self, connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if self._is_open and statement.lower().startswith("insert into orders "):
            self._inserting = connection

    def _note_commit(self, connection: sa.Connection) -> None:
        if self._is_open and connection is self._inserting:
            self._is_open = self.is_armed = False


def trace_send(service: Service) -> SendTrace:
    container = service.container
    with container.db.system_transaction() as tx:
        now = container.clock()
        account_id = account_service.create_account(tx, email="sender@example.com", name="Dana Whitfield", now=now)
        token = insert_token(tx, account_id, mode="test", name="trace", scopes=None, now=now)[1]
    trace = SendTrace()
    with trace.follow_threads(), TestClient(service.app, headers={"Authorization": f"Bearer {token}"}) as client:
        _send(client, "Hi %FIRST_NAME%, see you soon!")
        trace.is_armed = True
        _send(client, "Hi %FIRST_NAME%, thank you for stopping by!")
    return trace


def _send(client: TestClient, message: str) -> None:
    recipient = {
        "name": "Jane Doe",
        "address": "12 Main St",
        "city": "Austin",
        "province": "TX",
        "postal_code": "78701",
    }
    response = client.post("/api/v2/send/postcard", json={"recipients": [recipient], "message": message})
    assert response.is_success, response.text


def main() -> None:
    with new_service() as service:
        functions = trace_send(service).functions
    if "--list" in sys.argv:
        for file, names in functions.items():
            print(f"{file}\n    {', '.join(names)}")
    for package in sorted({file.split("/")[0] for file in functions}):
        counts = [len(names) for file, names in functions.items() if file.startswith(f"{package}/")]
        print(f"{package}: {sum(counts)} functions in {len(counts)} files")
    print(f"all: {sum(map(len, functions.values()))} functions in {len(functions)} files")


if __name__ == "__main__":
    main()
