"""Variables in messages and URLs: which are known, what fills them, and what people may type."""

import re
from dataclasses import replace
from unicodedata import is_normalized, normalize
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text import variables

DANA = SenderName("Dana Whitfield", "Maple & Main")
ANY_LETTER = st.characters(codec=None, exclude_categories=())
# Half of it our own signs and names, so that variables come about by chance, too.
scraps = st.one_of(
    st.text(ANY_LETTER, max_size=5),
    st.sampled_from(
        ["%", "~", "|", " ", ",", "\n", "\u200b", *variables.VARIABLE_NAMES, "first_name", "%CITY%", "~ZIP|x~"]
    ),
)
hostile = st.lists(scraps, max_size=8).map("".join)
people = st.builds(
    Addressee, name=hostile, company=hostile, city=st.none() | hostile, postal_code=hostile,
    custom=st.lists(st.none() | hostile, max_size=12).map(tuple),
)  # fmt: skip


def variable_values(addressee: Addressee, sender: SenderName) -> dict[str, str]:
    return {name: read(addressee, sender) for name, read in variables.READERS.items()}


def fill_text(text: str, values: dict[str, str]) -> str:
    """The text filled with these values, whatever they are."""
    template = variables.compile_template(text)
    cleaned = {name: variables.strip_invisible(value).strip() for name, value in values.items()}
    reads = [lambda *_, name=slot.name: cleaned.get(name, "") for slot in template.slots]
    slots = tuple(replace(slot, read=read) for slot, read in zip(template.slots, reads, strict=True))
    return replace(template, slots=slots).fill(Addressee(), SenderName())


def test_a_misspelled_variable_is_reported_once_and_prose_with_signs_is_none(subtests: pytest.Subtests) -> None:
    text = "%NICKNAME% %FIRST_NAME% ~SHOE_SIZE~ %NICKNAME|pal% %first_name% %nickname%"
    assert variables.find_unknown_variables(text) == ["NICKNAME", "SHOE_SIZE"]
    assert variables.find_unknown_variables("Hi %NICK\u00adNAME%") == ["NICKNAME"], "what cannot be seen hides nothing"
    wrong = ("%FirstName%", "%frist_name%", "~frist_name~", "%FIRST NAME%", "%FIRST_NAME|%LAST_NAME%%", "%Nick|pal%")
    for misspelled in wrong:
        with subtests.test(misspelled):
            assert variables.find_unknown_variables(f"Hello {misspelled}, bye") != []
    prose = ("100% of 50%, 5% off, 10% more", "100% sure, 5% off", "~hugs~", "about ~5 or ~6", "50% OFF")
    for text in prose:
        with subtests.test(text):
            assert variables.find_unknown_variables(text) == []


def test_every_known_variable_is_accepted_and_filled_whatever_signs_are_around_and_inside(
    subtests: pytest.Subtests,
) -> None:
    for name in variables.VARIABLE_NAMES:
        assert variables.find_unknown_variables(f"%{name}% ~{name}~") == []
        assert fill_text(f"%{name}% %{name.lower()}% ~{name}~", {name: "x"}) == "x x x"
    nobody = variable_values(Addressee(), SenderName())
    assert set(nobody) == set(variables.VARIABLE_NAMES)
    assert set(nobody.values()) == {""}
    somebody = Addressee(province="TX", postal_code="78701", custom=("a", *(None,) * 8, "j"))
    values = variable_values(somebody, SenderName(name="Dana", company="Maple"))
    assert values["STATE"] == values["PROVINCE"] == "TX"
    assert values["ZIP"] == values["POSTAL_CODE"] == "78701"
    assert (values["CUSTOM1"], values["CUSTOM10"]) == ("a", "j")
    assert (values["YOUR_NAME"], values["YOUR_COMPANY"]) == ("Dana", "Maple")
    assert fill_text("Hi %FIRST_NAME | friend%, % LAST_NAME %", {"LAST_NAME": "Doe"}) == "Hi friend, Doe"
    assert fill_text("Hi %FIRST\u200b_NAME%", {"FIRST_NAME": "Ann"}) == "Hi Ann"
    assert fill_text("100%OFF%CITY%", {"CITY": "Rome"}) == "100%OFFRome"
    # A value that holds a variable is neither expanded nor written raw.
    values = {"FIRST_NAME": "%CITY%", "LAST_NAME": "Lee %city|x% ~ZIP~", "CITY": "Rome"}
    assert fill_text("%FIRST_NAME|You% in %CITY%", values) == "You in Rome"
    assert fill_text("%FIRST_NAME% %LAST_NAME% in %CITY%", values) == "Lee in Rome"
    for text in ("%%NAME%%", "~%NAME%~", "%CI%NAME%TY%", "%COMPANY|~CITY~%", "~%NAME%|x~"):
        for name in ("", "City", "TY"):
            with subtests.test(text, name=name):
                assert not variables.has_variables(fill_text(text, {"NAME": name}))


def test_an_empty_value_leaves_no_trace_and_a_gap_costs_no_more_in_front_of_many_spaces(
    subtests: pytest.Subtests,
) -> None:
    texts = {
        "Hi %FIRST_NAME%, how are you?": "Hi, how are you?", "Hi %FIRST_NAME|friend%!": "Hi friend!",
        "Dear %FIRST_NAME% and all": "Dear and all", "%FIRST_NAME%, hello": "hello",
        "See you, %FIRST_NAME%": "See you,", "%FIRST_NAME% %LAST_NAME% here": "here",
        "One\n%COMPANY%\nthree": "One\n\nthree", "Bye %FIRST_NAME% .": "Bye.",
        "Hello, %FIRST_NAME%, welcome": "Hello, welcome", "See you, %FIRST_NAME%!": "See you!",
        "How is %CITY%? %FIRST_NAME% knows": "How is? knows", "How is %CITY%? %FIRST_NAME%": "How is?",
        "%FIRST_NAME%, %LAST_NAME%, hello": "hello", "Hi %FIRST_NAME%, %CITY% is nice": "Hi, is nice",
        "Hi, %FIRST_NAME%, %LAST_NAME%, there": "Hi, there", "for%CITY%ever": "forever",
    }  # fmt: skip
    for text, expected in texts.items():
        with subtests.test(text):
            assert fill_text(text, {"FIRST_NAME": "", "LAST_NAME": " "}) == expected
    # One try for each run of spaces: a try from each space of this run would take an hour.
    run = " " * 1_000_000
    assert fill_text(f"%FIRST_NAME%a{run}b %LAST_NAME%{run}c", {}) == f"a{run}b c"


@given(st.lists(st.sampled_from(["%FIRST_NAME%", " ", "\t", ",", "!", "a", "\n"])))
def test_many_empty_values_leave_only_the_words_around_them(parts: list[str]) -> None:
    left = fill_text("".join(parts), {})
    assert "\0" not in left
    assert (left.count("a"), left.count("\n")) == (parts.count("a"), parts.count("\n"))


@given(hostile, people)
def test_whatever_people_type_only_letters_that_can_be_written_come_out(text: str, whom: Addressee) -> None:
    written = variables.compile_template(text).fill(whom, DANA)
    assert not variables.has_variables(written)
    assert written == variables.strip_invisible(written)
    written.encode()


@given(
    st.lists(st.sampled_from(["Hi ", "%FIRST_NAME%", "~CITY|your town~", "%your_name%", ", ", "100% ", "\n"])),
    st.sampled_from(["Ann", "Bo"]),
)
def test_a_text_is_filled_as_by_plain_replacement(parts: list[str], name: str) -> None:
    text = "".join(parts)
    plain = text.replace("%FIRST_NAME%", name).replace("~CITY|your town~", "your town")
    plain = plain.replace("%your_name%", "Dana Whitfield")
    assert variables.compile_template(text).fill(Addressee(name=f"{name} Lee"), DANA) == plain


def test_a_template_serves_many() -> None:
    template = variables.compile_template("Hi %FIRST_NAME|there%, how is %CITY%? %YOUR_NAME%")
    jane = Addressee(name="JANE DOE", city=" Port  Stevenbury ")
    assert template.fill(jane, DANA) == "Hi Jane, how is Port Stevenbury? Dana Whitfield"
    assert template.fill(Addressee(), DANA) == "Hi there, how is? Dana Whitfield"
    assert template.fill(replace(jane, city=None), SenderName()) == "Hi Jane, how is?"
    whom = Addressee(name="x" * 300, custom=("Dear all,\r\n\tsee\u2028you",))
    assert variables.compile_template("%CUSTOM1%\n%CUSTOM2|Bye%").fill(whom, DANA) == "Dear all,\n see\nyou\nBye"
    assert variables.compile_template("%NAME%!").fill(whom, DANA) == "X" + "x" * 299 + "!"


@given(st.text(alphabet=st.characters(exclude_characters="%~\u2800", exclude_categories=("C", "Z", "M", "Lo"))))
def test_text_without_variables_stays_as_it_is(text: str) -> None:
    assert fill_text(f" {text}\n", {"CITY": "Rome"}) == normalize("NFC", f" {text}\n")


@given(st.text(ANY_LETTER))
def test_what_can_be_seen_is_seen_once_and_for_all(text: str) -> None:
    seen = variables.strip_invisible(text)
    assert variables.strip_invisible(seen) == seen
    assert is_normalized("NFC", seen)
    assert not re.search("[\0-\x09\x0b-\x1f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", seen)


def test_a_url_takes_values_that_stay_inside_their_place(subtests: pytest.Subtests) -> None:
    whom = Addressee(name="josé", company="City", city="St. Louis/MO")
    paths = {
        "~FIRST_NAME~?c=%CITY%": "Jos%C3%A9?c=St.%20Louis%2FMO",
        "?z=~ZIP~&n=~LAST_NAME|you and I~": "?z=&n=you%20and%20I", "~ZIP|a/b?c=%20d~": "a/b?c=%20d",
        "~dana/a%20b": "~dana/a%20b", "100%/%%CITY%%": "100%25/%25St.%20Louis%2FMO%25", "~~COMPANY~~": "%7ECity%7E",
    }  # fmt: skip
    for path, expected in paths.items():
        with subtests.test(path):
            assert variables.fill_url(f"https://x.example/{path}", whom, DANA) == f"https://x.example/{expected}"


@given(hostile, people)
def test_whatever_people_type_a_url_keeps_its_shape_and_no_raw_variable(url: str, addressee: Addressee) -> None:
    filled = variables.fill_url("https://x.example/a/~NAME|friend~?n=%COMPANY|none%&z=1#end", addressee, DANA)
    parts = urlsplit(filled)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "x.example", "end")
    assert parts.path.count("/") == 2
    values = variable_values(addressee, DANA)
    if not any(sign in values["NAME"] + values["COMPANY"] for sign in "%~"):
        assert unquote(parts.path) == f"/a/{values['NAME'] or 'friend'}"
        assert parse_qs(parts.query) == {"n": [values["COMPANY"] or "none"], "z": ["1"]}
    filled = variables.fill_url(url, addressee, DANA)
    assert not re.search(r"%(?![0-9A-Fa-f]{2})", filled)
    assert not re.search(rf"~({'|'.join(variables.VARIABLE_NAMES)})(\|[^~\n]*)?~", filled, re.IGNORECASE)
