"""The whole service in this process, on a PostgreSQL of its own, called without a network."""

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastapi import FastAPI
from starlette.types import Message

from benchmarks.harness import client_sending
from quillpost.accounts import service as account_service
from quillpost.accounts.queries import insert_token
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.runtime import upgrade_database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.settings import Settings
from quillpost.core.telemetry import configure_logging
from quillpost.rendering.handwriting.models import DEFAULT_STYLE
from quillpost.web.application import create_app

JSON = "application/json"

# Prepared typefaces are kept where the tests keep theirs.
_FACES = Path(__file__).parents[2] / ".tools" / "faces"
_ENDLESS = 10**9
_BETWEEN_CALLS = timedelta(seconds=2)


class Service:
    """One account in testing mode, with a token for everything; no worker runs beside it.

    By its clock the calls come two seconds apart, so that each books the job that ends its review: of
    sends within a second only the first does.
    """

    def __init__(self) -> None:
        self._home = home = Path(tempfile.mkdtemp(prefix="quillpost-bench-"))
        home.chmod(0o755)
        self._server = EmbeddedPostgres(home)
        self._server.start()
        self.conninfo = self._server.conninfo()
        upgrade_database(self.conninfo)
        configure_logging(as_json=True, level="warning")
        settings = Settings(home=home, faces_folder=_FACES, calls_a_minute=_ENDLESS)
        self._now = datetime.now(UTC)
        self.parts: Container = bootstrap.build_container(settings, self.conninfo, clock=lambda: self._now)
        self.parts.renderer.hands.hand(DEFAULT_STYLE.number)
        self.app: FastAPI = create_app(self.parts)
        self._token = self._open_account()
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.parts.db.close()
        self._server.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def post(self, path: str, body: bytes, content_type: str = JSON) -> bytes:
        """The answer to a call that must succeed."""
        self._now += _BETWEEN_CALLS
        status, answer = self._loop.run_until_complete(self._call(path, body, content_type))
        if status >= 300:
            raise RuntimeError(f"{path} answered {status}: {answer[:500].decode()}")
        return answer

    async def _call(self, path: str, body: bytes, content_type: str) -> tuple[int, bytes]:
        """As a server calls an application, with none of a client's own work around it."""
        headers = {
            "host": "bench.example",
            "authorization": f"Bearer {self._token}",
            "content-type": content_type,
            "content-length": str(len(body)),
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": f"/api/v2{path}",
            "raw_path": f"/api/v2{path}".encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("bench.example", 80),
        }
        status, parts = 500, []

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        await self.app(scope, client_sending(body), send)
        return status, b"".join(parts)

    def _open_account(self) -> str:
        with self.parts.db.system_transaction() as tx:
            now = self.parts.clock()
            account_id = account_service.create_account(tx, email="bench@example.com", name="Bench", now=now)
            return insert_token(tx, account_id, mode="test", name="bench", now=now)[1]
