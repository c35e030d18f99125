"""Follows what a page draws with, keeps only what it uses, and finds why it cannot print as it is.

Scripts, actions, attachments and hidden content have no way into the print.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pikepdf

from quillpost.rendering.images import complexity, objects, rules
from quillpost.rendering.images.complexity import ContentTrace, DrawingCost
from quillpost.rendering.images.files import read_jpeg_header
from quillpost.rendering.images.objects import RESOURCE_CATEGORIES, Node, PdfObject, find_resource, resource_name
from quillpost.rendering.images.rules import UnprintableImage, UnprintablePdf

_MAX_IMAGE_PIXELS = 100_000_000

_PARSED_OPERATORS = f"Tf Do gs cs CS sc SC scn SCN sh k K BDC DP BI ID EI {complexity.COUNTED_OPERATORS}"
_COLOR_OPERATORS = frozenset({"sc", "SC", "scn", "SCN"})
_DECODABLE_FILTERS = frozenset({"/FlateDecode", "/Fl", "/LZWDecode", "/LZW", "/RunLengthDecode", "/RL"})
_FONT_FILES = ("/FontFile", "/FontFile2", "/FontFile3")

CMYK_REASON = "CMYK colors"
LAYERS_REASON = "layers that are switched off"


@dataclass
class PageInspection:
    """One page's walk; `redraw_reasons` keeps the order in which they are met."""

    number: int
    has_hidden_layers: bool
    size: tuple[float, float]
    redraw_reasons: dict[str, None] = field(default_factory=dict)
    _printed_objects: list[tuple[PdfObject, str]] = field(default_factory=list)
    _drawing_cost: DrawingCost = field(default_factory=DrawingCost)
    _content_bytes: int = 0
    _objects: objects.SeenObjects = field(init=False)

    def __post_init__(self) -> None:
        self._objects = objects.SeenObjects(self.number)

    def inspect_page(self, form: pikepdf.Stream) -> None:
        """Raises UnprintablePdf when the page draws too much."""
        if self._drawing_cost.total_cost(self._inspect_form(form)) > rules.MAX_DRAWING_COST:
            raise UnprintablePdf(
                f"Page {self.number} of the PDF draws too much: more than {rules.MAX_DRAWING_COST:,} things, each"
                " counted as often as it is repeated. Make it simpler, or save the page as a picture."
            )

    def _inspect_form(self, form: pikepdf.Stream, inherited: PdfObject = None, depth: int = 0) -> Node:
        node: Node = form.objgen
        if self._objects.is_already_seen(form, depth):
            return node
        kind = "pattern" if "/PatternType" in form else "form"
        if form.get("/Subtype2") == "/PS" or "/PS" in form:
            self._add_reason("PostScript")
        if "/OC" in form:
            self._note_layer()
        resources = form.get("/Resources", inherited)
        self._keep_entries(form, kind)
        group = form.get("/Group")
        if isinstance(group, pikepdf.Dictionary):
            self._keep_entries(group, "group")
            self._inspect_color_space(group.get("/CS"), depth)
        extra, repeats = complexity.tiling_cost(form, *self.size) if kind == "pattern" else (0, 1)
        form["/Resources"] = self._inspect_content(form, resources, depth, node, extra, repeats)
        return node

    def strip_entries(self) -> None:
        """Remove what does not show, after all pages are inspected: they share objects."""
        for pdf_object, kind in self._printed_objects:
            objects.keep_entries(pdf_object, kind)

    def _keep_entries(self, pdf_object: PdfObject, kind: str) -> None:
        self._printed_objects.append((pdf_object, kind))

    def _inspect_content(
        self,
        stream: pikepdf.Stream,
        resources: PdfObject,
        depth: int,
        node: Node,
        extra_cost: int = 0,
        repeats: int = 1,
    ) -> pikepdf.Dictionary:
        """The resources that a content stream uses, each of them inspected; its cost is recorded."""
        used_resources: dict[str, dict[str, PdfObject]] = {}
        inks: list[Sequence[PdfObject]] = []
        content = self._read_stream(objects.unpack_content, stream)
        trace = ContentTrace(len(content), partial(find_resource, resources))
        for operator, operands in self._instructions(stream, len(content)):
            name = resource_name(operands, operator)
            trace.follow(operator, operands, name)
            if operator in ("k", "K"):
                inks.append(operands)
            elif operator == "INLINE IMAGE":
                self._inspect_inline_image(operands[0], resources, depth)
            elif name is None or operator not in RESOURCE_CATEGORIES:
                # Four numbers after a CMYK color are another one.
                inks += [operands] if inks and operator in _COLOR_OPERATORS and len(operands) == 4 else []
            else:
                category = RESOURCE_CATEGORIES[operator]
                pdf_object = find_resource(resources, category, name)
                if pdf_object is not None:
                    used_resources.setdefault(category, {})[name] = pdf_object
                elif category == "/ColorSpace":
                    self._inspect_color_space(pikepdf.Name(name), depth)
                if category == "/Properties" and operands[0] == "/OC":
                    self._note_layer()
        if not all(map(objects.is_black_only, inks)):
            self._add_reason(CMYK_REASON)
        elif inks:
            objects.black_to_gray(stream)
        for name in objects.DEFAULT_SPACES:
            if (pdf_object := find_resource(resources, "/ColorSpace", name)) is not None:
                used_resources.setdefault("/ColorSpace", {})[name] = pdf_object
        kept_resources: dict[str, dict[str, PdfObject]] = {}
        uses: Counter[Node] = Counter()
        for category, named_objects in sorted(used_resources.items()):
            for name, pdf_object in sorted(named_objects.items()):
                kept_object, drawing_node = self._inspect_resource(category, pdf_object, resources, depth + 1)
                kept_resources.setdefault(category, {})[name] = kept_object
                if drawing_node is not None:
                    uses[drawing_node] += trace.uses[category, name]
        self._drawing_cost.record(node, trace.own_cost + extra_cost, uses, repeats=repeats)
        return pikepdf.Dictionary(
            {category: pikepdf.Dictionary(named_objects) for category, named_objects in kept_resources.items()}
        )

    def _inspect_resource(
        self, category: str, pdf_object: PdfObject, inherited: PdfObject, depth: int
    ) -> tuple[PdfObject, Node | None]:
        if category == "/Properties":
            return pikepdf.Dictionary(), None
        if category == "/ColorSpace":
            self._inspect_color_space(pdf_object, depth)
            return pdf_object, None
        if category == "/Shading":
            return pdf_object, self._inspect_shading(pdf_object, depth)
        inspect = {
            "/Font": self._inspect_font,
            "/XObject": self._inspect_xobject,
            "/ExtGState": self._inspect_graphics_state,
            "/Pattern": self._inspect_pattern,
        }[category]
        return pdf_object, inspect(pdf_object, inherited, depth)

    def _instructions(self, stream: pikepdf.Stream, size: int) -> Iterator[tuple[str, Sequence[PdfObject]]]:
        self._content_bytes += size
        if self._content_bytes > rules.MAX_CONTENT_BYTES:
            raise UnprintablePdf(
                f"The drawing of page {self.number} of the PDF is larger than"
                f" {rules.format_megabytes(rules.MAX_CONTENT_BYTES)}. Make it simpler, or save the page as a picture."
            )
        errors_before = pikepdf.settings.qpdf_limit_errors()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                instructions = pikepdf.parse_content_stream(stream, _PARSED_OPERATORS)
            except (UserWarning, pikepdf.PdfError):
                instructions = []
                self._add_reason("a damaged drawing")
        if pikepdf.settings.qpdf_limit_errors() != errors_before:
            self._add_reason("a damaged drawing")
        for instruction in instructions:
            yield str(instruction.operator), list(instruction.operands)

    def _inspect_inline_image(self, image: PdfObject, resources: PdfObject, depth: int) -> None:
        space = image.obj.get("/ColorSpace")
        if isinstance(space, pikepdf.Name):
            space = find_resource(resources, "/ColorSpace", str(space)) or space
        self._inspect_color_space(space, depth + 1)

    def _inspect_xobject(self, xobject: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        if not isinstance(xobject, pikepdf.Stream):
            return None
        subtype = xobject.get("/Subtype")
        if subtype == "/Image":
            return self._inspect_image(xobject, depth)
        if subtype == "/Form":
            return self._inspect_form(xobject, inherited, depth)
        self._add_reason("PostScript")
        return None

    def _inspect_image(self, image: pikepdf.Stream, depth: int) -> Node:
        node: Node = image.objgen
        if self._objects.is_already_seen(image, depth):
            return node
        if "/OC" in image:
            self._note_layer()
        self._keep_entries(image, "image")
        self._check_pixels(image)
        self._inspect_color_space(image.get("/ColorSpace"), depth)
        masks = [mask for name in ("/SMask", "/Mask") if isinstance(mask := image.get(name), pikepdf.Stream)]
        uses = dict.fromkeys([self._inspect_image(mask, depth + 1) for mask in masks], 1)
        pixels = complexity.pixel_cost(
            objects.int_or_zero(image.get("/Width")), objects.int_or_zero(image.get("/Height"))
        )
        self._drawing_cost.record(node, pixels, uses)
        return node

    def _check_pixels(self, image: pikepdf.Stream) -> None:
        """The image's two headers must agree on a size that can be printed."""
        width, height = objects.int_or_zero(image.get("/Width")), objects.int_or_zero(image.get("/Height"))
        if width < 1 or height < 1:
            return self._add_reason("a damaged picture")
        if width * height > _MAX_IMAGE_PIXELS:
            raise UnprintablePdf(f"Page {self.number} of the PDF holds a picture of {width} x {height} pixels.")
        filters = objects.stream_filters(image)
        if "/JPXDecode" in filters:
            return self._add_reason("a JPEG 2000 picture")
        if filters == ["/DCTDecode"]:
            try:
                head = read_jpeg_header(image.read_raw_bytes())
            except UnprintableImage:
                return self._add_reason("a damaged picture")
            if (head.width, head.height) != (width, height):
                return self._add_reason("a damaged picture")
        elif _DECODABLE_FILTERS.issuperset(filters):
            self._read_stream(pikepdf.Object.read_bytes, image)
        return None

    def _inspect_font(self, font: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        """The node of a Type 3 font, whose glyphs are drawings."""
        if not isinstance(font, pikepdf.Dictionary):
            return None
        node = self._objects.node_of(font)
        if self._objects.is_already_seen(font, depth):
            return node
        self._keep_entries(font, "font")
        if font.get("/Subtype") == "/Type3":
            self._inspect_type3_font(font, inherited, depth, node)
            return node
        described_font: PdfObject = font
        descendants = font.get("/DescendantFonts")
        if isinstance(descendants, pikepdf.Array) and len(descendants):
            described_font = descendants[0]
            if isinstance(described_font, pikepdf.Dictionary):
                self._keep_entries(described_font, "font")
        descriptor = described_font.get("/FontDescriptor") if isinstance(described_font, pikepdf.Dictionary) else None
        is_embedded = False
        if isinstance(descriptor, pikepdf.Dictionary):
            self._keep_entries(descriptor, "font_descriptor")
            files = [descriptor[name] for name in _FONT_FILES if name in descriptor]
            is_embedded = any(isinstance(file, pikepdf.Stream) for file in files)
            for file in files:
                self._keep_entries(file, "font_file")
        if not is_embedded:
            name = str(font.get("/BaseFont", "/of no name"))[1:]
            self._add_reason(f"the font {name[:60]}, which is not embedded")
        return None

    def _inspect_type3_font(self, font: pikepdf.Dictionary, inherited: PdfObject, depth: int, node: Node) -> None:
        resources = font.get("/Resources", inherited)
        merged_resources: dict[str, dict[str, PdfObject]] = {}
        char_procs = font.get("/CharProcs")
        glyph_nodes: list[Node] = []
        for _, char_proc in sorted(char_procs.items()) if isinstance(char_procs, pikepdf.Dictionary) else []:
            if not isinstance(char_proc, pikepdf.Stream):
                continue
            glyph_nodes.append(char_proc.objgen)
            if not self._objects.is_already_seen(char_proc, depth):
                for category, named_objects in self._inspect_content(
                    char_proc, resources, depth + 1, char_proc.objgen
                ).items():
                    merged_resources.setdefault(category, {}).update(named_objects.items())
        self._drawing_cost.record_font_glyphs(node, glyph_nodes)
        font["/Resources"] = pikepdf.Dictionary(
            {
                category: pikepdf.Dictionary(dict(sorted(named_objects.items())))
                for category, named_objects in merged_resources.items()
            }
        )

    def _inspect_graphics_state(self, state: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        """The node of its soft mask."""
        if not isinstance(state, pikepdf.Dictionary):
            return None
        if self._objects.is_already_seen(state, depth):
            return objects.soft_mask_node(state)
        self._keep_entries(state, "graphics_state")
        font = state.get("/Font")
        if isinstance(font, pikepdf.Array) and len(font):
            self._inspect_font(font[0], inherited, depth)
        mask = state.get("/SMask")
        if isinstance(mask, pikepdf.Dictionary):
            self._keep_entries(mask, "soft_mask")
            group: PdfObject = mask.get("/G")
            if isinstance(group, pikepdf.Stream):
                self._inspect_form(group, inherited, depth + 1)
        return objects.soft_mask_node(state)

    def _inspect_pattern(self, pattern: PdfObject, inherited: PdfObject, depth: int) -> Node | None:
        if isinstance(pattern, pikepdf.Stream):
            return self._inspect_form(pattern, inherited, depth)
        if not isinstance(pattern, pikepdf.Dictionary):
            return None
        node = self._objects.node_of(pattern)
        if not self._objects.is_already_seen(pattern, depth):
            self._keep_entries(pattern, "pattern")
            shading = self._inspect_shading(pattern.get("/Shading"), depth + 1)
            self._inspect_graphics_state(pattern.get("/ExtGState"), inherited, depth + 1)
            self._drawing_cost.record(node, 0, {} if shading is None else {shading: 1})
        return node

    def _inspect_shading(self, shading: PdfObject, depth: int) -> Node | None:
        if not isinstance(shading, pikepdf.Dictionary | pikepdf.Stream):
            return None
        node = self._objects.node_of(shading)
        if not self._objects.is_already_seen(shading, depth):
            self._keep_entries(shading, "shading")
            self._inspect_color_space(shading.get("/ColorSpace"), depth)
            self._drawing_cost.record(node, complexity.shading_cost(shading), {})
        return node

    def _inspect_color_space(self, space: PdfObject, depth: int) -> None:
        self._objects.check_depth(depth)
        if isinstance(space, pikepdf.Name):
            if space in ("/DeviceCMYK", "/CMYK"):
                self._add_reason(CMYK_REASON)
        elif isinstance(space, pikepdf.Array) and len(space):
            family = space[0]
            if family == "/ICCBased" and len(space) > 1 and isinstance(space[1], pikepdf.Stream):
                self._keep_entries(space[1], "profile")
            elif family in ("/Indexed", "/I", "/Pattern") and len(space) > 1:
                self._inspect_color_space(space[1], depth + 1)
            elif family in ("/Separation", "/DeviceN") and len(space) > 2:
                self._inspect_color_space(space[2], depth + 1)
            elif len(space) == 1:
                self._inspect_color_space(family, depth + 1)

    def _read_stream(self, read: Callable[[pikepdf.Stream], bytes], stream: pikepdf.Stream) -> bytes:
        try:
            return read(stream)
        except (pikepdf.PdfError, pikepdf.DataDecodingError) as error:
            raise UnprintablePdf(f"Page {self.number} of the PDF is damaged or too complex.") from error

    def _note_layer(self) -> None:
        if self.has_hidden_layers:
            self._add_reason(LAYERS_REASON)

    def _add_reason(self, reason: str) -> None:
        self.redraw_reasons[reason] = None
