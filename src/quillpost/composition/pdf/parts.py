"""Document parts (PDF/VT-1): which pages belong to which recipient, for the press to find."""

from quillpost.composition.pdf.objects import Objects

_PARTS_A_NODE = 100
# The root and its groups are above the recipients.
_RECORD_LEVEL = 2


class PartTree:
    """One part a recipient, a hundred recipients a group, the groups under one root."""

    def __init__(self, pdf: Objects) -> None:
        self._pdf = pdf
        self._root = pdf.reserve()
        self._top = pdf.reserve()
        self._groups: list[int] = []
        self._parts: list[int] = []
        self._name = b"", b""
        self._pages: list[int] = []

    def begin(self, piece: bytes, product: bytes) -> None:
        self._close()
        if len(self._parts) % _PARTS_A_NODE == 0:
            self._groups.append(self._pdf.reserve())
        self._parts.append(self._pdf.reserve())
        self._name = piece, product

    def take(self, page: int) -> bytes:
        """The entry that ties this page to the part at hand."""
        if not self._parts:
            raise ValueError("a page of a file for the press belongs to a part: begin one first")
        self._pages.append(page)
        return b"/DPart %d 0 R" % self._parts[-1]

    def finish(self) -> int:
        """The number of the whole tree."""
        self._close()
        for index, group in enumerate(self._groups):
            parts = self._parts[index * _PARTS_A_NODE : (index + 1) * _PARTS_A_NODE]
            self._put_node(group, self._top, parts)
        self._put_node(self._top, self._root, self._groups)
        return self._pdf.put(
            self._root,
            b"<</Type/DPartRoot/DPartRootNode %d 0 R/RecordLevel %d/NodeNameList[/Batch/Group/Piece]>>"
            % (self._top, _RECORD_LEVEL),
        )

    def _close(self) -> None:
        if not self._parts:
            return
        if not self._pages:
            raise ValueError("a part without pages")
        self._pdf.put(
            self._parts[-1],
            b"<</Type/DPart/Parent %d 0 R/Start %d 0 R/End %d 0 R/DPM<</CIP4_Root<<"
            b"/CIP4_Recipient<</CIP4_UniqueID(%b)>>/CIP4_Intent<</CIP4_ProductType%b>>>>>>>>"
            % (self._groups[-1], self._pages[0], self._pages[-1], *self._name),
        )
        self._pages = []

    def _put_node(self, number: int, parent: int, parts: list[int]) -> None:
        below = b" ".join([b"%d 0 R" % part for part in parts])
        self._pdf.put(number, b"<</Type/DPart/Parent %d 0 R/DParts[[%b]]>>" % (parent, below))
