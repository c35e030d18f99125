"""Pictures that callers name by address."""

from quillpost.composition.image import BadImage, check_image
from quillpost.kit.errors import Invalid
from quillpost.ports import Fetched, Fetcher, FetchFailed

MOST_BYTES = 40 * 1024 * 1024


def fetch_image(fetcher: Fetcher, url: str, *, field: str) -> Fetched:
    """The picture, known to be one; `Invalid` names the field and what is wrong."""
    try:
        fetched = fetcher.fetch(url, most_bytes=MOST_BYTES)
    except FetchFailed as failed:
        raise Invalid({field: [f"The image could not be fetched: {failed}"]}) from None
    try:
        facts = check_image(fetched.body)
    except BadImage as bad:
        raise Invalid({field: [f"The image cannot be printed: {bad}"]}) from None
    return Fetched(f"image/{facts.format.lower()}", fetched.body)
