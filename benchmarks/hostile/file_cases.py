"""Hostile files as calls: served on this machine where a call names an address, else sent with it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from benchmarks.hostile.bodies import BOUNDARY, JSON, PARTS, Case, Sent
from benchmarks.hostile.files import PDF_FIELD, HostileFile, hostile_files

PERSON = {"name": "Jane Doe", "address": "12 Main St", "city": "Austin", "state": "TX", "zip": "78701"}


@contextmanager
def file_cases() -> Iterator[list[Case]]:
    """Calls that make previews of the files or, of a spreadsheet, look into it."""
    files = hostile_files()

    class Serving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number, kind = self.path.strip("/").split("/")[:2]
            file = files[int(number)]
            self.send_response(200)
            self.send_header("Content-Type", file.content_type)
            self.end_headers()
            self.wfile.write(file.data if kind == "hostile" else file.honest)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Serving)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        here = f"http://127.0.0.1:{server.server_address[1]}"
        yield [_case(file, f"{here}/{number}") for number, file in enumerate(files)]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _case(file: HostileFile, address: str) -> Case:
    if file.field == "file":
        return Case(file.name, _uploaded(file.data), _uploaded(file.honest))
    return Case(file.name, _preview(file.field, f"{address}/hostile"), _preview(file.field, f"{address}/honest"))


def _preview(field: str, address: str) -> Sent:
    piece = "windowed-letter" if field == PDF_FIELD else "postcard"
    words = {} if field == PDF_FIELD else {"message": "Hello!"}
    body = {"preview": True, "recipients": [PERSON], field: address, **words}
    return Sent(f"/api/v2/send/{piece}", JSON, json.dumps(body).encode())


def _uploaded(data: bytes) -> Sent:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="people.xlsx"\r\n\r\n'
    body = head.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()
    return Sent("/api/v2/imports/preview", PARTS, body)
