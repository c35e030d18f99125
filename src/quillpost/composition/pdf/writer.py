"""A compact PDF writer: numbered objects, deflated streams, object streams, one xref stream."""

import hashlib
import struct
from collections.abc import Sequence

from isal import isal_zlib

_PACK = 100
_PAGES_A_NODE = 100
_HEADER = b"%PDF-1.6\n%\xe2\xe3\xcf\xd3\n"
_LEVEL = 2

_IN_FILE = 1
_IN_PACK = 2


def deflate(data: bytes) -> bytes:
    compressed: bytes = isal_zlib.compress(data, _LEVEL)
    return compressed


class PdfFile:
    """Objects in, one file out. Small objects are packed and deflated together."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = [_HEADER]
        self._length = len(_HEADER)
        # One row an object: its kind, then offset and 0, or its pack and place therein.
        self._rows: list[tuple[int, int, int]] = [(0, 0, 65535)]
        self._waiting: list[tuple[int, bytes]] = []
        self._pages: list[int] = []
        self._nodes: list[int] = []
        self._root_node = self.reserve()

    def reserve(self) -> int:
        """A number for an object that is put later."""
        self._rows.append((0, 0, 0))
        return len(self._rows) - 1

    def put(self, number: int, body: bytes) -> int:
        self._waiting.append((number, body))
        if len(self._waiting) >= _PACK:
            self._pack()
        return number

    def add(self, body: bytes) -> int:
        return self.put(self.reserve(), body)

    def add_stream(self, data: bytes, entries: bytes = b"", *, is_compressed: bool = False) -> int:
        """A stream object; `is_compressed` data brings its own /Filter in its entries."""
        if not is_compressed:
            data, entries = deflate(data), entries + b"/Filter/FlateDecode"
        return self._write_stream(self.reserve(), data, entries)

    def add_page(self, entries: bytes, contents: Sequence[int]) -> int:
        """One page; `entries` are its boxes and resources, `contents` run one after the other."""
        if len(self._pages) % _PAGES_A_NODE == 0:
            self._nodes.append(self.reserve())
        page = self.add(
            b"<</Type/Page/Parent %d 0 R%b/Contents[%b]>>" % (self._nodes[-1], entries, _references(contents))
        )
        self._pages.append(page)
        return page

    def finish(self, info: bytes) -> bytes:
        """The whole file; `info` is the body of the document information dictionary."""
        self._put_page_tree()
        catalog = self.add(b"<</Type/Catalog/Pages %d 0 R>>" % self._root_node)
        information = self.add(info)
        self._pack()
        # The file's identity is its content: the same pieces give the same bytes.
        digest = hashlib.sha256(b"".join(self._chunks)).hexdigest()[:32].encode()
        xref = self.reserve()
        self._rows[xref] = (_IN_FILE, self._length, 0)
        start = self._length
        rows = b"".join(struct.pack(">BQH", *row) for row in self._rows)
        self._write_stream(
            xref,
            deflate(rows),
            b"/Type/XRef/Size %d/W[1 8 2]/Root %d 0 R/Info %d 0 R/ID[<%b><%b>]/Filter/FlateDecode"
            % (len(self._rows), catalog, information, digest, digest),
        )
        return b"".join([*self._chunks, b"startxref\n%d\n%%%%EOF\n" % start])

    def _put_page_tree(self) -> None:
        for index, node in enumerate(self._nodes):
            kids = self._pages[index * _PAGES_A_NODE : (index + 1) * _PAGES_A_NODE]
            self.put(
                node,
                b"<</Type/Pages/Parent %d 0 R/Count %d/Kids[%b]>>"
                % (self._root_node, len(kids), _references(kids)),
            )
        self.put(
            self._root_node,
            b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(self._pages), _references(self._nodes)),
        )

    def _pack(self) -> None:
        """Write the waiting small objects as one object stream."""
        if not self._waiting:
            return
        pack = self.reserve()
        index, bodies, offset = [], [], 0
        for place, (number, body) in enumerate(self._waiting):
            self._rows[number] = (_IN_PACK, pack, place)
            index.append(b"%d %d" % (number, offset))
            bodies.append(body)
            offset += len(body) + 1
        head = b" ".join(index) + b"\n"
        entries = b"/Type/ObjStm/N %d/First %d/Filter/FlateDecode" % (len(bodies), len(head))
        self._waiting = []
        self._write_stream(pack, deflate(head + b"\n".join(bodies)), entries)

    def _write_stream(self, number: int, data: bytes, entries: bytes) -> int:
        self._rows[number] = (_IN_FILE, self._length, 0)
        chunk = b"%d 0 obj<<%b/Length %d>>stream\n%b\nendstream\nendobj\n" % (
            number,
            entries,
            len(data),
            data,
        )
        self._chunks.append(chunk)
        self._length += len(chunk)
        return number


def _references(numbers: Sequence[int]) -> bytes:
    return b" ".join(b"%d 0 R" % number for number in numbers)
