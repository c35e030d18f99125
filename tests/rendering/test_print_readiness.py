import io
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

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

Break = Callable[[pikepdf.Pdf], object]


def _profile(space: bytes, device_class: bytes = b"prtr") -> bytes:
    """Our own profile, said to be of other colours."""
    data = SRGB.profile
    return data[:12] + device_class + space + data[20:]


CMYK = OutputIntent(_profile(b"CMYK"), 4, "A coated sheet")
GREY = OutputIntent(_profile(b"GRAY"), 1, "A laser printer")


def broken(change: Break, pdf: bytes | None = None) -> list[str]:
    """The faults of a sound file after one change."""
    changed = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf or sheets(write_batch()))) as document:
        change(document)
        document.save(changed, min_version="1.6", fix_metadata_version=False)
    return [error for error in find_errors(changed.getvalue()) if not error.startswith("version")]


def _set(path: str, value: object) -> Break:
    """Put a value at a path like `Root.Names`, or take away what is there."""
    *way, key = path.split(".")

    def change(document: pikepdf.Pdf) -> None:
        place = document.trailer
        for step in way:
            place = place[int(step)] if step.isdigit() else place["/" + step]
        if value is None:
            del place["/" + key]
        else:
            place["/" + key] = value

    return change


def _packet(old: bytes, new: bytes) -> Break:
    def change(document: pikepdf.Pdf) -> None:
        packet = document.Root.Metadata.read_bytes()
        assert old in packet
        document.Root.Metadata = document.make_stream(packet.replace(old, new))

    return change


def _add(**entries: object) -> Break:
    def change(document: pikepdf.Pdf) -> None:
        document.Root.PieceInfo = document.make_indirect(
            pikepdf.Dictionary({f"/{key}": value for key, value in entries.items()})
        )

    return change


def _on_fonts(subtype: str, change_font: Callable[[pikepdf.Object], object]) -> Break:
    def change(document: pikepdf.Pdf) -> None:
        for thing in document.objects:
            if isinstance(thing, pikepdf.Dictionary) and thing.get("/Subtype") == subtype:
                change_font(thing)

    return change


def _swap_parts(document: pikepdf.Pdf) -> None:
    parts = document.Root.DPartRoot.DPartRootNode.DParts[0][0].DParts[0]
    first, second = parts[0], parts[1]
    parts[0], parts[1] = second, first


def _two_intents(document: pikepdf.Pdf) -> None:
    document.Root.OutputIntents.append(document.Root.OutputIntents[0])


def _profile_of(data: bytes) -> Break:
    def change(document: pikepdf.Pdf) -> None:
        document.Root.OutputIntents[0].DestOutputProfile = document.make_stream(data, N=3)

    return change


def _image_in(space: str) -> Break:
    def change(document: pikepdf.Pdf) -> None:
        image = document.make_stream(bytes(4), Subtype=pikepdf.Name.Image, ColorSpace=pikepdf.Name(space))
        form = document.make_stream(b"/I Do", Subtype=pikepdf.Name.Form)
        form.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=image))
        document.pages[0].obj.Resources.XObject = pikepdf.Dictionary(F=form)

    return change


_PAGE = "Root.Pages.Kids.0.Kids.1."
_LEAF = "Root.DPartRoot.DPartRootNode.DParts.0.0.DParts.0.1."
_OTHER = pikepdf.Array([0, 0, 400, 400])

BREAKS: dict[str, tuple[Break, str]] = {
    "no title": (_set("Info.Title", None), "information: no /Title"),
    "another title": (_set("Info.Title", "Autumn"), "information: /Title is not"),
    "another date": (_set("Info.ModDate", "D:20200101000000Z"), "information: /ModDate is not"),
    "trapping unknown": (_set("Info.Trapped", pikepdf.Name.Unknown), "information: not told"),
    "no version told": (_set("Info.GTS_PDFXVersion", None), "information: not PDF/X-4"),
    "no metadata": (_set("Root.Metadata", None), "metadata: none"),
    "PDF/X-3": (_packet(b">PDF/X-4<", b">PDF/X-3<"), "metadata: not PDF/X-4"),
    "no PDF/VT": (_packet(b">PDF/VT-1<", b"><"), "metadata: not PDF/VT-1"),
    "changed later": (_packet(b"ModifyDate>2026", b"ModifyDate>2027"), "metadata: changed since"),
    "no identity told": (_packet(b"DocumentID", b"OtherID"), "metadata: no xmpMM:DocumentID"),
    "no intent": (_set("Root.OutputIntents", None), "intent: 0 instead of one"),
    "two intents": (_two_intents, "intent: 2 instead of one"),
    "no condition": (_set("Root.OutputIntents.0.OutputConditionIdentifier", None), "intent: no /Output"),
    "no profile": (_set("Root.OutputIntents.0.DestOutputProfile", None), "intent: no profile"),
    "no ICC": (_profile_of(b"profile"), "intent: This is not an ICC profile."),
    "a screen's profile": (_profile_of(DISPLAY_PROFILE), "intent: the profile is not that of"),
    "wrong N": (_set("Root.OutputIntents.0.DestOutputProfile.N", 4), "intent: /N is not"),
    "no trim box": (_set(_PAGE + "TrimBox", None), "boxes: page 1 has not all"),
    "trim beyond bleed": (_set(_PAGE + "TrimBox", _OTHER), "boxes: those of page 1"),
    "bleed beyond media": (_set(_PAGE + "BleedBox", _OTHER), "boxes: those of page 1"),
    "an art box": (_set(_PAGE + "ArtBox", _OTHER), "boxes: page 1 has an art box"),
    "font elsewhere": (
        _on_fonts("/TrueType", lambda font: font.FontDescriptor.__delitem__("/FontFile2")),
        "QuillpostBars is not embedded",
    ),
    "font without text": (
        _on_fonts("/Type0", lambda font: font.__delitem__("/ToUnicode")),
        "Caveat cannot be read back",
    ),
    "font of another name": (
        _on_fonts("/TrueType", lambda font: font.__setitem__("/BaseFont", pikepdf.Name.Helvetica)),
        "font /Helvetica is not named",
    ),
    "a CMYK image in a form": (_image_in("/DeviceCMYK"), "colour: /DeviceCMYK where the intent has 3"),
    "opens something": (_set("Root.OpenAction", pikepdf.Dictionary()), "forbidden: /OpenAction"),
    "a script": (_add(S=pikepdf.Name.JavaScript, JS="1"), "forbidden: an action"),
    "a file": (_add(EF=pikepdf.Dictionary()), "forbidden: an embedded file"),
    "a note": (_set(_PAGE + "Annots", pikepdf.Array()), "forbidden: /Annots on page 1"),
    "a blend": (_add(Type=pikepdf.Name.ExtGState, BM=pikepdf.Name.Screen), "forbidden: a blend mode"),
    "a transfer": (_add(Type=pikepdf.Name.ExtGState, TR=pikepdf.Name.Identity), "forbidden: a transfer"),
    "PostScript": (_add(Subtype=pikepdf.Name.PS), "forbidden: an XObject"),
    "no parts": (_set("Root.DPartRoot", None), "parts: no tree"),
    "a page in no part": (_set(_PAGE + "DPart", None), "parts: page 1 is not in"),
    "parts out of order": (_swap_parts, "parts: one from page 2 to 3 where 0 comes next"),
    "a stray parent": (_set(_LEAF + "Parent", pikepdf.Dictionary()), "parts: one that names another"),
    "a nameless part": (_set(_LEAF + "DPM", None), "parts: one that says not whose"),
    "records elsewhere": (_set("Root.DPartRoot.RecordLevel", 1), "parts: a recipient at level 2"),
    "levels without names": (_set("Root.DPartRoot.NodeNameList", None), "parts: not every level"),
}


def test_a_file_for_print_has_no_errors() -> None:
    assert find_errors(sheets(write_batch(), pieces=230)) == []


@pytest.mark.parametrize("intent", [CMYK, GREY], ids=["cmyk", "grey"])
def test_our_rgb_is_legal_with_every_output_profile(intent: OutputIntent) -> None:
    assert find_errors(sheets(write_batch(intent))) == []


def test_colors_look_the_same_with_every_output_profile() -> None:
    pictures = [rasterize_pages(sheets(write_batch(intent)), dpi=36, pages=[0])[0] for intent in (SRGB, CMYK)]
    direct, defined = (np.asarray(Image.open(io.BytesIO(png))).astype(int) for png in pictures)
    assert np.abs(direct - defined).max() <= 1


def test_saving_a_sound_file_again_leaves_it_sound() -> None:
    assert broken(lambda document: None) == []


@pytest.mark.parametrize(("change", "error"), BREAKS.values(), ids=BREAKS)
def test_a_broken_rule_is_found(change: Break, error: str) -> None:
    assert [found for found in broken(change) if error in found] != []


def test_colors_outside_the_output_profile_are_found() -> None:
    assert find_errors(sheets(write_batch(), extra=b"0 0 0 1 k 0 0 9 9 re f")) == [
        "colour: /DeviceCMYK where the intent has 3 components"
    ]
    without_default = _set(_PAGE + "Resources.ColorSpace", None)
    assert "colour: /DeviceRGB where the intent has 4 components" in broken(without_default, sheets(write_batch(CMYK)))


def test_a_file_without_identity_or_of_another_version_is_found() -> None:
    sound = sheets(write_batch())
    assert find_errors(sound.replace(b"/ID[", b"/IX[")) == ["identity: no /ID of twice 16 bytes"]
    assert find_errors(sound.replace(b"%PDF-1.6", b"%PDF-1.7")) == ["version: the header is b'%PDF-1.7'"]


def test_an_encrypted_file_is_found() -> None:
    locked = io.BytesIO()
    with pikepdf.open(io.BytesIO(sheets(write_batch()))) as document:
        document.save(locked, encryption=pikepdf.Encryption(owner="a", user=""))
    assert "encrypted" in find_errors(locked.getvalue())


def test_a_plain_file_is_not_ready_for_print() -> None:
    found = find_errors(sheets(None))
    assert {"metadata: none", "intent: 0 instead of one", "parts: no tree"} <= set(found)


def test_the_same_pieces_give_the_same_bytes() -> None:
    assert sheets(write_batch()) == sheets(write_batch())


def test_another_moment_gives_a_file_of_another_identity() -> None:
    later = replace(write_batch(), made_at=MADE_AT.replace(year=2027))
    one, other = (pikepdf.open(io.BytesIO(sheets(p))).trailer.ID[0] for p in (write_batch(), later))
    assert bytes(one) != bytes(other)


def test_names_and_bars_can_be_read_back_as_text() -> None:
    pdf = sheets(write_batch())
    for place, name in enumerate(NAMES):
        assert text_of(pdf, 2 * place + 1).split("\n") == [name, BARS]


def test_parts_say_whose_pages_they_are() -> None:
    with pikepdf.open(io.BytesIO(sheets(write_batch(), pieces=101))) as document:
        groups = document.Root.DPartRoot.DPartRootNode.DParts[0]
        leaves = [part for group in groups for part in group.DParts[0]]
    assert [len(group.DParts[0]) for group in groups] == [100, 1]
    names = [str(leaf.DPM.CIP4_Root.CIP4_Recipient.CIP4_UniqueID) for leaf in leaves]
    assert names == [str(700 + place) for place in range(101)]
    assert str(leaves[0].DPM.CIP4_Root.CIP4_Intent.CIP4_ProductType) == "Postcard"


def test_a_page_for_print_needs_a_part_and_a_part_needs_a_page() -> None:
    with pytest.raises(ValueError, match="belongs to a part"):
        PdfFile(write_batch()).add_page(b"", [])
    pdf = PdfFile(write_batch())
    pdf.begin_part(b"1")
    with pytest.raises(ValueError, match="without pages"):
        pdf.begin_part(b"2")


def test_a_moment_without_a_time_zone_and_an_empty_title_are_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        PrintMetadata("Batch", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="title"):
        PrintMetadata(" ", MADE_AT)


@pytest.mark.parametrize("profile", [DISPLAY_PROFILE, OUTPUT_PROFILE], ids=["display", "output"])
@pytest.mark.parametrize("rendering", ImageCms.Intent)
def test_our_srgb_is_srgb(profile: bytes, rendering: ImageCms.Intent) -> None:
    steps = np.stack(np.meshgrid(*[np.arange(0, 256, 15).astype(np.uint8)] * 3), -1).reshape(18, -1, 3)
    ours, theirs = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    for source, target in ((ours, theirs), (theirs, ours)):
        moved = ImageCms.profileToProfile(
            Image.fromarray(steps), source, target, renderingIntent=rendering, outputMode="RGB"
        )
        assert moved is not None
        assert np.abs(np.asarray(moved).astype(int) - steps).max() <= 1


def test_an_operators_profile_is_read() -> None:
    display = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    theirs = display[:12] + b"prtr" + display[16:]
    assert read_output_intent(theirs) == OutputIntent(theirs, 3, "sRGB built-in")
    assert read_output_intent(SRGB.profile + b"rest") == SRGB
    assert read_output_intent(CMYK.profile).components == 4
    old_form = b"desc" + bytes(4) + struct.pack(">I", 7) + b"Coated\0"
    data = SRGB.profile[:128] + struct.pack(">I4sII", 1, b"desc", 144, len(old_form)) + old_form
    assert read_output_intent(struct.pack(">I", len(data)) + data[4:]).condition == "Coated"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an ICC profile"),
        (b"\x89PNG" + bytes(500), "not an ICC profile"),
        (SRGB.profile[:-1], "cut off"),
        (_profile(b"RGB ", b"link"), "class link"),
        (DISPLAY_PROFILE, "class mntr"),
        (_profile(b"Lab "), "colors are Lab"),
        (SRGB.profile[:20] + b"????" + SRGB.profile[24:], r"connects to \?"),
        (SRGB.profile[:128] + b"\xff\xff\xff\xff" + SRGB.profile[132:], "list of tags"),
        (SRGB.profile[:136] + b"\xff\xff\xff\xff" + SRGB.profile[140:], "tag desc runs past"),
        (SRGB.profile[:132] + b"none" + SRGB.profile[136:], "no description"),
    ],
)
def test_an_unusable_output_profile_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
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
