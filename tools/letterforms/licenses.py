"""The sources of each hand and their licenses, in a file beside the hands."""

from pathlib import Path

from .recipes import Recipe, Recipes, copyright_line

_OFL, _APACHE = "OFL-1.1", "Apache-2.0"
_OFL_BEGINS = "This Font Software is licensed under"
_LICENSE_FILE = "LICENSE_FONT"
_HEAD = """# Sources of the hands

The hands in this folder are made by `tools/letterforms` of letters of these typefaces: traced, brought to the measure
of one face, and mixed with strokes of our own. Changes: all outlines were replaced by center lines. No hand bears the
name of a face.

A hand that is made of faces under the SIL Open Font License is itself under that license, which is at the end of this
file. Every hand has a few signs of the helper's faces, if it has none of its own. Where a hand has letters of a face
under the Apache License 2.0 (<https://www.apache.org/licenses/LICENSE-2.0>) beside others, as Hannah and Hazel, the
whole is under the Open Font License, and the Apache notices are kept here.
"""


def write_licenses(recipes: Recipes, node_modules: Path, file: Path) -> None:
    copyrights = {name: copyright_line(recipes.faces[name].read(node_modules)) for name in recipes.used_faces}
    parts = [_HEAD]
    for recipe in (*recipes.hands.values(), recipes.helper):
        rows = [
            f"- {name} ({recipes.faces[name].origin}, {recipes.faces[name].license}): {copyrights[name]}"
            for name in dict.fromkeys((*recipe.faces, *recipes.helper.faces))
        ]
        parts.append(f"## {recipe.name}: {_license_of(recipe, recipes)}\n\n" + "\n".join(rows) + "\n")
    parts.append(f"## {_OFL}\n\n```\n{_read_ofl(recipes, node_modules)}```\n")
    file.write_text("\n".join(parts), "utf-8")


def _license_of(recipe: Recipe, recipes: Recipes) -> str:
    licenses = {recipes.faces[name].license for name in (*recipe.faces, *recipes.helper.faces)}
    if licenses == {_OFL}:
        return _OFL
    return f"{_OFL}, with parts under {_APACHE}"


def _read_ofl(recipes: Recipes, node_modules: Path) -> str:
    """The license as one of the packages brings it, without that package's copyright line."""
    source = recipes.faces[recipes.helper.host]
    text = (node_modules / source.origin / _LICENSE_FILE).read_text("utf-8")
    lines = text[text.index(_OFL_BEGINS) :].splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"
