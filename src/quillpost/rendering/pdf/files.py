"""PDF files, written object by object; one for the press with its metadata and document parts (PDF/VT-1)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from uuid import UUID
from xml.sax.saxutils import escape

import numpy as np
from isal import isal_zlib

from quillpost.rendering.pdf.color import SRGB, ObjectWriter, OutputIntent, output_intent_entry, text_string
from quillpost.rendering.pdf.png import filter_up

_PRODUCER = "Quillpost"

# The names of the namespaces are fixed by the standards; nothing is fetched from there.
_XMP_TEMPLATE = files(__package__).joinpath("metadata.xml").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class PrintMetadata:
    """`made_at` knows its time zone; it is written in UTC."""

    title: str
    made_at: datetime
    intent: OutputIntent = SRGB

    def __post_init__(self) -> None:
        if self.made_at.tzinfo is None:
            raise ValueError("the moment a file was made needs a time zone")
        if not self.title.strip():
            raise ValueError("a file for the press needs a title")


def information_dictionary(print_metadata: PrintMetadata) -> bytes:
    """It agrees with the XMP packet."""
    date = print_metadata.made_at.astimezone(UTC).strftime("D:%Y%m%d%H%M%SZ").encode()
    maker = text_string(_PRODUCER)
    title = text_string(_printable_title(print_metadata.title))
    values = (title, maker, maker, date, date)
    return (
        b"<</Title%b/Creator%b/Producer%b/CreationDate(%b)/ModDate(%b)/Trapped/False/GTS_PDFXVersion(PDF/X-4)>>"
        % values
    )


def xmp_packet(print_metadata: PrintMetadata, digest: bytes) -> bytes:
    """The file's identity is made of its content's `digest`, 16 bytes."""
    return _XMP_TEMPLATE.format(
        title=escape(_printable_title(print_metadata.title)),
        date=print_metadata.made_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        maker=_PRODUCER,
        identity=UUID(bytes=digest, version=5),
    ).encode()


def _printable_title(title: str) -> str:
    """Without what XML cannot hold and readers would trim."""
    return "".join(char if char.isprintable() else " " for char in title).strip()


_PARTS_PER_NODE = 100
_RECORD_LEVEL = 2  # the root and its groups are above the recipients


class DocumentPartTree:
    """One part a recipient, a hundred recipients a group, all groups under one root."""

    def __init__(self, pdf: ObjectWriter) -> None:
        self._pdf = pdf
        self._root = pdf.reserve()
        self._top_node = pdf.reserve()
        self._groups: list[int] = []
        self._parts: list[int] = []
        self._part_identity = b"", b""
        self._pages: list[int] = []

    def begin_part(self, item_id: bytes, product_type: bytes) -> None:
        self._close_part()
        if len(self._parts) % _PARTS_PER_NODE == 0:
            self._groups.append(self._pdf.reserve())
        self._parts.append(self._pdf.reserve())
        self._part_identity = item_id, product_type

    def add_page(self, page: int) -> bytes:
        """The entry that ties the page to the current part."""
        if not self._parts:
            raise ValueError("a page of a file for the press belongs to a part: begin one first")
        self._pages.append(page)
        return b"/DPart %d 0 R" % self._parts[-1]

    def finish(self) -> int:
        self._close_part()
        for index, group in enumerate(self._groups):
            parts = self._parts[index * _PARTS_PER_NODE : (index + 1) * _PARTS_PER_NODE]
            self._put_node(group, self._top_node, parts)
        self._put_node(self._top_node, self._root, self._groups)
        return self._pdf.put(
            self._root,
            b"<</Type/DPartRoot/DPartRootNode %d 0 R/RecordLevel %d/NodeNameList[/Batch/Group/Piece]>>"
            % (self._top_node, _RECORD_LEVEL),
        )

    def _close_part(self) -> None:
        if not self._parts:
            return
        if not self._pages:
            raise ValueError("a part without pages")
        self._pdf.put(
            self._parts[-1],
            b"<</Type/DPart/Parent %d 0 R/Start %d 0 R/End %d 0 R/DPM<</CIP4_Root<<"
            b"/CIP4_Recipient<</CIP4_UniqueID(%b)>>/CIP4_Intent<</CIP4_ProductType%b>>>>>>>>"
            % (self._groups[-1], self._pages[0], self._pages[-1], *self._part_identity),
        )
        self._pages = []

    def _put_node(self, number: int, parent: int, parts: list[int]) -> None:
        children = b" ".join([b"%d 0 R" % part for part in parts])
        self._pdf.put(number, b"<</Type/DPart/Parent %d 0 R/DParts[[%b]]>>" % (parent, children))


_OBJECTS_PER_STREAM = 200
_PAGES_PER_NODE = 100
_HEADER = b"%PDF-1.6\n%\xe2\xe3\xcf\xd3\n"
# The fastest: a batch costs a fifth more bytes than with the next level, and a fifth less time.
_COMPRESSION_LEVEL = 0
_XREF_COMPRESSION_LEVEL = 2

_XREF_IN_FILE = 1
_XREF_IN_OBJECT_STREAM = 2
# An xref row as /W[1 8 2] spells it: its kind, then offset and 0, or its pack and place therein.
_XREF_ROW = np.dtype([("kind", "u1"), ("where", ">u8"), ("place", ">u2")])

_PLAIN_INFORMATION = b"<</Producer(Quillpost)/Trapped/False>>"


def deflate(data: bytes, level: int = _COMPRESSION_LEVEL) -> bytes:
    compressed: bytes = isal_zlib.compress(data, level)
    return compressed


class PdfFile:
    """Objects in, one file out; small objects are packed and deflated together.

    With metadata the file is PDF/X-4 and PDF/VT-1, and every page must follow a `begin_part`.
    """

    def __init__(self, print_metadata: PrintMetadata | None = None) -> None:
        self._print_metadata = print_metadata
        self._chunks: list[bytes] = [_HEADER]
        self._length = len(_HEADER)
        self._stream_checksums: list[int] = []
        self._last_number = 0
        self._offsets: list[tuple[int, int]] = []
        self._object_streams: list[tuple[int, list[int]]] = []
        self._pending_objects: list[tuple[int, bytes]] = []
        self._shared_streams: dict[tuple[bytes, bytes], int] = {}
        self._pages: list[int] = []
        self._page_nodes: list[int] = []
        self._root_node = self.reserve()
        self._part_tree = DocumentPartTree(self) if print_metadata else None

    def reserve(self) -> int:
        self._last_number += 1
        return self._last_number

    def put(self, number: int, body: bytes) -> int:
        self._pending_objects.append((number, body))
        if len(self._pending_objects) >= _OBJECTS_PER_STREAM:
            self._write_object_stream()
        return number

    def add(self, body: bytes) -> int:
        return self.put(self.reserve(), body)

    def add_stream(self, data: bytes, entries: bytes = b"", *, is_final: bool = False) -> int:
        """`is_final` data stays as it is, with its /Filter, if any, among its entries."""
        if not is_final:
            data, entries = deflate(data), entries + b"/Filter/FlateDecode"
        return self._write_stream(self.reserve(), data, entries)

    def add_copied_objects(self, objects: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Objects numbered on from `last_number`: a body, or the entries and final data of a stream."""
        first_number = self.last_number + 1
        self._last_number += len(objects)
        for number, (body, data) in enumerate(objects, first_number):
            if data is None:
                self.put(number, body)
            else:
                self._write_stream(number, data, body)

    @property
    def last_number(self) -> int:
        return self._last_number

    def add_shared_stream(self, data: bytes, entries: bytes = b"") -> int:
        """A stream that the file holds once, however often it is added."""
        key = (hashlib.sha256(data).digest(), entries)
        if key not in self._shared_streams:
            self._shared_streams[key] = self.add_stream(data, entries)
        return self._shared_streams[key]

    def begin_part(self, item_id: bytes, product_type: bytes = b"(Postcard)") -> None:
        """The pages from here to the next part are one recipient's.

        `item_id` is printable ASCII without brackets and backslashes, `product_type` a PDF string.
        """
        if self._part_tree is not None:
            self._part_tree.begin_part(item_id, product_type)

    def add_page(self, entries: bytes, contents: Sequence[int]) -> int:
        """`entries` are boxes and resources; `contents` run one after the other."""
        return self.put_open_page(entries + b"/Contents[", format_references(contents))

    def put_open_page(self, entries: bytes, contents: bytes) -> int:
        """The same for entries that end in the open list of contents."""
        if len(self._pages) % _PAGES_PER_NODE == 0:
            self._page_nodes.append(self.reserve())
        number = self.reserve()
        self._pages.append(number)
        part = self._part_tree.add_page(number) if self._part_tree is not None else b""
        return self.put(
            number, b"<</Type/Page/Parent %d 0 R%b%b%b]>>" % (self._page_nodes[-1], part, entries, contents)
        )

    def finish(self) -> bytes:
        self._put_page_tree()
        print_entries, info = b"", _PLAIN_INFORMATION
        if self._print_metadata is not None:
            print_entries = self._put_print_entries(self._print_metadata)
            info = information_dictionary(self._print_metadata)
        catalog = self.add(b"<</Type/Catalog/Pages %d 0 R%b>>" % (self._root_node, print_entries))
        information_number = self.add(info)
        self._write_object_stream()
        start = self._length
        self._write_xref(catalog, information_number)
        return b"".join([*self._chunks, b"startxref\n%d\n%%%%EOF\n" % start])

    def _put_print_entries(self, print_metadata: PrintMetadata) -> bytes:
        assert self._part_tree is not None
        part_tree = self._part_tree.finish()
        intent = output_intent_entry(self, print_metadata.intent)
        self._write_object_stream()
        packet = xmp_packet(print_metadata, self._content_digest())
        # Readable by tools that know no compression.
        metadata = self.add_stream(packet, b"/Type/Metadata/Subtype/XML", is_final=True)
        return b"/Metadata %d 0 R/OutputIntents[%b]/DPartRoot %d 0 R" % (metadata, intent, part_tree)

    def _content_digest(self) -> bytes:
        """The content's identity, from a fast checksum of each stream."""
        return hashlib.sha256(np.array(self._stream_checksums, ">u4").tobytes()).digest()[:16]

    def _put_page_tree(self) -> None:
        for index, node in enumerate(self._page_nodes):
            kids = self._pages[index * _PAGES_PER_NODE : (index + 1) * _PAGES_PER_NODE]
            self.put(
                node,
                b"<</Type/Pages/Parent %d 0 R/Count %d/Kids[%b]>>"
                % (self._root_node, len(kids), format_references(kids)),
            )
        self.put(
            self._root_node,
            b"<</Type/Pages/Count %d/Kids[%b]>>" % (len(self._pages), format_references(self._page_nodes)),
        )

    def _write_object_stream(self) -> None:
        if not self._pending_objects:
            return
        index, offset = [], 0
        for number, body in self._pending_objects:
            index.append(b"%d %d" % (number, offset))
            offset += len(body) + 1
        head = b" ".join(index) + b"\n"
        entries = b"/Type/ObjStm/N %d/First %d/Filter/FlateDecode" % (len(index), len(head))
        numbers, bodies = zip(*self._pending_objects, strict=True)
        self._pending_objects = []
        stream_number = self._write_stream(self.reserve(), deflate(head + b"\n".join(bodies)), entries)
        self._object_streams.append((stream_number, list(numbers)))

    def _write_stream(self, number: int, data: bytes, entries: bytes) -> int:
        self._offsets.append((number, self._length))
        chunk = b"%d 0 obj<<%b/Length %d>>stream\n%b\nendstream\nendobj\n" % (number, entries, len(data), data)
        self._chunks.append(chunk)
        self._stream_checksums.append(isal_zlib.crc32(chunk))
        self._length += len(chunk)
        return number

    def _write_xref(self, catalog: int, info: int) -> None:
        digest = self._content_digest().hex().encode()
        xref = self.reserve()
        self._write_stream(
            xref,
            deflate(_filter_rows(self._xref_rows(xref)), _XREF_COMPRESSION_LEVEL),
            b"/Type/XRef/Size %d/W[1 8 2]/Root %d 0 R/Info %d 0 R/ID[<%b><%b>]/Filter/FlateDecode"
            b"/DecodeParms<</Predictor 12/Columns %d>>"
            % (self._last_number + 1, catalog, info, digest, digest, _XREF_ROW.itemsize),
        )

    def _xref_rows(self, xref: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """Where each object is; numbers never put stay free."""
        rows = np.zeros(self._last_number + 1, _XREF_ROW)
        rows["place"][0] = 65535
        in_file = np.array([*self._offsets, (xref, self._length)], np.int64)
        rows["kind"][in_file[:, 0]] = _XREF_IN_FILE
        rows["where"][in_file[:, 0]] = in_file[:, 1]
        for stream_number, numbers in self._object_streams:
            rows["kind"][numbers] = _XREF_IN_OBJECT_STREAM
            rows["where"][numbers] = stream_number
            rows["place"][numbers] = np.arange(len(numbers))
        return rows


def format_references(numbers: Sequence[int]) -> bytes:
    return b" ".join([b"%d 0 R" % number for number in numbers])


def _filter_rows(rows: np.ndarray[tuple[int], np.dtype[np.void]]) -> bytes:
    """Each row less the one above, which deflates well."""
    table = rows.view(np.uint8).reshape(len(rows), _XREF_ROW.itemsize)
    filtered = np.empty((len(rows), _XREF_ROW.itemsize + 1), np.uint8)
    filter_up(table, table[0], filtered)
    return filtered.tobytes()
