"""Uploaded pictures, checked, made printable and measured. Runs only in a sandboxed process."""

import io
import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

from quillpost.rendering.images import files, rules
from quillpost.rendering.images.files import UPRIGHT, encode_orientation, upright_size
from quillpost.rendering.images.models import GRID_CELLS, PrintablePicture
from quillpost.rendering.images.rules import UnprintableImage

_ORIENTATION_TAG = 0x0112

# What stands a picture upright that is stored in another EXIF orientation.
_UPRIGHT_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def measure_tones(data: bytes) -> bytes:
    """The average color of each cell of a printable picture."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            transpose = _UPRIGHT_TRANSPOSES.get(image.getexif().get(_ORIENTATION_TAG, 1))
            image.draft("RGB", (GRID_CELLS, GRID_CELLS))  # a JPEG is decoded no larger than it takes
            small = image.resize((GRID_CELLS, GRID_CELLS), Image.Resampling.BOX).convert("RGB")
            return (small if transpose is None else small.transpose(transpose)).tobytes()
    # Pillow's readers raise whatever the damaged bytes lead them into.
    except Exception as error:
        raise UnprintableImage("The image is damaged or incomplete.") from error


_HEADER_BYTES = 128
_TAG_BYTES = 12
_MAX_PROFILE_VERSION = 4
_PROFILE_CLASSES = (b"scnr", b"mntr", b"prtr", b"spac")
_COLOR_SPACES = {1: b"GRAY", 3: b"RGB ", 4: b"CMYK"}


def find_profile_error(profile: bytes, components: int) -> str | None:
    """Why a profile cannot go with a picture of so many components, or None."""
    if len(profile) > rules.MAX_PROFILE_BYTES:
        return f"it is larger than {rules.format_megabytes(rules.MAX_PROFILE_BYTES)}"
    if len(profile) < _HEADER_BYTES + 4 or profile[36:40] != b"acsp" or not _are_tags_inside(profile):
        return "it is damaged"
    if profile[16:20] != _COLOR_SPACES[components]:
        return "it is meant for other colors"
    if profile[8] > _MAX_PROFILE_VERSION or profile[12:16] not in _PROFILE_CLASSES:
        return "it is of a kind that printers do not know"
    try:
        ImageCms.ImageCmsProfile(io.BytesIO(profile))
    except (OSError, ImageCms.PyCMSError):
        return "it is damaged"
    return None


def _are_tags_inside(profile: bytes) -> bool:
    (size,) = struct.unpack_from(">I", profile, 0)
    (count,) = struct.unpack_from(">I", profile, _HEADER_BYTES)
    tags_end = _HEADER_BYTES + 4 + count * _TAG_BYTES
    if size != len(profile) or tags_end > size:
        return False
    tags = struct.iter_unpack(">4sII", profile[_HEADER_BYTES + 4 : tags_end])
    return all(offset + length <= size for _, offset, length in tags)


_STRIP_PIXELS = 1_000_000
_JPEG_QUALITY = 95
_SRGB = ImageCms.createProfile("sRGB")

# A file's gamma as PNG writes it, times 100,000. sRGB's own needs no change, nor one that is nonsense.
_SCREEN_GAMMA = 45_455
_GAMMA_TOLERANCE = 1_000
_SENSIBLE_GAMMAS = range(10_000, 1_000_000)


def make_printable_picture(data: bytes) -> PrintablePicture:
    """The picture as a plain JPEG or PNG file, or UnprintableImage with a sentence for the sender."""
    if len(data) > rules.MAX_FILE_BYTES:
        raise UnprintableImage(f"The image is larger than {rules.format_megabytes(rules.MAX_FILE_BYTES)}.")
    if data.startswith(rules.JPEG_SIGNATURE):
        return _printable_jpeg(data)
    if data.startswith(rules.PNG_SIGNATURE):
        return _printable_png(data)
    if not data:
        raise UnprintableImage("The image is empty: there is not a single byte in it.")
    raise UnprintableImage(f"The image is neither a JPEG nor a PNG file: it is {rules.describe_file_kind(data)}.")


def _printable_jpeg(data: bytes) -> PrintablePicture:
    head = files.read_jpeg_header(data)
    _check_pixel_size(head.width, head.height)
    files.check_scans(data)
    notes: tuple[str, ...] = ()
    profile = head.profile
    if profile is not None:
        failure = find_profile_error(profile, head.components)
        if failure is not None:
            data, profile, notes = files.remove_profile(data), None, (_profile_dropped_note(failure),)
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
            if image.size != (head.width, head.height):
                raise ValueError("two headers that contradict each other")
            if head.is_plain:  # read to its end to find damage, at an eighth of its size to save memory
                image.draft(image.mode, (1, 1))
                image.load()
            else:
                data, converted = _rewrite_jpeg(image, head, profile)
                notes += converted
    # Pillow's readers raise whatever the damaged bytes lead them into.
    except Exception as error:
        raise UnprintableImage("The JPEG file is damaged or incomplete.") from error
    return PrintablePicture(data, "image/jpeg", *upright_size(head.width, head.height, head.orientation), notes)


def _rewrite_jpeg(image: Image.Image, head: files.JpegHeader, profile: bytes | None) -> tuple[bytes, tuple[str, ...]]:
    image.load()
    notes: tuple[str, ...] = ()
    keep_profile = profile is not None and head.components == 3
    if head.components == 4:
        image, method = _cmyk_to_rgb(image, profile, is_inverted=head.adobe_transform is not None)
        notes = (f"The image was converted from CMYK to RGB {method}.",)
    exif = b"" if head.orientation == UPRIGHT else b"Exif\0\0" + encode_orientation(head.orientation)
    file = io.BytesIO()
    image.save(
        file, "JPEG", quality=_JPEG_QUALITY, subsampling=0, exif=exif, icc_profile=profile if keep_profile else None
    )
    return file.getvalue(), notes


def _cmyk_to_rgb(image: Image.Image, profile: bytes | None, *, is_inverted: bool) -> tuple[Image.Image, str]:
    """The picture in RGB, and how it was converted."""
    transform = _srgb_transform(profile)
    rgb = Image.new("RGB", image.size)
    for top, strip in _strips(image):
        if not is_inverted:  # Pillow takes every file for one of Adobe's, where no ink is 255
            strip = strip.point(lambda ink: 255 - ink)
        converted = strip.convert("RGB") if transform is None else transform.apply(strip)
        rgb.paste(converted, (0, top))
    return rgb, "without a color profile" if transform is None else "by its own color profile"


def _srgb_transform(profile: bytes | None) -> ImageCms.ImageCmsTransform | None:
    if profile is None:
        return None
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        intent, flags = ImageCms.Intent.RELATIVE_COLORIMETRIC, ImageCms.Flags.BLACKPOINTCOMPENSATION
        return ImageCms.buildTransform(source, _SRGB, "CMYK", "RGB", intent, flags)
    except (OSError, ImageCms.PyCMSError):
        return None


def _printable_png(data: bytes) -> PrintablePicture:
    if len(data) >= 24 and data[12:16] == b"IHDR":
        _check_pixel_size(*struct.unpack_from(">II", data, 16))
    file = files.read_png(data)
    head = file.header
    _check_pixel_size(head.width, head.height)
    notes: tuple[str, ...] = ()
    if file.has_chunk(b"acTL"):
        notes += ("The image is animated: its first picture is printed.",)
    profile = file.read_profile()
    error = None if profile is None else find_profile_error(profile, head.components)
    keep_profile = profile is not None and error is None
    if error is not None:
        notes += (_profile_dropped_note(error),)
    gamma = None if file.has_chunk(b"sRGB") or keep_profile else _unusual_gamma(file)
    is_exact = files.has_exact_pixels(file)
    if file.is_plain and gamma is None and is_exact:
        plain_file = file.keep_chunks(files.PLAIN_CHUNKS if keep_profile else files.PLAIN_CHUNKS - {b"iCCP"})
    else:
        plain_file = _rewrite_png(file, gamma, profile if keep_profile else None)
    return PrintablePicture(plain_file, "image/png", *upright_size(head.width, head.height, file.orientation), notes)


def _rewrite_png(file: files.PngFile, gamma: int | None, profile: bytes | None) -> bytes:
    """On white, 8 bits a sample; Pillow sees only the pixels of the file."""
    head = file.header
    try:
        with Image.open(io.BytesIO(file.keep_chunks(files.PIXEL_CHUNKS)), formats=("PNG",)) as image:
            if image.size != (head.width, head.height):
                raise ValueError("two headers that contradict each other")
            image.load()
            strips = (_strip_samples(strip, head, gamma) for _, strip in _strips(image))
            shape = (head.width, head.height, head.components)
            return files.write_png(*shape, strips, orientation=file.orientation, profile=profile)
    except Exception as error:
        raise UnprintableImage("The PNG file is damaged or incomplete.") from error


def _strip_samples(strip: Image.Image, head: files.PngHeader, gamma: int | None) -> NDArray[np.uint8]:
    flat = _flatten_on_white(strip).convert("L" if head.components == 1 else "RGB")
    if gamma is not None:
        exponent = _SCREEN_GAMMA / gamma
        curve = [round(255 * (level / 255) ** exponent) for level in range(256)]
        flat = flat.point(curve * len(flat.getbands()))
    return np.asarray(flat).reshape(strip.height, strip.width * head.components)


def _flatten_on_white(image: Image.Image) -> Image.Image:
    transparent_color = image.info.get("transparency")
    if image.mode.startswith("I"):  # 16 bits a sample, which Pillow would clip instead of scale
        samples = np.asarray(image)
        eight_bit = (samples.astype(np.uint32) >> 8).astype(np.uint8)
        if transparent_color is not None:
            eight_bit = np.where(samples == transparent_color, np.uint8(255), eight_bit)
        return Image.fromarray(eight_bit)
    if not image.has_transparency_data:
        return image
    if isinstance(transparent_color, tuple) and max(transparent_color) > 255:  # 16 bits, in 8 as the rest
        image.info["transparency"] = tuple(sample >> 8 for sample in transparent_color)
    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Slices of the whole width with their top, a few rows each to save memory."""
    rows = max(1, _STRIP_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _unusual_gamma(file: files.PngFile) -> int | None:
    """The gamma times 100,000, if a viewer would correct it."""
    chunk = file.find_chunk(b"gAMA")
    if chunk is None or len(chunk) != 4:
        return None
    (gamma,) = struct.unpack(">I", chunk)
    is_odd = abs(gamma - _SCREEN_GAMMA) > _GAMMA_TOLERANCE and gamma in _SENSIBLE_GAMMAS
    return gamma if is_odd else None


def _check_pixel_size(width: int, height: int) -> None:
    if not width or not height:
        raise UnprintableImage("The image has no pixels.")
    if max(width, height) > rules.MAX_SIDE_PIXELS:
        raise UnprintableImage(f"The image is too long: no side may have more than {rules.MAX_SIDE_PIXELS} pixels.")
    if width * height > rules.MAX_PIXELS:
        raise UnprintableImage(
            f"The image has {width} x {height} pixels; at most {rules.MAX_PIXELS / 1_000_000:.1f} million are"
            f" accepted. The largest sheet needs {rules.MAX_SHEET_PIXELS[0]} x {rules.MAX_SHEET_PIXELS[1]}"
            f" at {rules.MAX_DPI} dpi: make it smaller."
        )


def _profile_dropped_note(error: str) -> str:
    return f"The image's color profile was left out: {error}."
