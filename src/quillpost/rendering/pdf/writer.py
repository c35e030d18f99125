"""A compact PDF writer: numbered objects, deflated streams, object streams, one xref stream."""

import hashlib
from collections.abc import Sequence

import numpy as np
from isal import isal_zlib

from quillpost.rendering.pdf.color import output_intent
from quillpost.rendering.pdf.metadata import PartTree, Press, information, xmp_packet

_PACK = 200
_PAGES_A_NODE = 100
_HEADER = b"%PDF-1.6\n%\xe2\xe3\xcf\xd3\n"
# The fastest: a batch costs a fifth more bytes than with the next level, and a fifth less time.
_LEVEL = 0
_XREF_LEVEL = 2

_IN_FILE = 1
_IN_PACK = 2
# An xref row as /W[1 8 2] spells it: its kind, then offset and 0, or its pack and place therein.
_ROW = np.dtype([("kind", "u1"), ("where", ">u8"), ("place", ">u2")])
_UP = 2

_PLAIN_INFO = b"<</Producer(Quillpost)/Trapped/False>>"


def deflate(data: bytes, level: int = _LEVEL) -> bytes:
    compressed: bytes = isal_zlib.compress(data, level)
    return compressed


class PdfFile:
    """Objects in, one file out. Small objects are packed and deflated together.

    With a `press` the file is PDF/X-4 and PDF/VT-1: every page must then follow a `begin_part`.
    Without one it is a plain PDF, and parts are passed over.
    """

    def __init__(self, press: Press | None = None) -> None:
        self._press = press
        self._chunks: list[bytes] = [_HEADER]
        self._length = len(_HEADER)
        self._checks: list[int] = []
        self._last = 0
        self._offsets: list[tuple[int, int]] = []
        self._packs: list[tuple[int, list[int]]] = []
        self._waiting: list[tuple[int, bytes]] = []
        self._shared: dict[tuple[bytes, bytes], int] = {}
        self._pages: list[int] = []
        self._nodes: list[int] = []
        self._root_node = self.reserve()
        self._parts = PartTree(self) if press else None

    def reserve(self) -> int:
        """A number for an object that is put later."""
        self._last += 1
        return self._last

    def put(self, number: int, body: bytes) -> int:
        self._waiting.append((number, body))
        if len(self._waiting) >= _PACK:
            self._pack()
        return number

    def add(self, body: bytes) -> int:
        return self.put(self.reserve(), body)

    def add_stream(self, data: bytes, entries: bytes = b"", *, is_final: bool = False) -> int:
        """A stream object; `is_final` data stays as it is, with its /Filter, if any, among its entries."""
        if not is_final:
            data, entries = deflate(data), entries + b"/Filter/FlateDecode"
        return self._write_stream(self.reserve(), data, entries)

    def take(self, objects: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Objects whose numbers follow on from `last`: their body, or the entries and the data of a stream,
        which stay as they are."""
        first = self.last + 1
        self._last += len(objects)
        for number, (body, data) in enumerate(objects, first):
            if data is None:
                self.put(number, body)
            else:
                self._write_stream(number, data, body)

    @property
    def last(self) -> int:
        """The number of the newest object."""
        return self._last

    def add_shared_stream(self, data: bytes, entries: bytes = b"") -> int:
        """A stream that the file holds once, however often it is added."""
        key = (hashlib.sha256(data).digest(), entries)
        if key not in self._shared:
            self._shared[key] = self.add_stream(data, entries)
        return self._shared[key]

    def begin_part(self, piece: bytes, product: bytes = b"(Postcard)") -> None:
        """The pages from here on, up to the next part, are one recipient's.

        `piece` identifies the recipient's piece: printable ASCII without brackets and backslashes.
        `product` is a PDF string that says what is made of it.
        """
        if self._parts is not None:
            self._parts.begin(piece, product)

    def add_page(self, entries: bytes, contents: Sequence[int]) -> int:
        """One page; `entries` are its boxes and resources, `contents` run one after the other."""
        return self.put_page(entries + b"/Contents[", references(contents))

    def put_page(self, entries: bytes, contents: bytes) -> int:
        """The same for entries that end in the beginning of the list of contents."""
        if len(self._pages) % _PAGES_A_NODE == 0:
            self._nodes.append(self.reserve())
        number = self.reserve()
        self._pages.append(number)
        part = self._parts.take(number) if self._parts is not None else b""
        return self.put(
            number, b"<</Type/Page/Parent %d 0 R%b%b%b]>>" % (self._nodes[-1], part, entries, contents)
        )

    def finish(self) -> bytes:
        """The whole file."""
        self._put_page_tree()
        readiness, info = b"", _PLAIN_INFO
        if self._press is not None:
            readiness = self._put_readiness(self._press)
            info = information(self._press)
        catalog = self.add(b"<</Type/Catalog/Pages %d 0 R%b>>" % (self._root_node, readiness))
        information_number = self.add(info)
        self._pack()
        start = self._length
        self._write_xref(catalog, information_number)
        return b"".join([*self._chunks, b"startxref\n%d\n%%%%EOF\n" % start])

    def _put_readiness(self, press: Press) -> bytes:
        """What the catalog says of a file that a press takes as it is."""
        assert self._parts is not None
        parts = self._parts.finish()
        intent = output_intent(self, press.intent)
        self._pack()
        packet = xmp_packet(press, self._digest())
        # Readable by tools that know no compression.
        metadata = self.add_stream(packet, b"/Type/Metadata/Subtype/XML", is_final=True)
        return b"/Metadata %d 0 R/OutputIntents[%b]/DPartRoot %d 0 R" % (metadata, intent, parts)

    def _digest(self) -> bytes:
        """The file's identity is its content, told by a check of each stream, which is quickly made."""
        return hashlib.sha256(np.array(self._checks, ">u4").tobytes()).digest()[:16]

    def _put_page_tree(self) -> None:
        for index, node in enumerate(self._nodes):
            kids = self._pages[index * _PAGES_A_NODE : (index + 1) * _PAGES_A_NODE]
            self.put(
                node,
                b"<</Type/Pages/Parent %d 0 R/Count %d/Kids[%b]>>"
                % (self._root_node, len(kids), references(kids)),
            )
        self.put(
            self._root_node,
            b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(self._pages), references(self._nodes)),
        )

    def _pack(self) -> None:
        """Write the waiting small objects as one object stream."""
        if not self._waiting:
            return
        index, offset = [], 0
        for number, body in self._waiting:
            index.append(b"%d %d" % (number, offset))
            offset += len(body) + 1
        head = b" ".join(index) + b"\n"
        entries = b"/Type/ObjStm/N %d/First %d/Filter/FlateDecode" % (len(index), len(head))
        numbers, bodies = zip(*self._waiting, strict=True)
        self._waiting = []
        pack = self._write_stream(self.reserve(), deflate(head + b"\n".join(bodies)), entries)
        self._packs.append((pack, list(numbers)))

    def _write_stream(self, number: int, data: bytes, entries: bytes) -> int:
        self._offsets.append((number, self._length))
        chunk = b"%d 0 obj<<%b/Length %d>>stream\n%b\nendstream\nendobj\n" % (
            number,
            entries,
            len(data),
            data,
        )
        self._chunks.append(chunk)
        self._checks.append(isal_zlib.crc32(chunk))
        self._length += len(chunk)
        return number

    def _write_xref(self, catalog: int, info: int) -> None:
        digest = self._digest().hex().encode()
        xref = self.reserve()
        self._write_stream(
            xref,
            deflate(_filtered_up(self._rows(xref)), _XREF_LEVEL),
            b"/Type/XRef/Size %d/W[1 8 2]/Root %d 0 R/Info %d 0 R/ID[<%b><%b>]/Filter/FlateDecode"
            b"/DecodeParms<</Predictor 12/Columns %d>>"
            % (self._last + 1, catalog, info, digest, digest, _ROW.itemsize),
        )

    def _rows(self, xref: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Where each object is; numbers that were reserved and never put stay free."""
        rows = np.zeros(self._last + 1, _ROW)
        rows["place"][0] = 65535
        in_file = np.array([*self._offsets, (xref, self._length)], np.int64)
        rows["kind"][in_file[:, 0]] = _IN_FILE
        rows["where"][in_file[:, 0]] = in_file[:, 1]
        for pack, numbers in self._packs:
            rows["kind"][numbers] = _IN_PACK
            rows["where"][numbers] = pack
            rows["place"][numbers] = np.arange(len(numbers))
        return rows


def references(numbers: Sequence[int]) -> bytes:
    return b" ".join([b"%d 0 R" % number for number in numbers])


def _filtered_up(rows: np.ndarray[tuple[int], np.dtype[np.void]]) -> bytes:
    """Each row as its difference from the one above, which deflates to next to nothing."""
    table = rows.view(np.uint8).reshape(len(rows), _ROW.itemsize)
    filtered = np.empty((len(rows), _ROW.itemsize + 1), np.uint8)
    filtered[:, 0] = _UP
    filtered[0, 1:] = table[0]
    np.subtract(table[1:], table[:-1], out=filtered[1:, 1:])
    return filtered.tobytes()
