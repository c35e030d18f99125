"""A picture that a file already holds, without its pixels."""

from dataclasses import dataclass

from quillpost.composition.art.orientation import is_turned
from quillpost.composition.art.picture import covering
from quillpost.composition.geometry import Box


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """`number` is the picture's object; width and height are as stored, before it is stood upright."""

    number: int
    width: int
    height: int
    orientation: int

    @property
    def upright_size(self) -> tuple[int, int]:
        """Width and height as seen."""
        return (self.height, self.width) if is_turned(self.orientation) else (self.width, self.height)

    def draw_over(self, area: Box) -> bytes:
        """Operators that lay it over the whole area, centred; they leave the coordinates changed."""
        return b"%b /P%d Do" % (covering(self.width, self.height, self.orientation, area), self.number)
