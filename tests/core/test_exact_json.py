"""JSON that comes back as it was sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.core import exact_json
from quillpost.core.exact_json import MAX_DEPTH, InvalidJson

STRINGS = (
    st.text()
    .map(lambda text: json.dumps(text, ensure_ascii=False))
    .filter(lambda text: text == text.encode(errors="replace").decode())
)
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
LEAVES = STRINGS | NUMBERS | st.sampled_from(["true", "false", "null"])


def containers(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(inside, max_size=4).map(lambda values: "[" + ",".join(values) + "]")
    return lists | st.dictionaries(STRINGS, inside, max_size=4).map(
        lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs.items()) + "}"
    )


def written(body: bytes) -> str:
    return exact_json.dump_json(exact_json.parse_json(body))


@given(text=st.recursive(LEAVES, containers, max_leaves=20))
def test_compact_json_comes_back_to_the_letter(text: str) -> None:
    assert written(text.encode()) == text


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inside: st.lists(inside)))
def test_other_spellings_come_back_with_the_same_meaning(value: Any) -> None:
    assert json.loads(written(json.dumps(value, indent=2, ensure_ascii=True).encode())) == value


def test_numbers_keep_their_text_keys_their_order_and_letters_are_plain(subtests: pytest.Subtests) -> None:
    for number in ("1.0", "1e2", "1E+2", "-0", "-0.0", "1.10", "9" * 30, "1e400", "0.1"):
        with subtests.test(number):
            assert written(b'{"n": ' + number.encode() + b"}") == '{"n":' + number + "}"
    assert exact_json.parse_json(b"[1.50, 2]") == [1.5, 2]
    assert written(b'{"b": 1, "a": 2, "": 3}') == '{"b":1,"a":2,"":3}'
    letters = {rb'"Zo\u00eb"': '"Zoë"', rb'"\ud83d"': r'"\ud83d"', rb'"\ud83c\udf88"': '"🎈"'}
    assert {given: written(given) for given in letters} == letters
    assert exact_json.parse_json(b"\xef\xbb\xbf{}") == {}, "a byte order mark is accepted"
    assert exact_json.parse_json(b"[" + b"[]," * 500 + b"[]]") == [[]] * 501, "side by side is not deep"


REFUSED = (
    (b"", "Expecting value at character 0"), (b"{", "not valid JSON"), (b"{} {}", "Extra data at character 3"),
    (b"[1,]", "not valid JSON"), (b"01", "not valid JSON"), (b"{'a': 1}", "not valid JSON"),
    (b'"a\nb"', "not valid JSON"), (b"\xff\xfe", r"not UTF-8 \(byte 0\)"), (b'"\xed\xa0\x80"', r"not UTF-8 \(byte 1\)"),
    (b"9" * 5_000, "too many digits"), (b'{"a": 1, "a": 2}', 'The key "a" is given twice'),
    (b'[{"x": {"a": null, "b": 1, "a": null}}]', 'The key "a" is given twice'),
    (rb'{"a": 1, "\u0061": 2}', "given twice"),
    *((f'{{"n": {name}}}'.encode(), f"^{name} is not a JSON value") for name in ("NaN", "Infinity", "-Infinity")),
)  # fmt: skip


def test_what_is_not_json_is_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    for body, why in REFUSED:
        with subtests.test(str(body[:40])), pytest.raises(InvalidJson, match=why):
            exact_json.parse_json(body)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_an_end_and_all_that_is_read_can_be_written(opening: bytes, closing: bytes) -> None:
    deepest = opening * (MAX_DEPTH - 1) + b"[]" + closing * (MAX_DEPTH - 1)
    assert written(deepest).encode() == deepest
    for levels in (MAX_DEPTH, 600, 100_000):
        with pytest.raises(InvalidJson, match="nested too deeply"):
            exact_json.parse_json(opening * levels + b"[]" + closing * levels)
