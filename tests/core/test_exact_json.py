"""JSON that comes back as it was sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import exact_json
from quillpost.core.exact_json import MAX_DEPTH, InvalidJson

STRINGS = st.text().map(lambda text: json.dumps(text, ensure_ascii=False)).filter(lambda t: is_utf8(t))
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
LEAVES = STRINGS | NUMBERS | st.sampled_from(["true", "false", "null"])


def is_utf8(text: str) -> bool:
    return text == text.encode(errors="replace").decode()


def a_list(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inside, max_size=4).map(lambda values: "[" + ",".join(values) + "]")


def an_object(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.dictionaries(STRINGS, inside, max_size=4).map(
        lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs.items()) + "}"
    )


DOCUMENTS = st.recursive(LEAVES, lambda inside: a_list(inside) | an_object(inside), max_leaves=20)


@given(text=DOCUMENTS)
def test_compact_json_comes_back_to_the_letter(text: str) -> None:
    assert exact_json.dump_json(exact_json.parse_json(text.encode())) == text


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inside: st.lists(inside)))
def test_other_spellings_come_back_with_the_same_meaning(value: Any) -> None:
    spaced = json.dumps(value, indent=2, ensure_ascii=True)
    assert json.loads(exact_json.dump_json(exact_json.parse_json(spaced.encode()))) == value


@pytest.mark.parametrize("number", ["1.0", "1e2", "1E+2", "-0", "-0.0", "1.10", "9" * 30, "1e400", "0.1"])
def test_a_number_keeps_its_text(number: str) -> None:
    assert exact_json.dump_json(exact_json.parse_json(b'{"n": ' + number.encode() + b"}")) == '{"n":' + number + "}"


def test_a_number_can_be_reckoned_with() -> None:
    assert exact_json.parse_json(b"[1.50, 2]") == [1.5, 2]


def test_keys_keep_their_order() -> None:
    assert exact_json.dump_json(exact_json.parse_json(b'{"b": 1, "a": 2, "": 3}')) == '{"b":1,"a":2,"":3}'


def test_letters_are_written_plainly_and_a_lone_surrogate_stays_an_escape() -> None:
    assert exact_json.dump_json(exact_json.parse_json(rb'"Zo\u00eb"')) == '"Zoë"'
    assert exact_json.dump_json(exact_json.parse_json(rb'"\ud83d"')) == r'"\ud83d"'
    assert exact_json.dump_json(exact_json.parse_json(rb'"\ud83c\udf88"')) == '"🎈"'


def test_a_byte_order_mark_is_accepted() -> None:
    assert exact_json.parse_json(b"\xef\xbb\xbf{}") == {}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '[{"x": {"a": null, "b": 1, "a": null}}]'])
def test_a_key_given_twice_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidJson, match='The key "a" is given twice'):
        exact_json.parse_json(text.encode())


def test_keys_that_are_spelt_differently_but_are_the_same_are_twice() -> None:
    with pytest.raises(InvalidJson, match="given twice"):
        exact_json.parse_json(rb'{"a": 1, "\u0061": 2}')


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(InvalidJson, match=f"^{name} is not a JSON value"):
        exact_json.parse_json(f'{{"n": {name}}}'.encode())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "Expecting value at character 0"),
        (b"{", "not valid JSON"),
        (b"{} {}", "Extra data at character 3"),
        (b"[1,]", "not valid JSON"),
        (b"01", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'"a\nb"', "not valid JSON"),
        (b"\xff\xfe", r"not UTF-8 \(byte 0\)"),
        (b'"\xed\xa0\x80"', r"not UTF-8 \(byte 1\)"),
        (b"9" * 5_000, "too many digits"),
    ],
)
def test_what_is_not_json_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(InvalidJson, match=why):
        exact_json.parse_json(body)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_an_end_and_all_that_is_read_can_be_written(opening: bytes, closing: bytes) -> None:
    deepest = opening * (MAX_DEPTH - 1) + b"[]" + closing * (MAX_DEPTH - 1)
    assert exact_json.dump_json(exact_json.parse_json(deepest)).encode() == deepest
    for levels in (MAX_DEPTH, 600, 100_000):
        with pytest.raises(InvalidJson, match="nested too deeply"):
            exact_json.parse_json(opening * levels + b"[]" + closing * levels)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert exact_json.parse_json(b"[" + b"[]," * 500 + b"[]]") == [[]] * 501
