"""Installs what comes from npm: the scripts of our pages, and typefaces for kanji and emoji. Quillpost works without
them: pages load as a whole, nothing on them is live, and those characters are left out of messages."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PACKAGE_FILES = ("package.json", "package-lock.json")
OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
# Fails at once when offline, also where a network drops everything silently.
RETRY_OPTIONS = ("--fetch-retries=0", "--fetch-timeout=20000")
TIMEOUT_SECONDS = 180
RETRY_SECONDS = 3600

MISSING_FEATURES = "Pages are without their scripts for now, and Japanese and Chinese letters and emoji are left out"
FAILED = f"{MISSING_FEATURES}, as npm could not fetch them ({{reason}}); `make setup` tries again in an hour."
NO_NPM = (
    f"{MISSING_FEATURES}: there is no npm, and none could be fetched ({{reason}}). "
    "Install Node.js with npm and run `make setup` to have them."
)

OwnNpm = Callable[[], list[str]]
"""Fetches an npm for a machine without one, and returns its command. Raises OSError if that fails."""


class NodePackages:
    """The `node_modules` of a checkout, as its package files describe them."""

    def __init__(self, root: Path, notes: Path, own_npm: OwnNpm) -> None:
        self._root = root
        self._stamp = root / "node_modules" / "made-of"
        self._note = notes / "node-packages-tried"
        self._own_npm = own_npm

    def are_missing(self) -> bool:
        """Whether they are missing or outdated, and the last failed attempt is not recent."""
        return not self._are_ready() and not self._failed_recently()

    def install(self) -> None:
        """Fetch them with npm. If that fails, print what is missing and continue."""
        if not self.are_missing():  # another process installed them while we waited
            return
        if failure := self._run_npm():
            print(failure, flush=True)
            self._note.write_text(self._attempt())
            return
        self._stamp.write_text(self._digest())
        self._note.unlink(missing_ok=True)

    def _run_npm(self) -> str:
        """The message about a failure, or nothing."""
        npm = shutil.which("npm")
        try:
            command = [npm] if npm else self._own_npm()
        except OSError as error:
            return NO_NPM.format(reason=error)
        reason = self._fetch(command)
        return FAILED.format(reason=reason) if reason else ""

    def _fetch(self, npm: list[str]) -> str:
        """What went wrong, or nothing."""
        count = len(json.loads((self._root / "package.json").read_text())["dependencies"])
        print(f"  node_modules: {count} packages ...", flush=True)
        command = [*npm, "ci", *OPTIONS, *RETRY_OPTIONS]
        if not os.access(Path(os.path.expanduser("~")), os.W_OK):  # noqa: PTH111 (Path.home fails without one)
            command += ["--cache", str(self._note.parent / "npm")]
        try:
            done = subprocess.run(
                command, cwd=self._root, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {TIMEOUT_SECONDS} seconds"
        except OSError as error:
            return str(error)
        return "" if done.returncode == 0 else _summarize(done.stderr)

    def _are_ready(self) -> bool:
        return self._stamp.exists() and self._stamp.read_text() == self._digest()

    def _failed_recently(self) -> bool:
        if not self._note.exists() or self._note.read_text() != self._attempt():
            return False
        return time.time() - self._note.stat().st_mtime < RETRY_SECONDS

    def _attempt(self) -> str:
        """What an attempt depends on: with another npm, or other files, it may succeed."""
        return f"{self._digest()} {shutil.which('npm')}"

    def _digest(self) -> str:
        files = [self._root / name for name in PACKAGE_FILES]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _summarize(output: str) -> str:
    """The line of npm's output that says most."""
    lines = [line.removeprefix("npm error ").strip() for line in output.splitlines()]
    candidates = [line for line in lines if line and not line.startswith("A complete log")]
    named = [line for line in candidates if line.startswith(("network", "code "))]
    return (named or candidates or ["it did not say why"])[0]
