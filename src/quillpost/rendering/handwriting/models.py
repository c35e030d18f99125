"""The handwriting styles, and the faces beside them, as data."""

from dataclasses import dataclass
from typing import Literal

StyleKind = Literal["AI", "Realistic", "Bold", "International"]
Engine = Literal["stroke", "outline"]


@dataclass(frozen=True, slots=True)
class FontFile:
    """A TrueType file in a package: of npm where its name starts with @, else of Python."""

    package: str
    path: str
    weight: int | None = None
    """Which weight to take from a variable font."""

    @property
    def is_from_npm(self) -> bool:
        return self.package.startswith("@")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceRecipe:
    """What it takes to prepare a face. One without an engine has no takes, only its true shapes."""

    face: str
    """The typeface by its own name."""
    source: FontFile
    engine: Engine | None = None
    amplitude: float = 1.0
    """How far takes differ; 1 is a calm adult hand."""
    joined: bool = False
    """Whether letters run into each other, so that takes must leave entries and exits in their place."""
    all_letters: bool = False
    """Whether letters beyond the Latin ones are kept as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style(FaceRecipe):
    """A hand that users choose by its number, which is its own for ever."""

    number: int
    name: str
    kind: StyleKind
    scale: float
    """What to multiply a font size with, so that all hands look equally large."""
    leading: float
    """From line to line, in multiples of the scaled size."""
    word_gap: float
    """Between two words, likewise; the faces' own spaces are too different to rely on."""
    figure_gap: int = 0
    """Thousandths of an em between two figures, where the face sets them too tight to be told apart."""


def _pypi_font(package: str, file_name: str, weight: int | None = None) -> FontFile:
    return FontFile(f"fontpkg_{package}", f"files/{file_name}", weight)


def _npm_font(package: str, path: str) -> FontFile:
    return FontFile(f"@expo-google-fonts/{package}", path)


_CAVEAT_FILE = "Caveat[wght].ttf"

STYLES: tuple[Style, ...] = (
    Style(
        number=1,
        name="Zeyada",
        kind="AI",
        face="Zeyada",
        source=_pypi_font("zeyada", "Zeyada.ttf"),
        engine="stroke",
        scale=1.0,
        leading=1.22,
        word_gap=0.375,
        figure_gap=60,
    ),
    Style(
        number=2,
        name="Rosie",
        kind="AI",
        face="Shadows Into Light",
        source=_pypi_font("shadows_into_light", "ShadowsIntoLight.ttf"),
        engine="stroke",
        scale=0.8,
        leading=1.4,
        word_gap=0.44,
        figure_gap=45,
    ),
    Style(
        number=3,
        name="Daisy",
        kind="AI",
        face="Indie Flower",
        source=_pypi_font("indie_flower", "IndieFlower-Regular.ttf"),
        engine="stroke",
        scale=0.9,
        leading=1.31,
        word_gap=0.33,
    ),
    Style(
        number=4,
        name="Marco",
        kind="AI",
        face="Caveat",
        source=_pypi_font("caveat", _CAVEAT_FILE, 400),
        engine="outline",
        scale=0.98,
        leading=1.14,
        word_gap=0.3,
    ),
    Style(
        number=5,
        name="Anil",
        kind="AI",
        face="Kalam Light",
        source=_pypi_font("kalam", "Kalam-Light.ttf"),
        engine="outline",
        amplitude=1.15,
        scale=0.79,
        leading=1.32,
        word_gap=0.4,
    ),
    Style(
        number=6,
        name="Celeste",
        kind="AI",
        face="Dancing Script",
        source=_pypi_font("dancing_script", "DancingScript[wght].ttf", 400),
        engine="outline",
        amplitude=1.15,
        joined=True,
        scale=0.97,
        leading=1.3,
        word_gap=0.31,
    ),
    Style(
        number=7,
        name="Ellen",
        kind="AI",
        face="Cedarville Cursive",
        source=_npm_font("cedarville-cursive", "400Regular/CedarvilleCursive_400Regular.ttf"),
        engine="stroke",
        joined=True,
        scale=0.9,
        leading=1.34,
        word_gap=0.44,
    ),
    Style(
        number=8,
        name="Hannah",
        kind="AI",
        face="Homemade Apple",
        source=_npm_font("homemade-apple", "400Regular/HomemadeApple_400Regular.ttf"),
        engine="stroke",
        amplitude=0.9,
        joined=True,
        scale=0.7,
        leading=1.86,
        word_gap=0.48,
    ),
    Style(
        number=9,
        name="Theo",
        kind="AI",
        face="Nothing You Could Do",
        source=_npm_font("nothing-you-could-do", "400Regular/NothingYouCouldDo_400Regular.ttf"),
        engine="stroke",
        scale=0.84,
        leading=1.31,
        word_gap=0.48,
    ),
    Style(
        number=10,
        name="Louise",
        kind="AI",
        face="La Belle Aurore",
        source=_npm_font("la-belle-aurore", "400Regular/LaBelleAurore_400Regular.ttf"),
        engine="stroke",
        joined=True,
        scale=0.94,
        leading=1.38,
        word_gap=0.44,
    ),
    Style(
        number=11,
        name="Rene",
        kind="AI",
        face="Reenie Beanie",
        source=_npm_font("reenie-beanie", "400Regular/ReenieBeanie_400Regular.ttf"),
        engine="stroke",
        scale=1.06,
        leading=1.06,
        word_gap=0.4,
    ),
    Style(
        number=12,
        name="June",
        kind="AI",
        face="Waiting for the Sunrise",
        source=_npm_font("waiting-for-the-sunrise", "WaitingfortheSunrise_400Regular.ttf"),
        engine="stroke",
        scale=0.86,
        leading=1.3,
        word_gap=0.43,
    ),
    Style(
        number=13,
        name="Grace",
        kind="Realistic",
        face="Satisfy",
        source=_pypi_font("satisfy", "Satisfy-Regular.ttf"),
        joined=True,
        scale=0.91,
        leading=1.42,
        word_gap=0.32,
    ),
    Style(
        number=14,
        name="Oliver",
        kind="Realistic",
        face="Delius",
        source=_pypi_font("delius", "Delius-Regular.ttf"),
        scale=0.76,
        leading=1.36,
        word_gap=0.32,
    ),
    Style(
        number=15,
        name="Max",
        kind="Bold",
        face="Permanent Marker",
        source=_pypi_font("permanent_marker", "PermanentMarker-Regular.ttf"),
        scale=0.75,
        leading=1.33,
        word_gap=0.37,
    ),
    Style(
        number=16,
        name="Ravi",
        kind="Bold",
        face="Kalam Bold",
        source=_pypi_font("kalam", "Kalam-Bold.ttf"),
        scale=0.75,
        leading=1.38,
        word_gap=0.38,
    ),
    Style(
        number=17,
        name="Bruno",
        kind="Bold",
        face="Caveat Bold",
        source=_pypi_font("caveat", _CAVEAT_FILE, 700),
        scale=0.97,
        leading=1.16,
        word_gap=0.29,
    ),
    Style(
        number=18,
        name="Asha",
        kind="International",
        face="Kalam",
        source=_pypi_font("kalam", "Kalam-Regular.ttf"),
        all_letters=True,
        scale=0.78,
        leading=1.45,
        word_gap=0.38,
    ),
    Style(
        number=19,
        name="Nadia",
        kind="International",
        face="Caveat Medium",
        source=_pypi_font("caveat", _CAVEAT_FILE, 500),
        all_letters=True,
        scale=0.98,
        leading=1.14,
        word_gap=0.3,
    ),
)

DEFAULT_STYLE = STYLES[0]

PLAIN_FACE = FaceRecipe(
    face="Source Sans 3",
    # Its default is the thinnest of its weights.
    source=_pypi_font("source_sans_3", "SourceSans3[wght].ttf", 400),
    all_letters=True,
)

# Lends its letters to the other hands before the plain face does: Cyrillic, and more Latin ones.
HELPER_FACE = FaceRecipe(face="Caveat Helper", source=_pypi_font("caveat", _CAVEAT_FILE, 400), all_letters=True)

# For letters that neither the hand nor the plain face has; in this order.
FALLBACK_FACES: tuple[FaceRecipe, ...] = (
    FaceRecipe(face="Klee One", source=_npm_font("klee-one", "400Regular/KleeOne_400Regular.ttf"), all_letters=True),
    FaceRecipe(
        face="Noto Emoji", source=_npm_font("noto-emoji", "400Regular/NotoEmoji_400Regular.ttf"), all_letters=True
    ),
)
