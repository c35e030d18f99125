"""A Chromium that is started once and then asked over its debugging protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from benchmarks.compose.contender import Absent

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *(),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--allow-file-access-from-files",
        "--remote-debugging-port=0",
    ),
)
_START_SECONDS, _END_SECONDS = 60, 10
_PROC = Path("/proc")
# In user and in system mode, then the same of children that were waited for.
_TIMES = slice(11, 15)


class Browser:
    """Whoever starts it closes it; with it goes its profile."""

    def __init__(self) -> None:
        program = next(filter(None, map(shutil.which, _NAMES)), None)
        if program is None:
            raise Absent("no Chromium on the path")
        self._profile = tempfile.TemporaryDirectory(prefix="quillpost-bench-", ignore_cleanup_errors=True)
        command = [program, *_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._socket: ClientConnection | None = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        family = self._family() if _PROC.exists() else []
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Its children end a moment later, and until then write to the profile.
        deadline = time.monotonic() + _END_SECONDS
        while any((_PROC / str(pid)).exists() for pid in family) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._profile.cleanup()

    def _attach(self) -> None:
        self._socket = self._connected()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """The answer to one command."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        assert self._socket is not None
        self._socket.send(json.dumps(message))
        for answer in self._heard():
            if answer.get("id") == number:
                return dict(answer["result"])
        raise AssertionError("the connection ended")

    def open(self, page: Path) -> None:
        """Load the page with its fonts and pictures."""
        self.ask("Page.navigate", url=page.as_uri())
        for message in self._heard():
            if message.get("method") == "Page.loadEventFired":
                break
        self.ask("Runtime.evaluate", expression="document.fonts.ready.then(() => 0)", awaitPromise=True)

    def replace_body(self, markup: str) -> None:
        """Show something else in the page that is open, whose fonts are there."""
        self.ask("Runtime.evaluate", expression=f"document.body.innerHTML = {json.dumps(markup)}; 0")

    def print_to(self, out: Path) -> None:
        answer = self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        out.write_bytes(base64.b64decode(answer["data"]))

    def set_view(self, width: int, height: int, scale: float) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def screenshot(self, left: float, top: float, width: float, height: float) -> bytes:
        clip = {"x": left, "y": top, "width": width, "height": height, "scale": 1}
        answer = self.ask("Page.captureScreenshot", format="png", clip=clip, optimizeForSpeed=True)
        return base64.b64decode(answer["data"])

    def cpu_seconds(self) -> float:
        """Of the whole family of processes, those included that have ended.

        Where the system does not tell, the time that passed.
        """
        if not _PROC.exists():
            return time.perf_counter()
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(int(spent) for pid in self._family() for spent in _stat_of(pid)[_TIMES]) / ticks

    def peak_bytes(self) -> int:
        """Of the largest process of the family; they share too much for a sum to mean anything."""
        statuses = [(_PROC / str(pid) / "status").read_text() for pid in self._family()]
        peaks = [line.split()[1] for status in statuses for line in status.splitlines() if "VmHWM" in line]
        return max(map(int, peaks), default=0) * 1024

    def _family(self) -> list[int]:
        parents = {pid: int(_stat_of(pid)[1]) for pid in _all_processes()}
        family = [self._process.pid]
        for member in family:
            family += [pid for pid, parent in parents.items() if parent == member]
        return family

    def _heard(self) -> Iterator[dict[str, Any]]:
        assert self._socket is not None
        for message in self._socket:
            yield json.loads(message)

    def _connected(self) -> ClientConnection:
        port_file = Path(self._profile.name) / "DevToolsActivePort"
        deadline = time.monotonic() + _START_SECONDS
        while not (port_file.exists() and port_file.read_text().count("\n")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Absent("Chromium does not start here")
            time.sleep(0.05)
        port, path = port_file.read_text().splitlines()[:2]
        return connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None, compression=None)


def _all_processes() -> Iterator[int]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (entry / "stat").exists():
            yield int(entry.name)


def _stat_of(pid: int) -> list[str]:
    """The fields after the program's name: state, parent, and so on; zeros if it has just ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 20
