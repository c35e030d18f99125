"""The colors of pictures in hand, measured once for each: templates and previews ask again and again."""

import hashlib

from quillpost.composition.art.refusals import BadImage
from quillpost.composition.art.tones import Tones
from quillpost.creative.images import FetchedPicture, heavy_work
from quillpost.creative.sandbox import limited_tones
from quillpost.kit.recent import Recent

MOST_KEPT = 1_000

_recent: Recent[bytes, Tones | None] = Recent(most_bytes=MOST_KEPT, size=lambda _: 1)


def tones_of(picture: FetchedPicture) -> Tones | None:
    """None where they cannot be told: nothing is refused for that."""

    def measure() -> Tones | None:
        try:
            with heavy_work():
                return limited_tones(picture.body, picture.width, picture.height)
        except BadImage:
            return None

    return _recent.get(hashlib.sha256(picture.body).digest(), measure)
