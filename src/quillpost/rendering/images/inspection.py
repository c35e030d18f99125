"""What a page draws with: followed through its content, cut down to what it uses, judged for print.

Whatever the content does not name is left behind, and what it names keeps only the entries that say
how it looks: scripts, actions, attachments and hidden things have no way into the print.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pikepdf

from quillpost.rendering.images import complexity, pdf_objects
from quillpost.rendering.images.complexity import DrawnCount, Node, Trace
from quillpost.rendering.images.jpeg import read_jpeg_header
from quillpost.rendering.images.limits import MOST_CONTENT_BYTES, MOST_DRAWN, BadImage, BadPdf, megabytes
from quillpost.rendering.images.pdf_objects import PdfObject, black_to_grey, is_black_alone
from quillpost.rendering.images.resources import (
    CATEGORIES,
    DEFAULT_SPACES,
    filters_of,
    find_resource,
    mask_of,
    name_in,
    unpacked_drawing,
    whole,
)

_MOST_PIXELS = 100_000_000
_MOST_THINGS = 20_000
_DEEPEST = 24

_OPERATORS = f"Tf Do gs cs CS sc SC scn SCN sh k K BDC DP BI ID EI {complexity.OPERATORS}"
_COLOUR_SETTERS = frozenset({"sc", "SC", "scn", "SCN"})
_OURS_TO_DECODE = frozenset({"/FlateDecode", "/Fl", "/LZWDecode", "/LZW", "/RunLengthDecode", "/RL"})
_FONT_FILES = ("/FontFile", "/FontFile2", "/FontFile3")

CMYK = "CMYK colours"
LAYERS = "layers that are switched off"


@dataclass
class Inspection:
    """One page's walk. `reasons` say why it cannot print as it is, in the order in which they are met."""

    number: int
    has_hidden_layers: bool
    size: tuple[float, float]
    reasons: dict[str, None] = field(default_factory=dict)
    _kept: list[tuple[PdfObject, frozenset[str]]] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _drawn: DrawnCount = field(default_factory=DrawnCount)
    _content_bytes: int = 0
    _things: int = 0
    _unnumbered: int = 0

    def page(self, form: pikepdf.Stream) -> None:
        """A page made into a form; BadPdf when it draws more than one page may."""
        if self._drawn.total(self._form(form)) > MOST_DRAWN:
            raise BadPdf(
                f"Page {self.number} of the PDF draws too much: more than {MOST_DRAWN:,} things, each"
                " counted as often as it is repeated. Make it simpler, or save the page as a picture."
            )

    def _form(self, form: pikepdf.Stream, inherited: PdfObject = None, depth: int = 0) -> Node:
        """A form, a tiling pattern or a page made into one."""
        node: Node = form.objgen
        if self._is_known(form, depth):
            return node
        kept = pdf_objects.PATTERN if "/PatternType" in form else pdf_objects.FORM
        if form.get("/Subtype2") == "/PS" or "/PS" in form:
            self._because("PostScript")
        if "/OC" in form:
            self._layer()
        resources = form.get("/Resources", inherited)
        self._keep(form, kept)
        group = form.get("/Group")
        if isinstance(group, pikepdf.Dictionary):
            self._keep(group, pdf_objects.GROUP)
            self._space(group.get("/CS"), depth)
        extra, times = complexity.tiles_of(form, *self.size) if kept is pdf_objects.PATTERN else (0, 1)
        form["/Resources"] = self._content(form, resources, depth, node, extra, times)
        return node

    def strip(self) -> None:
        """Take away what does not show, when all pages have been inspected: they share their parts."""
        for thing, kept in self._kept:
            pdf_objects.keep(thing, kept)

    def _keep(self, thing: PdfObject, kept: frozenset[str]) -> None:
        self._kept.append((thing, kept))

    def _content(
        self,
        stream: pikepdf.Stream,
        resources: PdfObject,
        depth: int,
        node: Node,
        extra: int = 0,
        times: int = 1,
    ) -> pikepdf.Dictionary:
        """The resources that a content stream uses, each of them inspected; what it draws is noted."""
        used: dict[str, dict[str, PdfObject]] = {}
        inks: list[Sequence[PdfObject]] = []
        content = self._read(unpacked_drawing, stream)
        trace = Trace(len(content), partial(find_resource, resources))
        for operator, operands in self._instructions(stream, len(content)):
            name = name_in(operands, operator)
            trace.follow(operator, operands, name)
            if operator in ("k", "K"):
                inks.append(operands)
            elif operator == "INLINE IMAGE":
                self._inline(operands[0], resources, depth)
            elif name is None or operator not in CATEGORIES:
                # Four numbers after a CMYK colour are another one.
                inks += [operands] if inks and operator in _COLOUR_SETTERS and len(operands) == 4 else []
            else:
                self._use(operator, name, operands, resources, used, depth)
        self._inks(stream, inks)
        for name in DEFAULT_SPACES:
            if (thing := find_resource(resources, "/ColorSpace", name)) is not None:
                used.setdefault("/ColorSpace", {})[name] = thing
        found: dict[str, dict[str, PdfObject]] = {}
        uses: Counter[Node] = Counter()
        for category, things in sorted(used.items()):
            for name, thing in sorted(things.items()):
                kept, drawing = self._thing(category, thing, resources, depth + 1)
                found.setdefault(category, {})[name] = kept
                if drawing is not None:
                    uses[drawing] += trace.uses[category, name]
        self._drawn.note(node, trace.own + extra, uses, times=times)
        return pikepdf.Dictionary(
            {category: pikepdf.Dictionary(things) for category, things in found.items()}
        )

    def _use(
        self,
        operator: str,
        name: str,
        operands: Sequence[PdfObject],
        resources: PdfObject,
        used: dict[str, dict[str, PdfObject]],
        depth: int,
    ) -> None:
        """Remember in `used` what an instruction names."""
        category = CATEGORIES[operator]
        thing = find_resource(resources, category, name)
        if thing is not None:
            used.setdefault(category, {})[name] = thing
        elif category == "/ColorSpace":
            self._space(pikepdf.Name(name), depth)
        if category == "/Properties" and operands[0] == "/OC":
            self._layer()

    def _inks(self, stream: pikepdf.Stream, inks: list[Sequence[PdfObject]]) -> None:
        if not all(map(is_black_alone, inks)):
            self._because(CMYK)
        elif inks:
            black_to_grey(stream)

    def _thing(
        self, category: str, thing: PdfObject, inherited: PdfObject, depth: int
    ) -> tuple[PdfObject, Node | None]:
        """What is kept of it, and what is drawn with it."""
        drawing: Node | None = None
        if category == "/Properties":
            return pikepdf.Dictionary(), None
        if category == "/Font":
            drawing = self._font(thing, inherited, depth)
        elif category == "/XObject":
            drawing = self._xobject(thing, inherited, depth)
        elif category == "/ExtGState":
            drawing = self._graphics_state(thing, inherited, depth)
        elif category == "/ColorSpace":
            self._space(thing, depth)
        elif category == "/Pattern":
            drawing = self._pattern(thing, inherited, depth)
        elif category == "/Shading":
            drawing = self._shading(thing, depth)
        return thing, drawing

    def _instructions(self, stream: pikepdf.Stream, size: int) -> Iterator[tuple[str, Sequence[PdfObject]]]:
        self._content_bytes += size
        if self._content_bytes > MOST_CONTENT_BYTES:
            raise BadPdf(
                f"The drawing of page {self.number} of the PDF is larger than"
                f" {megabytes(MOST_CONTENT_BYTES)}. Make it simpler, or save the page as a picture."
            )
        before = pikepdf.settings.qpdf_limit_errors()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                instructions = pikepdf.parse_content_stream(stream, _OPERATORS)
            except (UserWarning, pikepdf.PdfError):
                instructions = []
                self._because("a damaged drawing")
        if pikepdf.settings.qpdf_limit_errors() != before:
            self._because("a damaged drawing")
        for instruction in instructions:
            yield str(instruction.operator), list(instruction.operands)

    def _inline(self, image: PdfObject, resources: PdfObject, depth: int) -> None:
        space = image.obj.get("/ColorSpace")
        if isinstance(space, pikepdf.Name):
            space = find_resource(resources, "/ColorSpace", str(space)) or space
        self._space(space, depth + 1)

    def _xobject(self, thing: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        if not isinstance(thing, pikepdf.Stream):
            return None
        subtype = thing.get("/Subtype")
        if subtype == "/Image":
            return self._image(thing, depth)
        if subtype == "/Form":
            return self._form(thing, inherited, depth)
        self._because("PostScript")
        return None

    def _image(self, image: pikepdf.Stream, depth: int) -> Node:
        node: Node = image.objgen
        if self._is_known(image, depth):
            return node
        if "/OC" in image:
            self._layer()
        self._keep(image, pdf_objects.IMAGE)
        self._pixels(image)
        self._space(image.get("/ColorSpace"), depth)
        masks = [mask for name in ("/SMask", "/Mask") if isinstance(mask := image.get(name), pikepdf.Stream)]
        uses = dict.fromkeys([self._image(mask, depth + 1) for mask in masks], 1)
        pixels = complexity.cost_of_pixels(whole(image.get("/Width")), whole(image.get("/Height")))
        self._drawn.note(node, pixels, uses)
        return node

    def _pixels(self, image: pikepdf.Stream) -> None:
        """Sizes that an image's two headers agree on, and that a press can take."""
        width, height = whole(image.get("/Width")), whole(image.get("/Height"))
        if width < 1 or height < 1:
            return self._because("a damaged picture")
        if width * height > _MOST_PIXELS:
            raise BadPdf(f"Page {self.number} of the PDF holds a picture of {width} x {height} pixels.")
        filters = filters_of(image)
        if "/JPXDecode" in filters:
            return self._because("a JPEG 2000 picture")
        if filters == ["/DCTDecode"]:
            try:
                head = read_jpeg_header(image.read_raw_bytes())
            except BadImage:
                return self._because("a damaged picture")
            if (head.width, head.height) != (width, height):
                return self._because("a damaged picture")
        elif _OURS_TO_DECODE.issuperset(filters):
            self._read(pikepdf.Object.read_bytes, image)
        return None

    def _font(self, font: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        """Of a font whose letters are drawings, what they draw."""
        if not isinstance(font, pikepdf.Dictionary):
            return None
        node = self._node(font)
        if self._is_known(font, depth):
            return node
        self._keep(font, pdf_objects.FONT)
        if font.get("/Subtype") == "/Type3":
            self._drawn_font(font, inherited, depth, node)
            return node
        described: PdfObject = font
        descendants = font.get("/DescendantFonts")
        if isinstance(descendants, pikepdf.Array) and len(descendants):
            described = descendants[0]
            if isinstance(described, pikepdf.Dictionary):
                self._keep(described, pdf_objects.FONT)
        descriptor = described.get("/FontDescriptor") if isinstance(described, pikepdf.Dictionary) else None
        is_embedded = False
        if isinstance(descriptor, pikepdf.Dictionary):
            self._keep(descriptor, pdf_objects.FONT_DESCRIPTOR)
            files = [descriptor[name] for name in _FONT_FILES if name in descriptor]
            is_embedded = any(isinstance(file, pikepdf.Stream) for file in files)
            for file in files:
                self._keep(file, pdf_objects.FONT_FILE)
        if not is_embedded:
            name = str(font.get("/BaseFont", "/of no name"))[1:]
            self._because(f"the font {name[:60]}, which is not embedded")
        return None

    def _drawn_font(self, font: pikepdf.Dictionary, inherited: PdfObject, depth: int, node: Node) -> None:
        """A font whose letters are small drawings of their own, with one set of resources."""
        resources = font.get("/Resources", inherited)
        merged: dict[str, dict[str, PdfObject]] = {}
        letters = font.get("/CharProcs")
        drawn_letters: list[Node] = []
        for _, letter in sorted(letters.items()) if isinstance(letters, pikepdf.Dictionary) else []:
            if not isinstance(letter, pikepdf.Stream):
                continue
            drawn_letters.append(letter.objgen)
            if not self._is_known(letter, depth):
                for category, things in self._content(letter, resources, depth + 1, letter.objgen).items():
                    merged.setdefault(category, {}).update(things.items())
        self._drawn.note_letters(node, drawn_letters)
        font["/Resources"] = pikepdf.Dictionary(
            {
                category: pikepdf.Dictionary(dict(sorted(things.items())))
                for category, things in merged.items()
            }
        )

    def _graphics_state(self, state: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        """Its mask, if it has one that is drawn."""
        if not isinstance(state, pikepdf.Dictionary):
            return None
        if self._is_known(state, depth):
            return mask_of(state)
        self._keep(state, pdf_objects.GRAPHICS_STATE)
        font = state.get("/Font")
        if isinstance(font, pikepdf.Array) and len(font):
            self._font(font[0], inherited, depth)
        mask = state.get("/SMask")
        if isinstance(mask, pikepdf.Dictionary):
            self._keep(mask, pdf_objects.SOFT_MASK)
            group: PdfObject = mask.get("/G")
            if isinstance(group, pikepdf.Stream):
                self._form(group, inherited, depth + 1)
        return mask_of(state)

    def _pattern(self, pattern: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        if isinstance(pattern, pikepdf.Stream):
            return self._form(pattern, inherited, depth)
        if not isinstance(pattern, pikepdf.Dictionary):
            return None
        node = self._node(pattern)
        if not self._is_known(pattern, depth):
            self._keep(pattern, pdf_objects.PATTERN)
            shading = self._shading(pattern.get("/Shading"), depth + 1)
            self._graphics_state(pattern.get("/ExtGState"), inherited, depth + 1)
            self._drawn.note(node, 0, {} if shading is None else {shading: 1})
        return node

    def _shading(self, shading: PdfObject, depth: int) -> Node | None:
        if not isinstance(shading, pikepdf.Dictionary | pikepdf.Stream):
            return None
        node = self._node(shading)
        if not self._is_known(shading, depth):
            self._keep(shading, pdf_objects.SHADING)
            self._space(shading.get("/ColorSpace"), depth)
            self._drawn.note(node, complexity.cost_of_shading(shading), {})
        return node

    def _space(self, space: PdfObject, depth: int) -> None:
        """A colour space, and those on which it rests."""
        if depth > _DEEPEST:
            raise BadPdf(f"Page {self.number} of the PDF is nested too deeply.")
        if isinstance(space, pikepdf.Name):
            if space in ("/DeviceCMYK", "/CMYK"):
                self._because(CMYK)
        elif isinstance(space, pikepdf.Array) and len(space):
            family = space[0]
            if family == "/ICCBased" and len(space) > 1 and isinstance(space[1], pikepdf.Stream):
                self._keep(space[1], pdf_objects.PROFILE)
            elif family in ("/Indexed", "/I", "/Pattern") and len(space) > 1:
                self._space(space[1], depth + 1)
            elif family in ("/Separation", "/DeviceN") and len(space) > 2:
                self._space(space[2], depth + 1)
            elif len(space) == 1:
                self._space(family, depth + 1)

    def _read(self, read: Callable[[pikepdf.Stream], bytes], stream: pikepdf.Stream) -> bytes:
        try:
            return read(stream)
        except (pikepdf.PdfError, pikepdf.DataDecodingError) as error:
            raise BadPdf(f"Page {self.number} of the PDF is damaged or too complex.") from error

    def _layer(self) -> None:
        if self.has_hidden_layers:
            self._because(LAYERS)

    def _because(self, reason: str) -> None:
        self.reasons[reason] = None

    def _node(self, thing: PdfObject) -> Node:
        """What the count knows it by. One that is written where it is used is met once."""
        if thing.is_indirect:
            return thing.objgen
        self._unnumbered += 1
        return ("direct", self._unnumbered)

    def _is_known(self, thing: PdfObject, depth: int) -> bool:
        """Whether it has been here before; every thing counts towards what one page may hold."""
        if depth > _DEEPEST:
            raise BadPdf(f"Page {self.number} of the PDF is nested too deeply.")
        self._things += 1
        if self._things > _MOST_THINGS:
            raise BadPdf(f"Page {self.number} of the PDF is too complex to be printed.")
        if not thing.is_indirect:
            return False
        known = thing.objgen in self._seen
        self._seen.add(thing.objgen)
        return known
