"""Files for print: they obey PDF/X-4 and PDF/VT-1, name whose each page is, and are the same every time."""

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest
from PIL import Image, ImageCms

from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.pdf.color import (
    DISPLAY_PROFILE,
    OUTPUT_PROFILE,
    SRGB,
    OutputIntent,
    icc_color_space,
    read_output_intent,
)
from quillpost.rendering.pdf.files import PdfFile, PrintMetadata
from support.batch_sheets import BARS, MADE_AT, NAMES, sheets, write_batch
from support.pdfx_checks import find_errors, find_qpdf_errors, second_opinion, text_of


def profile_of(space: bytes, device_class: bytes = b"prtr") -> bytes:
    """Our own profile, said to be of other colors."""
    return SRGB.profile[:12] + device_class + space + SRGB.profile[20:]


CMYK = OutputIntent(profile_of(b"CMYK"), 4, "A coated sheet")
GRAY = OutputIntent(profile_of(b"GRAY"), 1, "A laser printer")


def broken(change: Callable[[Any], object]) -> list[str]:
    """What is wrong with a sound file after one change."""
    changed = io.BytesIO()
    with pikepdf.open(io.BytesIO(sheets(write_batch()))) as document:
        change(document)
        document.save(changed, min_version="1.6", fix_metadata_version=False)
    return [error for error in find_errors(changed.getvalue()) if not error.startswith("version")]


def make_unreadable(document: Any) -> None:
    document.pages[1].obj.Resources.Font.H.__delitem__("/ToUnicode")


BREAKS: dict[str, Callable[[Any], object]] = {
    "information: no /Title": lambda document: document.docinfo.__delitem__("/Title"),
    "metadata: none": lambda document: document.Root.__delitem__("/Metadata"),
    "intent: no profile": lambda document: document.Root.OutputIntents[0].__delitem__("/DestOutputProfile"),
    "boxes: page 1 has not all of them": lambda document: document.pages[1].obj.__delitem__("/TrimBox"),
    "Caveat cannot be read back": make_unreadable,
    "forbidden: /OpenAction in the catalog": lambda document: document.Root.__setitem__("/OpenAction", [1]),
    "parts: page 1 is not in the part that it names": lambda document: document.pages[1].obj.__delitem__("/DPart"),
}


def test_a_broken_rule_is_found_and_our_files_break_none(subtests: pytest.Subtests) -> None:
    assert find_errors(sheets(write_batch(), pieces=230)) == []
    for intent in (CMYK, GRAY):
        assert find_errors(sheets(write_batch(intent))) == [], intent.condition
    assert broken(lambda document: None) == []
    for error, change in BREAKS.items():
        with subtests.test(error):
            assert any(error in found for found in broken(change))
    assert find_errors(sheets(write_batch(), extra=b"0 0 0 1 k 0 0 9 9 re f")) == [
        "colour: /DeviceCMYK where the intent has 3 components"
    ]
    sound = sheets(write_batch())
    assert find_errors(sound.replace(b"/ID[", b"/IX[")) == ["identity: no /ID of twice 16 bytes"]
    assert {"metadata: none", "intent: 0 instead of one", "parts: no tree"} <= set(find_errors(sheets(None)))


def test_colors_look_the_same_with_every_output_profile() -> None:
    pictures = [rasterize_pages(sheets(write_batch(intent)), dpi=36, pages=[0])[0] for intent in (SRGB, CMYK)]
    direct, defined = (np.asarray(Image.open(io.BytesIO(png))).astype(int) for png in pictures)
    assert np.abs(direct - defined).max() <= 1


def test_the_same_pieces_give_the_same_bytes_and_another_moment_another_identity() -> None:
    assert sheets(write_batch()) == sheets(write_batch())
    later = replace(write_batch(), made_at=MADE_AT.replace(year=2027))
    one, other = (pikepdf.open(io.BytesIO(sheets(made))).trailer.ID[0] for made in (write_batch(), later))
    assert bytes(one) != bytes(other)


def test_names_and_bars_can_be_read_back_as_text() -> None:
    pdf = sheets(write_batch())
    assert [text_of(pdf, 2 * place + 1).split("\n") for place in range(3)] == [[name, BARS] for name in NAMES]


def test_parts_say_whose_pages_they_are() -> None:
    with pikepdf.open(io.BytesIO(sheets(write_batch(), pieces=101))) as document:
        groups = document.Root.DPartRoot.DPartRootNode.DParts[0]
        leaves = [part for group in groups for part in group.DParts[0]]
    assert [len(group.DParts[0]) for group in groups] == [100, 1]
    names = [str(leaf.DPM.CIP4_Root.CIP4_Recipient.CIP4_UniqueID) for leaf in leaves]
    assert names == [str(700 + place) for place in range(101)]
    assert str(leaves[0].DPM.CIP4_Root.CIP4_Intent.CIP4_ProductType) == "Postcard"


def test_parts_pages_times_and_titles_are_checked_as_a_file_is_made() -> None:
    with pytest.raises(ValueError, match="belongs to a part"):
        PdfFile(write_batch()).add_page(b"", [])
    pdf = PdfFile(write_batch())
    pdf.begin_part(b"1")
    with pytest.raises(ValueError, match="without pages"):
        pdf.begin_part(b"2")
    with pytest.raises(ValueError, match="time zone"):
        PrintMetadata("Batch", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="title"):
        PrintMetadata(" ", MADE_AT)


def test_our_srgb_is_srgb(subtests: pytest.Subtests) -> None:
    steps = np.stack(np.meshgrid(*[np.arange(0, 256, 15).astype(np.uint8)] * 3), -1).reshape(18, -1, 3)
    for name, profile in {"display": DISPLAY_PROFILE, "output": OUTPUT_PROFILE}.items():
        ours, theirs = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        for rendering in ImageCms.Intent:
            for source, target in ((ours, theirs), (theirs, ours)):
                with subtests.test(name, rendering=rendering.name):
                    moved = ImageCms.profileToProfile(
                        Image.fromarray(steps), source, target, renderingIntent=rendering, outputMode="RGB"
                    )
                    assert moved is not None
                    assert np.abs(np.asarray(moved).astype(int) - steps).max() <= 1


def test_an_operators_profile_is_read_or_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    display = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    theirs, ours = display[:12] + b"prtr" + display[16:], SRGB.profile
    assert read_output_intent(theirs) == OutputIntent(theirs, 3, "sRGB built-in")
    assert read_output_intent(ours + b"rest") == SRGB
    assert read_output_intent(CMYK.profile).components == 4
    old_form = b"desc" + bytes(4) + struct.pack(">I", 7) + b"Coated\0"
    data = ours[:128] + struct.pack(">I4sII", 1, b"desc", 144, len(old_form)) + old_form
    assert read_output_intent(struct.pack(">I", len(data)) + data[4:]).condition == "Coated"
    refused = [
        (b"", "not an ICC profile"),
        (b"\x89PNG" + bytes(500), "not an ICC profile"),
        (ours[:-1], "cut off"),
        (profile_of(b"RGB ", b"link"), "class link"),
        (DISPLAY_PROFILE, "class mntr"),
        (profile_of(b"Lab "), "colors are Lab"),
        (ours[:20] + b"????" + ours[24:], r"connects to \?"),
        (ours[:128] + b"\xff\xff\xff\xff" + ours[132:], "list of tags"),
        (ours[:136] + b"\xff\xff\xff\xff" + ours[140:], "tag desc runs past"),
        (ours[:132] + b"none" + ours[136:], "no description"),
    ]
    for data, reason in refused:
        with subtests.test(reason), pytest.raises(ValueError, match=reason):
            read_output_intent(data)


def test_a_profile_is_in_a_file_once() -> None:
    pdf = PdfFile()
    assert icc_color_space(pdf, SRGB.profile, 3) == icc_color_space(pdf, SRGB.profile, 3)
    assert icc_color_space(pdf, SRGB.profile, 3) != icc_color_space(pdf, CMYK.profile, 4)
    assert pdf.finish().count(b"/N 3/Filter") == 1


def test_the_qpdf_program_finds_nothing(tmp_path: Path) -> None:
    found = find_qpdf_errors(sheets(write_batch(), pieces=130), tmp_path)
    if found is None:
        pytest.skip("qpdf is not installed")
    assert found == ""


def test_a_second_renderer_draws_the_same(tmp_path: Path) -> None:
    pdf = sheets(write_batch())
    theirs = second_opinion(pdf, 1, 144, tmp_path)
    if theirs is None:
        pytest.skip("pdftoppm is not installed")
    ours = Image.open(io.BytesIO(rasterize_pages(pdf, dpi=144, pages=[1])[0])).convert("RGB")
    theirs = theirs.crop((18, 18, 18 + ours.width, 18 + ours.height))
    # Renderers smooth edges in their own ways: compare what is left at a quarter of the size.
    small = (ours.width // 4, ours.height // 4)
    pictures = [np.asarray(p.resize(small, Image.Resampling.BOX)).astype(int) for p in (ours, theirs)]
    difference = np.abs(pictures[0] - pictures[1])
    assert difference.max() < 64
    assert difference.mean() < 1.5
