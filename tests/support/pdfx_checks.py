"""Is a file ready for the press? The rules of PDF/X-4 and PDF/VT-1 that our files could break."""

import io
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pikepdf
from PIL import Image

from quillpost.rendering.pdf.color import read_output_intent

_NAMESPACES = {
    "dc": "http://purl.org/dc/elements/1.1/", "xmp": "http://ns.adobe.com/xap/1.0/",
    "xmpMM": "http://ns.adobe.com/xap/1.0/mm/", "pdf": "http://ns.adobe.com/pdf/1.3/",
    "pdfxid": "http://www.npes.org/pdfx/ns/id/", "pdfvtid": "http://www.npes.org/pdfvt/ns/id/",
}  # fmt: skip
_DEVICE_OPERATORS = {
    **dict.fromkeys(("g", "G"), "/DeviceGray"),
    **dict.fromkeys(("rg", "RG"), "/DeviceRGB"),
    **dict.fromkeys(("k", "K"), "/DeviceCMYK"),
}
_DEVICE_SPACES = {"/DeviceGray": 1, "/DeviceRGB": 3, "/DeviceCMYK": 4, "/G": 1, "/RGB": 3, "/CMYK": 4}
_DEFAULTS = {1: "/DefaultGray", 3: "/DefaultRGB", 4: "/DefaultCMYK"}
_FORBIDDEN_IN_CATALOG = ("/OpenAction", "/AA", "/AcroForm", "/Names", "/OCProperties", "/Outlines", "/Version")
_FORBIDDEN_ON_PAGES = ("/Annots", "/AA", "/PresSteps")
_IN_THE_PACKET = {
    "/Title": "dc:title", "/Creator": "xmp:CreatorTool", "/Producer": "pdf:Producer", "/Trapped": "pdf:Trapped",
    "/CreationDate": "xmp:CreateDate", "/ModDate": "xmp:ModifyDate",
}  # fmt: skip
_OF_THE_PACKET = ("xmpMM:DocumentID", "xmpMM:VersionID", "xmpMM:RenditionClass", "xmp:MetadataDate")
_SUBSET_NAME = re.compile(r"/[A-Z]{6}\+\S+")

PdfErrors = Iterator[str]


def find_errors(pdf: bytes) -> list[str]:
    """What is wrong with the file, in words; nothing if a press can take it as it is."""
    with pikepdf.open(io.BytesIO(pdf)) as document:
        found = [*_file_errors(pdf, document), *document.check_pdf_syntax()]
        for rule in _RULES:
            found += rule(document)
    return list(dict.fromkeys(found))


def find_qpdf_errors(pdf: bytes, folder: Path) -> str | None:
    """What the `qpdf` program says against the file; None where it is not installed."""
    if shutil.which("qpdf") is None:
        return None
    (folder / "checked.pdf").write_bytes(pdf)
    check = subprocess.run(["qpdf", "--check", folder / "checked.pdf"], capture_output=True, text=True)
    return check.stderr + (f"exit code {check.returncode}" if check.returncode else "")


def draw_elsewhere(pdf: bytes, dpi: int, folder: Path) -> list[Image.Image] | None:
    """The pages, with their bleed, as another renderer draws them; None where there is none."""
    if shutil.which("pdftoppm") is None:
        return None
    with TemporaryDirectory(dir=folder) as drawn:
        subprocess.run(["pdftoppm", "-r", str(dpi), "-", f"{drawn}/page"], input=pdf, check=True, capture_output=True)
        return [Image.open(file).convert("RGB") for file in sorted(Path(drawn).iterdir())]


def _those(*checks: tuple[object, str]) -> PdfErrors:
    """The words of the checks that came true."""
    return (words for is_broken, words in checks if is_broken)


def _file_errors(pdf: bytes, document: pikepdf.Pdf) -> PdfErrors:
    identity = document.trailer.get("/ID", ())
    return _those(
        (not pdf.startswith(b"%PDF-1.6\n%"), f"version: the header is {pdf[:8]!r}"),
        ([len(bytes(part)) for part in identity] != [16, 16], "identity: no /ID of twice 16 bytes"),
        ("/Encrypt" in document.trailer, "encrypted"),
    )


def _information_errors(document: pikepdf.Pdf) -> PdfErrors:
    info, properties = document.trailer.get("/Info", pikepdf.Dictionary()), _properties(document)
    for key, name in _IN_THE_PACKET.items():
        ours, theirs = str(info.get(key, "")).lstrip("/"), properties.get(name, "")
        if "Dat" in key:  # written in other forms
            ours, theirs = (re.sub(r"\D", "", date) for date in (ours, theirs))
        yield from _those(
            (not ours, f"information: no {key}"),
            (ours != theirs, f"information: {key} is not the {name} of the XMP packet"),
        )
    yield from _those(
        (info.get("/Trapped") not in ("/True", "/False"), "information: not told whether trapped"),
        (info.get("/GTS_PDFXVersion") != "PDF/X-4", "information: not PDF/X-4"),
    )


def _metadata_errors(document: pikepdf.Pdf) -> PdfErrors:
    metadata, properties = document.Root.get("/Metadata"), _properties(document)
    if metadata is None:
        return _those((True, "metadata: none"))
    modified = properties.get("pdfvtid:GTS_PDFVTModDate")
    return _those(
        ("/Filter" in metadata, "metadata: compressed"),
        (properties.get("pdfxid:GTS_PDFXVersion") != "PDF/X-4", "metadata: not PDF/X-4"),
        (properties.get("pdfvtid:GTS_PDFVTVersion") != "PDF/VT-1", "metadata: not PDF/VT-1"),
        (modified != properties.get("xmp:ModifyDate"), "metadata: changed since it was made PDF/VT-1"),
        *((not properties.get(name), f"metadata: no {name}") for name in _OF_THE_PACKET),
    )


def _properties(document: pikepdf.Pdf) -> dict[str, str]:
    metadata = document.Root.get("/Metadata")
    if metadata is None:
        return {}
    packet = ElementTree.fromstring(metadata.read_bytes())
    prefixes = {uri: prefix for prefix, uri in _NAMESPACES.items()}
    found = {}
    for element in packet.iter():
        uri, _, name = element.tag[1:].partition("}")
        if uri in prefixes:
            found[f"{prefixes[uri]}:{name}"] = "".join(element.itertext()).strip()
    return found


def _intents(document: pikepdf.Pdf) -> list[pikepdf.Object]:
    return [i for i in document.Root.get("/OutputIntents", ()) if i.get("/S") == "/GTS_PDFX"]


def _intent_errors(document: pikepdf.Pdf) -> PdfErrors:
    intents = _intents(document)
    if len(intents) != 1:
        yield f"intent: {len(intents)} instead of one"
        return
    (intent,) = intents
    for key in ("/OutputConditionIdentifier", "/Info"):
        if not str(intent.get(key, "")):
            yield f"intent: no {key}"
    if "/DestOutputProfile" not in intent:
        yield "intent: no profile"
        return
    profile = intent.DestOutputProfile
    data = profile.read_bytes()
    if data[36:40] == b"acsp" and data[12:16] != b"prtr":
        yield "intent: the profile is not that of an output device"
        return
    try:
        read = read_output_intent(data)
    except ValueError as reason:
        yield f"intent: {reason}"
        return
    if read.components != profile.get("/N"):
        yield "intent: /N is not the profile's number of components"


def _box_errors(document: pikepdf.Pdf) -> PdfErrors:
    for index, page in enumerate(document.pages):
        boxes = [page.obj[key] for key in ("/MediaBox", "/BleedBox", "/TrimBox") if key in page.obj]
        if len(boxes) < 3:
            yield f"boxes: page {index} has not all of them"
            continue
        if "/ArtBox" in page.obj:
            yield f"boxes: page {index} has an art box beside its trim box"
        for outer, inner in pairwise([[float(edge) for edge in box] for box in boxes]):
            if not (outer[0] <= inner[0] < inner[2] <= outer[2] and outer[1] <= inner[1] < inner[3] <= outer[3]):
                yield f"boxes: those of page {index} are not nested"


def _font_errors(document: pikepdf.Pdf) -> PdfErrors:
    for font in document.objects:
        if not isinstance(font, pikepdf.Dictionary) or font.get("/Type") != "/Font":
            continue
        name = str(font.get("/BaseFont", "without a name"))
        if font.get("/Subtype") == "/Type0":
            if "/ToUnicode" not in font:
                yield f"font {name} cannot be read back"
            continue
        descriptor = font.get("/FontDescriptor", pikepdf.Dictionary())
        if not any(key in descriptor for key in ("/FontFile", "/FontFile2", "/FontFile3")):
            yield f"font {name} is not embedded"
        if not _SUBSET_NAME.fullmatch(name) or descriptor.get("/FontName") != font.get("/BaseFont"):
            yield f"font {name} is not named as a part of a font"


def _color_errors(document: pikepdf.Pdf) -> PdfErrors:
    intents = _intents(document)
    if not intents or "/DestOutputProfile" not in intents[0]:
        return
    components = int(intents[0].DestOutputProfile.get("/N", 0))
    seen: set[object] = set()
    for page in document.pages:
        resources = page.obj.get("/Resources", pikepdf.Dictionary())
        contents = page.obj.get("/Contents", pikepdf.Array())
        for stream in contents if isinstance(contents, pikepdf.Array) else [contents]:
            yield from _stream_errors(stream, resources, components, seen)


def _stream_errors(stream: pikepdf.Object, resources: pikepdf.Object, components: int, seen: set[object]) -> PdfErrors:
    """Device colours that a content stream, its images and its forms use without being entitled to."""
    key = (stream.objgen, resources.objgen)
    if resources.is_indirect and key in seen:
        return
    seen.add(key)
    for space in sorted(_spaces_used(stream)):
        yield from _space_errors(space, resources, components)
    for drawn in resources.get("/XObject", pikepdf.Dictionary()).values():
        if drawn.get("/Subtype") == "/Form":
            yield from _stream_errors(drawn, drawn.get("/Resources", resources), components, seen)
        elif drawn.get("/Subtype") == "/Image" and "/ColorSpace" in drawn:
            yield from _space_errors(_device_of(drawn.ColorSpace), resources, components)


def _spaces_used(stream: pikepdf.Object) -> set[str]:
    used = set()
    for instruction in pikepdf.parse_content_stream(stream):
        operator = str(instruction.operator)
        if operator in _DEVICE_OPERATORS:
            used.add(_DEVICE_OPERATORS[operator])
        elif operator in ("cs", "CS"):
            used.add(str(instruction.operands[0]))
        elif isinstance(instruction, pikepdf.ContentStreamInlineImage):
            used.add(str(instruction.iimage.obj.get("/ColorSpace", "")))
    return used


def _device_of(space: pikepdf.Object) -> str:
    """A device space's name, also that under an indexed one."""
    if isinstance(space, pikepdf.Array):
        return _device_of(space[1]) if space[0] == "/Indexed" else ""
    return str(space)


def _space_errors(space: str, resources: pikepdf.Object, components: int) -> PdfErrors:
    space_components = _DEVICE_SPACES.get(space)
    if space_components is None or space_components in (1, components):
        return
    if _DEFAULTS[space_components] not in resources.get("/ColorSpace", pikepdf.Dictionary()):
        yield f"colour: {space} where the intent has {components} components"


def _forbidden_errors(document: pikepdf.Pdf) -> PdfErrors:
    yield from (f"forbidden: {key} in the catalog" for key in _FORBIDDEN_IN_CATALOG if key in document.Root)
    for index, page in enumerate(document.pages):
        yield from (f"forbidden: {key} on page {index}" for key in _FORBIDDEN_ON_PAGES if key in page.obj)
    for thing in document.objects:
        if isinstance(thing, pikepdf.Dictionary | pikepdf.Stream):
            kind, is_state = thing.get("/Type"), thing.get("/Type") == "/ExtGState"
            blends = thing.get("/BM", "/Normal") not in ("/Normal", "/Compatible")
            transfers = "/TR" in thing or thing.get("/TR2", "/Default") != "/Default" or "/HTP" in thing
            is_elsewhere = any(key in thing for key in ("/OPI", "/Alternates", "/Ref"))
            is_odd_stream = "/F" in thing or "LZW" in str(thing.get("/Filter", ""))
            yield from _those(
                (kind == "/Action" or "/JS" in thing, "forbidden: an action"),
                (kind in ("/EmbeddedFile", "/Filespec") or "/EF" in thing, "forbidden: an embedded file"),
                (is_state and blends, "forbidden: a blend mode"),
                (is_state and transfers, "forbidden: a transfer function"),
                (thing.get("/Subtype") == "/PS" or is_elsewhere, "forbidden: an XObject that is not all there"),
                (isinstance(thing, pikepdf.Stream) and is_odd_stream, "forbidden: a stream in another file, or by LZW"),
            )


def _part_errors(document: pikepdf.Pdf) -> PdfErrors:
    root = document.Root.get("/DPartRoot")
    if root is None or "/DPartRootNode" not in root:
        yield "parts: no tree"
        return
    if root.DPartRootNode.get("/Parent", pikepdf.Dictionary()).objgen != root.objgen:
        yield "parts: the tree's root does not know its parent"
    places = {page.obj.objgen: index for index, page in enumerate(document.pages)}
    owners: dict[int, tuple[int, int]] = {}
    level = root.get("/RecordLevel")
    if len(root.get("/NodeNameList", ())) <= int(level or 0):
        yield "parts: not every level has a name"
    following = 0
    for leaf, depth in _leaves(root.DPartRootNode, 0):
        if isinstance(leaf, str):
            yield leaf
            continue
        if depth != level:
            yield f"parts: a recipient at level {depth} instead of {level}"
        name = leaf.get("/DPM", pikepdf.Dictionary()).get("/CIP4_Root", pikepdf.Dictionary())
        if not str(name.get("/CIP4_Recipient", pikepdf.Dictionary()).get("/CIP4_UniqueID", "")):
            yield "parts: one that says not whose it is"
        first = places.get(leaf.Start.objgen, -1)
        last = places.get(leaf.get("/End", leaf.Start).objgen, -1)
        if not following == first <= last:
            yield f"parts: one from page {first} to {last} where {following} comes next"
        following = last + 1
        owners |= dict.fromkeys(range(first, last + 1), leaf.objgen)
    for index, page in enumerate(document.pages):
        part = page.obj.get("/DPart")
        if part is None or owners.get(index) != part.objgen:
            yield f"parts: page {index} is not in the part that it names"


def _leaves(node: pikepdf.Object, depth: int) -> Iterator[tuple[pikepdf.Object | str, int]]:
    if "/Start" in node:
        yield node, depth
        return
    for group in node.get("/DParts", ()):
        for part in group:
            if part.get("/Parent", pikepdf.Dictionary()).objgen != node.objgen:
                yield "parts: one that names another parent", depth
            yield from _leaves(part, depth + 1)


_RULES: tuple[Callable[[pikepdf.Pdf], PdfErrors], ...] = (
    _information_errors, _metadata_errors, _intent_errors, _box_errors, _font_errors, _color_errors,
    _forbidden_errors, _part_errors,
)  # fmt: skip
