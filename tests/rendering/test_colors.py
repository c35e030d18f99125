import pytest

from quillpost.rendering.models import parse_color


@pytest.mark.parametrize(
    ("text", "rgba"),
    [
        ("#1a2b3c", "rgba(26,43,60,1)"),
        ("#FFF", "rgba(255,255,255,1)"),
        ("rgb(1, 2, 3)", "rgba(1,2,3,1)"),
        ("rgba(1,2,3,0.5)", "rgba(1,2,3,0.5)"),
        (" Blue ", "rgba(20,42,130,1)"),
    ],
)
def test_every_spelling_has_one_rgba_form(text: str, rgba: str) -> None:
    assert parse_color(text).rgba_text == rgba
    assert parse_color(rgba).rgba_text == rgba


@pytest.mark.parametrize(
    "text",
    [
        *("", "mauve", "#12", "#12345g"),
        *("rgb(1,2)", "rgb(1,2,3,4)", "rgb(256,0,0)", "rgb(1.5,2,3)", "rgb(-1,2,3)"),
        *("rgba(1,2,3)", "rgba(1,2,3,1.5)", "rgba(1,2,3,.)"),
    ],
)
def test_what_is_no_colour_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a color that we know"):
        parse_color(text)


def test_transparency_is_mixed_with_the_paper() -> None:
    assert parse_color("rgba(0,0,0,0.25)").ink == (0.75, 0.75, 0.75)
    assert parse_color("#000").ink == (0, 0, 0)
