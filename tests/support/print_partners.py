"""Every kind of print partner with the printer behind it, so that one set of tests holds for all."""

import base64
import hashlib
import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from quillpost.fulfillment.ports import PrintJob, PrintPartner
from quillpost.integrations.folders.local import LocalFolder
from quillpost.integrations.printing.folder import FolderPartner, HotFolder
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.storage.objects import build_folder_store
from support.fake_server import FakeRequest, FakeResponse, FakeServer, respond
from support.sftp_server import PASSWORD, USER, SftpServer

SECRET = "whsec_" + base64.b64encode(b"print house secret, 32 bytes ...").decode()


class PrintServer(FakeServer):
    """Believes only what is signed, for exactly this request. `breaks_off_at` names files in whose middle it hangs up,
    as often as they are named."""

    path = "/press"

    def __init__(self) -> None:
        job = "/press/jobs/{reference}"
        super().__init__({f"PUT {job}/{{file}}": self._take, f"PUT {job}": self._take, f"GET {job}": self._tell})
        self.files: dict[str, dict[str, bytes]] = {}
        self.tickets: dict[str, dict[str, Any]] = {}
        self.progress: dict[str, Any] = {}
        self.breaks_off_at: list[str] = []
        self.stamps: list[int] = []
        self.paths: list[str] = []

    def hangs_up_on(self, request: FakeRequest) -> bool:
        self.paths.append(f"{request.method.lower()} {request.path}")
        self.stamps.append(int(request.headers["webhook-timestamp"]))
        file = request.path.rpartition("/")[2]
        if file not in self.breaks_off_at:
            return False
        self.breaks_off_at.remove(file)
        return True

    def _take(self, request: FakeRequest, reference: str, file: str | None = None) -> FakeResponse:
        if refusal := _refusal(request, is_json=file is None):
            return refusal
        digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
        if request.headers["content-digest"] != f"sha-256=:{digest}:":
            return respond(400, b"The digest does not fit.")
        if file is not None:
            self.files.setdefault(reference, {})[file] = request.body
        else:
            self.tickets[reference] = request.json()
        return respond(201)

    def _tell(self, request: FakeRequest, reference: str) -> FakeResponse:
        known = respond(200, self.progress) if reference in self.tickets else respond(404, b"no such job")
        return _refusal(request, is_json=False) or known


def _refusal(request: FakeRequest, *, is_json: bool) -> FakeResponse | None:
    if not _is_signed(request, is_json=is_json):
        return respond(401, b"This is not signed with our secret.")
    if request.headers["webhook-id"] != f"{request.method.lower()}:{request.path.removeprefix('/press/jobs/')}":
        return respond(401, b"This signature is for another request.")
    return None


def _is_signed(request: FakeRequest, *, is_json: bool) -> bool:
    """The library of the convention reads JSON only; other bodies are checked by hand."""
    if is_json:
        try:
            Webhook(SECRET).verify(request.body, dict(request.headers))
        except WebhookVerificationError:
            return False
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    genuine = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return f"v1,{genuine}" in request.headers["webhook-signature"].split()


REFERENCE = "batch-000007"
FILES = {
    "print.pdf": b"%PDF-" + b"x" * 300_000,
    "envelopes.pdf": b"%PDF-envelopes",
    "manifest.csv": b"item_id\r\n17\r\n",
    "manifest.json": b'{"pieces": [{"item_id": 17, "name": "Jane Doe"}]}',
    "statement.json": b"{}",
    "ticket.xjdf": b"<XJDF/>",
}


def now() -> datetime:
    """The printers of these tests live in our own time: signatures grow old."""
    return datetime.now(UTC)


def job(reference: str = REFERENCE, /, **changes: bytes) -> PrintJob:
    files = FILES | {"ticket.json": b'{"of": "production"}'} | changes
    return PrintJob(reference, files, {"reference": reference, "piece": "postcard-4x6", "pieces": 1})


class Printer(ABC):
    """The other side of a partner."""

    partner: PrintPartner
    settings: dict[str, object]
    """With which the service finds it."""

    @abstractmethod
    def jobs(self) -> list[str]:
        """The jobs that it would begin to print."""

    @abstractmethod
    def files(self, reference: str) -> dict[str, bytes]:
        """All but the JSON ticket."""

    @abstractmethod
    def ticket(self, reference: str) -> dict[str, Any]: ...

    @abstractmethod
    def says(self, reference: str, event: str, at: datetime, **more: Any) -> None: ...

    @abstractmethod
    def break_off(self) -> None:
        """Fail once, in the middle of the next job."""

    @abstractmethod
    def go_away(self) -> None:
        """Be out of reach from now on."""

    @abstractmethod
    def come_back(self) -> None: ...


class FolderPrinter(Printer):
    """Looks into a folder."""

    def __init__(self, partner: PrintPartner, root: Path) -> None:
        self.partner = partner
        self.root = root

    def jobs(self) -> list[str]:
        """Of those who look into the folder: with a ticket, and not out of sight."""
        return sorted(
            folder.parent.name for folder in self.root.glob("*/ticket.json") if not folder.parent.name.startswith(".")
        )

    def files(self, reference: str) -> dict[str, bytes]:
        inside = (self.root / reference).iterdir()
        return {file.name: file.read_bytes() for file in inside if file.name != "ticket.json"}

    def ticket(self, reference: str) -> dict[str, Any]:
        return dict(json.loads((self.root / reference / "ticket.json").read_bytes()))

    def says(self, reference: str, event: str, at: datetime, **more: Any) -> None:
        mark = self.root / reference / f"{event}.json"
        mark.write_text(json.dumps({"at": at.isoformat()} | more))

    def go_away(self) -> None:
        self.root.rename(self.root.with_name("elsewhere"))

    def come_back(self) -> None:
        self.root.with_name("elsewhere").rename(self.root)


class StorePrinter(FolderPrinter):
    def __init__(self, folder: Path) -> None:
        self._store = build_folder_store(folder / "files")
        super().__init__(FolderPartner(self._store, "print-jobs/live"), folder / "files/print-jobs/live")
        self.settings = {"print_partner": "folder"}
        self._folder = folder

    def break_off(self) -> None:
        """The third file cannot be written, once."""
        left = [3]
        put = self._store.put

        def put_until(key: str, data: bytes) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("broken")
            put(key, data)

        self._store.put = put_until  # type: ignore[method-assign]

    def go_away(self) -> None:
        (self._folder / "files").rename(self._folder / "elsewhere")

    def come_back(self) -> None:
        (self._folder / "elsewhere").rename(self._folder / "files")


class LocalPrinter(FolderPrinter):
    def __init__(self, folder: Path) -> None:
        root = folder / "hot"
        root.mkdir()
        self._place = LocalFolder(root)
        super().__init__(HotFolder(self._place), root)
        self.settings = {"print_partner": f"file://{root}"}

    def break_off(self) -> None:
        """As a disk that is full."""
        put, left = self._place.put, [3]

        def put_until(name: str, data: bytes, **how: bool) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("broken")
            put(name, data, **how)

        self._place.put = put_until  # type: ignore[method-assign]


class SftpPrinter(FolderPrinter):
    def __init__(self, house: SftpServer, folder: Path) -> None:
        super().__init__(HotFolder(house.place(folder)), house.root)
        self._house = house
        self.settings = {
            "print_partner": f"sftp://{USER}@127.0.0.1:{house.port}/",
            "sftp_password": PASSWORD,
            "sftp_known_hosts": folder / "known_hosts",
        }

    def break_off(self) -> None:
        self._house.breaks_after = self._house.written + 1_000

    def go_away(self) -> None:
        self._house.close()

    def come_back(self) -> None:
        self._house.open()


class HttpPrinter(Printer):
    def __init__(self, house: PrintServer) -> None:
        self.partner = HttpPartner(house.url(), secrets=[SECRET], seconds=10)
        self.house = house
        self.settings = {"print_partner": house.url(), "print_secret": SECRET}

    def jobs(self) -> list[str]:
        return sorted(self.house.tickets)

    def files(self, reference: str) -> dict[str, bytes]:
        return self.house.files[reference]

    def ticket(self, reference: str) -> dict[str, Any]:
        return self.house.tickets[reference]

    def says(self, reference: str, event: str, at: datetime, **more: Any) -> None:
        self.house.progress |= {f"{event}_at": at.isoformat()} | more

    def break_off(self) -> None:
        # Once is no fault: what was said over a connection that had been in use is said again.
        self.house.breaks_off_at = ["manifest.csv", "manifest.csv"]

    def go_away(self) -> None:
        self.house.close()

    def come_back(self) -> None:
        self.house.open()


KINDS = ("store", "local", "sftp", "http")


@contextmanager
def printer_of(kind: str, folder: Path) -> Iterator[Printer]:
    match kind:
        case "store":
            yield StorePrinter(folder)
        case "local":
            yield LocalPrinter(folder)
        case "sftp":
            with SftpServer(folder / "hot") as house:
                yield SftpPrinter(house, folder)
        case _:
            with PrintServer() as house:
                yield HttpPrinter(house)
