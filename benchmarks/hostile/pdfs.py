"""PDF files written by hand, so that they can be as odd as no library would write them."""

import zlib
from collections.abc import Sequence

LETTER = "[0 0 612 792]"


def deflate(content: bytes, times: int) -> bytes:
    """The content so many times over. It is packed once: to pack hundreds of megabytes takes many seconds."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 1
    for _ in range(times):
        checksum = zlib.adler32(content, checksum)
    return b"\x78\xda" + packed * times + b"\x03\x00" + checksum.to_bytes(4, "big")


def stream(content: bytes, entries: str = "", *, times: int = 1) -> bytes:
    """A stream object's body, deflated; the content comes so many times."""
    packed = deflate(content, times)
    head = f"<<{entries}/Filter/FlateDecode/Length {len(packed)}>>stream\n"
    return head.encode() + packed + b"\nendstream"


def form(content: bytes, resources: str = "<<>>", entries: str = "") -> bytes:
    return stream(content, f"/Type/XObject/Subtype/Form/BBox{LETTER}/Resources{resources}{entries}")


def file(objects: Sequence[bytes]) -> bytes:
    """Objects numbered from 1, of which the first is the catalog."""
    body, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, each in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(body)


def one_page(
    content: bytes, resources: str = "<<>>", others: Sequence[bytes] = (), box: str = LETTER, times: int = 1
) -> bytes:
    """A page that draws `content`, so many times; the first of `others` is object 5."""
    page = f"<</Type/Page/Parent 2 0 R/MediaBox{box}/Contents 4 0 R/Resources{resources}>>"
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return file([b"<</Type/Catalog/Pages 2 0 R>>", pages, page.encode(), stream(content, times=times), *others])
