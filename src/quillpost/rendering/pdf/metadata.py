"""Metadata and document parts (PDF/VT-1) of a print file."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID
from xml.sax.saxutils import escape

from quillpost.rendering.pdf.color import SRGB, ObjectWriter, OutputIntent, text_string

_PRODUCER = "Quillpost"

# The names of the namespaces are fixed by the standards; nothing is fetched from there.
_XMP_TEMPLATE = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about=""
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:xmp="http://ns.adobe.com/xap/1.0/"
 xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/"
 xmlns:pdf="http://ns.adobe.com/pdf/1.3/"
 xmlns:pdfxid="http://www.npes.org/pdfx/ns/id/"
 xmlns:pdfvtid="http://www.npes.org/pdfvt/ns/id/">
<dc:format>application/pdf</dc:format>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">{title}</rdf:li></rdf:Alt></dc:title>
<xmp:CreateDate>{date}</xmp:CreateDate>
<xmp:ModifyDate>{date}</xmp:ModifyDate>
<xmp:MetadataDate>{date}</xmp:MetadataDate>
<xmp:CreatorTool>{maker}</xmp:CreatorTool>
<xmpMM:DocumentID>uuid:{identity}</xmpMM:DocumentID>
<xmpMM:VersionID>1</xmpMM:VersionID>
<xmpMM:RenditionClass>default</xmpMM:RenditionClass>
<pdf:Producer>{maker}</pdf:Producer>
<pdf:Trapped>False</pdf:Trapped>
<pdfxid:GTS_PDFXVersion>PDF/X-4</pdfxid:GTS_PDFXVersion>
<pdfvtid:GTS_PDFVTVersion>PDF/VT-1</pdfvtid:GTS_PDFVTVersion>
<pdfvtid:GTS_PDFVTModDate>{date}</pdfvtid:GTS_PDFVTModDate>
</rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end="r"?>"""


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
