"""A real SFTP server on loopback, over a folder, that may be told to break off."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncssh

from quillpost.integrations.folders.models import SftpCredentials
from quillpost.integrations.folders.sftp import SftpFolder

USER, PASSWORD = "press", "ink and paper"


class _SftpSignIn(asyncssh.SSHServer):
    def __init__(self, house: "SftpServer") -> None:
        self._house = house

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._guest = conn
        self._house.guests.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._house.guests.discard(self._guest)

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, PASSWORD)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == USER and self._house.client_key == key.export_public_key()

    def public_key_auth_supported(self) -> bool:
        return self._house.client_key is not None


class _Files(asyncssh.SFTPServer):
    def __init__(self, channel: Any, house: "SftpServer") -> None:
        super().__init__(channel, chroot=str(house.root).encode())
        self._house = house

    def write(self, file_obj: object, offset: int, data: bytes) -> Any:
        self._house.written += len(data)
        if self._house.breaks_after is not None and self._house.written > self._house.breaks_after:
            self._house.breaks_after = None
            self.channel.get_connection().abort()
        return super().write(file_obj, offset, data)


class SftpServer:
    """`breaks_after`: the connection is cut once so many bytes have been written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host_key = asyncssh.generate_private_key("ssh-ed25519")
        self.client_key: bytes | None = None
        self.breaks_after: int | None = None
        self.written = 0
        self.port = 0
        self.guests: set[asyncssh.SSHServerConnection] = set()
        self._is_open = threading.Event()
        self._end: Callable[[], object] | None = None
        self._thread = threading.Thread()

    def __enter__(self) -> Self:
        self.root.mkdir(exist_ok=True)
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        self._is_open.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._is_open.wait(30)

    def close(self) -> None:
        """No new guests, and those that are here are shown out."""
        if self._end is not None:
            self._end()
            self._end = None
            self._thread.join()

    async def _serve(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _SftpSignIn(self),
            server_host_keys=[self.host_key],
            sftp_factory=lambda channel: _Files(channel, self),
            allow_scp=False,
        ) as server:
            self.port = server.get_port()
            self._end = lambda: loop.call_soon_threadsafe(ended.set)
            self._is_open.set()
            await ended.wait()
            for guest in list(self.guests):
                guest.abort()
                await guest.wait_closed()

    def known_hosts(self, folder: Path, *, key: asyncssh.SSHKey | None = None) -> Path:
        """A known_hosts file with the server's key, or with another in its place."""
        public = (key or self.host_key).export_public_key().decode()
        path = folder / "known_hosts"
        path.write_text(f"[127.0.0.1]:{self.port} {public}")
        return path

    def place(self, folder: Path, *, within: str = "/", **how: Any) -> SftpFolder:
        """The way in, with files that it takes laid into the folder."""
        keys: dict[str, Any] = {"password": PASSWORD, "known_hosts": self.known_hosts(folder)} | how
        return SftpFolder(
            "127.0.0.1", port=self.port, user=USER, folder=within, credentials=SftpCredentials(**keys), seconds=10
        )
