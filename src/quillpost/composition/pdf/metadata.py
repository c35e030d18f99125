"""What a file for the press says of itself: the information dictionary and the XMP packet."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID
from xml.sax.saxutils import escape

from quillpost.composition.pdf.intent import SRGB, OutputIntent
from quillpost.composition.pdf.objects import text_string

_MAKER = "Quillpost"

# The names of the namespaces are fixed by the standards; nothing is fetched from there.
_PACKET = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
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
class Press:
    """What a file for the press has to know: its title, its moment and the colours it is made for.

    `made_at` knows its time zone; it is written in UTC.
    """

    title: str
    made_at: datetime
    intent: OutputIntent = SRGB

    def __post_init__(self) -> None:
        if self.made_at.tzinfo is None:
            raise ValueError("the moment a file was made needs a time zone")
        if not self.title.strip():
            raise ValueError("a file for the press needs a title")


def information(press: Press) -> bytes:
    """The information dictionary; it agrees with the XMP packet."""
    date = press.made_at.astimezone(UTC).strftime("D:%Y%m%d%H%M%SZ").encode()
    maker = text_string(_MAKER)
    return (
        b"<</Title%b/Creator%b/Producer%b/CreationDate(%b)/ModDate(%b)"
        b"/Trapped/False/GTS_PDFXVersion(PDF/X-4)>>"
        % (text_string(_printable(press.title)), maker, maker, date, date)
    )


def xmp_packet(press: Press, digest: bytes) -> bytes:
    """The packet; the file's identity is made of its content's `digest`, 16 bytes."""
    return _PACKET.format(
        title=escape(_printable(press.title)),
        date=press.made_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        maker=_MAKER,
        identity=UUID(bytes=digest, version=5),
    ).encode()


def _printable(title: str) -> str:
    """Without what XML cannot hold and what readers would trim."""
    return "".join(letter if letter.isprintable() else " " for letter in title).strip()
