"""Makes the hands that are shipped: `.venv/bin/python -m tools.letterforms FOLDER_OF_NODE_MODULES [NAME...]`.

The folder holds the packages of `@expo-google-fonts` that `recipes.toml` names. With `--sheet FOLDER` each hand is
drawn there as well: all its forms, and a note.
"""

import argparse
from functools import cache
from pathlib import Path

from quillpost.rendering import handwriting

from .hands import HAND_CHARS, HELPER_CHARS, TraceFace, make_hand, make_helper
from .licenses import write_licenses
from .recipes import Recipes, read_recipes
from .sheets import draw_sheet
from .trace import TracedFace, trace_face

HANDS_FOLDER = Path(handwriting.__file__).parent / "hands"
HELPER = "helper"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("node_modules", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="hands; all if none is named")
    parser.add_argument("--sheet", type=Path, metavar="FOLDER", help="draw each hand into this folder")
    arguments = parser.parse_args()
    recipes = read_recipes()
    trace = face_tracer(recipes, arguments.node_modules)
    HANDS_FOLDER.mkdir(exist_ok=True)
    for name in arguments.names or [*recipes.hands, HELPER]:
        hand = make_helper(recipes, trace) if name == HELPER else make_hand(recipes.hands[name], recipes, trace)
        data = hand.to_bytes()
        (HANDS_FOLDER / f"{name}.hand").write_bytes(data)
        print(f"{name}: {sum(map(len, hand.forms.values()))} forms, {len(data):,} bytes", flush=True)
        if arguments.sheet and name != HELPER:
            arguments.sheet.mkdir(parents=True, exist_ok=True)
            draw_sheet(hand, recipes.hands[name].joining).save(arguments.sheet / f"{name}.png")
    write_licenses(recipes, arguments.node_modules, HANDS_FOLDER / "LICENSES.md")


def face_tracer(recipes: Recipes, node_modules: Path) -> TraceFace:
    @cache
    def trace(name: str) -> TracedFace:
        source = recipes.faces[name]
        chars = HAND_CHARS + HELPER_CHARS if name in recipes.helper.faces else HAND_CHARS
        return trace_face(source.read(node_modules), chars, source.weight)

    return trace


if __name__ == "__main__":
    main()
