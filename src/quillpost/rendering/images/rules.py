"""What an uploaded file is, how large it may be, and why it is refused."""

MAX_FILE_BYTES = 40_000_000

# Phones take pictures of 50 million; a letter with its bleed shows 35 million at the finest resolution.
MAX_PIXELS = 60_000_000
MAX_DPI = 600
MAX_RASTER_PIXELS = 40_000_000
MAX_SHEET_PIXELS = (round(8.75 * MAX_DPI), round(11.25 * MAX_DPI))

MAX_SIDE_PIXELS = 65_535  # as in a JPEG file; bounds a row, and so the smallest strip
MAX_PROFILE_BYTES = 1_000_000
MAX_PAGES = 60

# Objects of a PDF that are not packed. Readers look at each one before they know what it is for.
MAX_PDF_OBJECTS = 200_000

MAX_CONTENT_BYTES = 50_000_000  # the drawing of one page, inflated; pictures and fonts not counted
MAX_DRAWING_COST = 1_000_000  # what a page draws, everything counted as often as it is drawn


def format_megabytes(size: int) -> str:
    return f"{size // 1_000_000} MB"


class UnprintableArt(Exception):
    """It cannot be printed; `message` is a sentence for the sender."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnprintableImage(UnprintableArt):
    """A picture that cannot be printed."""


class UnprintablePdf(UnprintableArt):
    """A PDF that cannot be printed."""


class ArtTooComplex(UnprintableArt):
    """It is printable, but takes too much to be drawn."""


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
JPEG_SIGNATURE = b"\xff\xd8\xff"
PDF_SIGNATURE = b"%PDF-"

_PDF_HEADER_BYTES = 1024  # readers find a PDF's header anywhere in here

_FILE_SIGNATURES = (
    (PNG_SIGNATURE, "a PNG picture"),
    (JPEG_SIGNATURE, "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"BM", "a BMP picture"),
    (b"II*\0", "a TIFF picture"),
    (b"MM\0*", "a TIFF picture"),
    (b"8BPS", "a Photoshop document"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 picture"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL picture"),
    (b"%!PS", "a PostScript file"),
    (b"{\\rtf", "an RTF document"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x1f\x8b", "a gzip archive"),
)
_CONTAINER_BRANDS = (
    ((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "a HEIC photograph"),
    ((b"avif", b"avis"), "an AVIF picture"),
)
_OPENING_TAGS = (
    ((b"<!doctype html", b"<html", b"<head", b"<body", b"<script"), "an HTML page"),
    ((b"<svg", b"<!doctype svg"), "an SVG drawing"),
)
_TEXT_SAMPLE_BYTES = 1024


def describe_file_kind(data: bytes) -> str:
    """Such as "a GIF picture", or "not a file that we know"."""
    if not data:
        return "empty"
    for signature, kind in _FILE_SIGNATURES:
        if data.startswith(signature):
            return kind
    return _container_kind(data) or _text_kind(data) or "not a file that we know"


def is_pdf(data: bytes) -> bool:
    return PDF_SIGNATURE in data[:_PDF_HEADER_BYTES]


def _container_kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "a WebP picture"
    if data[4:8] == b"ftyp":
        return next((kind for brands, kind in _CONTAINER_BRANDS if data[8:12] in brands), "a film")
    return "a PDF document" if is_pdf(data) else None


def _text_kind(data: bytes) -> str | None:
    start = data[:_TEXT_SAMPLE_BYTES].removeprefix(b"\xef\xbb\xbf").strip().lower()
    for tags, kind in _OPENING_TAGS:
        if start.startswith(tags) or (start.startswith((b"<?xml", b"<!--")) and any(t in start for t in tags)):
            return kind
    if start.startswith((b"<?xml", b"<")):
        return "an XML or HTML document"
    if start.startswith((b"{", b"[")):
        return "a JSON answer"
    return "plain text" if start.isascii() and b"\0" not in start else None
