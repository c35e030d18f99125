"""Texts that are checked or put into words, and JSON: as it was sent, and what a body may hold is counted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from quillpost.accounts.models import get_network
from quillpost.core import exact_json
from quillpost.core.cache import SharedCache
from quillpost.core.errors import Invalid
from quillpost.core.paging import Page, PageRequest
from quillpost.core.text import find_host_error, format_time_ago
from quillpost.integrations.http.guard import OutboundGuard

LONG_HOST = ".".join(["abcdefghi"] * 25)
"""249 characters."""
GOOD_HOSTS = (
    "example.com", "EXAMPLE.com", "example.com.", "a.b", "hooks", "my_service.example", "a--b.example", "1a.example",
    "7.example", "xn--mnchen-3ya.example", "203.0.113.7", "2606:4700::1111", "::ffff:127.0.0.1",
    "a" * 63 + ".example", LONG_HOST + ".xyz",
)  # fmt: skip
WRONG_HOSTS = {
    "isn't an IPv4 address. Write four numbers": (
        "2130706433", "017700000001", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "0300.0250.0.1",
        "127.0.0.01", "127.0.0.0x1", "256.1.1.1", "1.2.3.4.5", "1.2.3.4.", "example.7", "example.0x",
    ),
    "isn't a host name. Use letters": (
        "a..b", ".example", "example..", "-a.example", "a-.example", "a.-", "*.example", "a!b.example", "ex%61mple.com",
        "a b.example", "münchen.example",
    ),
    "A part of the host name is longer than 63 characters.": ("a" * 64 + ".example",),
    "The host name is longer than 253 characters.": (LONG_HOST + ".wxyz",),
    "isn't an IPv6 address": ("fe80::1%eth0", "2606:4700::1%1", "::g"),
}  # fmt: skip
WRONG_URL_HOSTS = (
    "2130706433", "0177.0.0.1", "0x7f.1", "127.1", "a..b", "-a.example", "xn--a", "xn--a.example", "a\u200db.example",
    "\u2024.example", "\u3002example", "localhost.", "\uff11\uff12\uff17.\uff10.0.1", f"{'ü' * 64}.example",
)  # fmt: skip


def test_a_host_that_nobody_can_have_is_named_and_refused_before_anybody_is_called(subtests: pytest.Subtests) -> None:
    for host in GOOD_HOSTS:
        with subtests.test(host):
            assert find_host_error(host) is None
    for error, hosts in WRONG_HOSTS.items():
        for host in hosts:
            with subtests.test(host):
                assert error in str(find_host_error(host))
    for host in WRONG_URL_HOSTS:
        with subtests.test(host):
            assert OutboundGuard().check_url(f"http://{host}/") is not None
    url = "https://münchen.example/"
    assert URL(url).raw_host == "xn--mnchen-3ya.example"
    assert OutboundGuard().check_url(url) is None, "it is checked in its ASCII form"
    in_development = OutboundGuard(allow_private=True)
    assert in_development.check_url("http://127.0.0.1:3000/") is None
    assert in_development.check_url("http://127.1:3000/") is not None


NETWORKS = {
    "203.0.113.7": "203.0.113.7", "2001:db8:1:2:aaaa::1": "2001:db8:1:2::/64",
    "2001:db8:1:2:bbbb::2": "2001:db8:1:2::/64", "::ffff:203.0.113.7": "203.0.113.7",
    "::ffff:cb00:7108": "203.0.113.8", "::1": "::/64", "testclient": "testclient",
}  # fmt: skip


AGES = {
    -30: "just now", 0: "just now", 0.999: "just now", 1: "1 second ago", 59: "59 seconds ago", 60: "1 minute ago",
    359: "5 minutes ago", 3_600: "1 hour ago", 86_340: "23 hours ago", 86_400: "1 day ago", 6 * 86_400: "6 days ago",
    7 * 86_400: "1 week ago", 29 * 86_400: "4 weeks ago", 30 * 86_400: "1 month ago", 364 * 86_400: "12 months ago",
    365 * 86_400: "1 year ago", 3_000 * 86_400: "8 years ago",
}  # fmt: skip


def test_a_household_counts_as_one_network_and_a_time_ago_is_in_the_largest_unit_that_fits() -> None:
    now = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
    assert {age: format_time_ago(now - timedelta(seconds=age), now=now) for age in AGES} == AGES
    assert {address: get_network(address) for address in NETWORKS} == NETWORKS


def page(total: int, page_request: PageRequest) -> Page[int]:
    """The page of the numbers from 1 to the total."""
    everything = list(range(1, total + 1))
    return Page(everything[page_request.offset :][: page_request.per_page], total, page_request)


@given(total=st.integers(0, 300), number=st.integers(1, 400), per_page=st.integers(1, 100))
def test_a_page_knows_its_rows_and_is_reached_from_the_nearer_end(total: int, number: int, per_page: int) -> None:
    page_request = PageRequest(number, per_page)
    found = page(total, page_request)
    assert found.first_row == (found.rows[0] if found.rows else None)
    assert found.last_row == (found.rows[-1] if found.rows else None)
    window = page_request.window(total)
    seen = list(range(1, total + 1))[:: -1 if window.is_from_end else 1]
    taken = seen[window.offset : window.offset + window.limit]
    assert (taken[::-1] if window.is_from_end else taken) == found.rows
    assert window.offset <= max(0, total - window.limit) / 2


@given(total=st.integers(0, 300), per_page=st.integers(1, 100))
def test_the_pages_up_to_the_last_hold_every_row_once(total: int, per_page: int) -> None:
    last = page(total, PageRequest(1, per_page)).last_page
    rows = [row for n in range(1, last + 1) for row in page(total, PageRequest(n, per_page)).rows]
    assert rows == list(range(1, total + 1))
    assert page(total, PageRequest(last + 1, per_page)).rows == []


def test_an_empty_list_has_one_page() -> None:
    last_pages = {0: 1, 1: 1, 25: 1, 26: 2, 50: 2, 51: 3}
    assert {total: page(total, PageRequest()).last_page for total in last_pages} == last_pages


def test_a_thing_is_read_once_while_it_is_recent_unless_it_is_too_large() -> None:
    read: list[str] = []
    recent: SharedCache[str, bytes] = SharedCache(max_size=8, size_of=len)

    def fetch(key: str, size: int = 4) -> bytes:
        return recent.get(key, lambda: read.append(key) or key.encode() * size)  # type: ignore[func-returns-value]

    assert [fetch(key) for key in "abab"] == [b"aaaa", b"bbbb", b"aaaa", b"bbbb"]
    assert read == ["a", "b"]
    fetch("a")
    fetch("c")
    assert (fetch("a"), read) == (b"aaaa", ["a", "b", "c"])
    fetch("b")
    assert read == ["a", "b", "c", "b"]
    assert [fetch("large", 2), fetch("large", 2)] == [b"largelarge"] * 2
    assert read[4:] == ["large", "large"]


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
        with subtests.test(str(body[:40])), pytest.raises(exact_json.InvalidJson, match=why):
            exact_json.parse_json(body)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_has_an_end_and_all_that_is_read_can_be_written(opening: bytes, closing: bytes) -> None:
    deepest = opening * (exact_json.MAX_DEPTH - 1) + b"[]" + closing * (exact_json.MAX_DEPTH - 1)
    assert written(deepest).encode() == deepest
    for levels in (exact_json.MAX_DEPTH, 600, 100_000):
        with pytest.raises(exact_json.InvalidJson, match="nested too deeply"):
            exact_json.parse_json(opening * levels + b"[]" + closing * levels)


NODES = "The body has more than {:,} nodes (objects, arrays and values in arrays): send less in one call."
KEYS = "The body has more than {:,} keys: send less in one call."
DEPTH = "The body is nested more than {} levels deep: send it flatter."
ROW = "An object of the body has more than {:,} keys: send less in one call."
TEXT = "A text of the body has more than {:,} bytes: send a shorter one."
BARE = "The body has more than 15,000 spaces or digits in a row: leave out what says nothing."
LONG = "A key of the body has more than {:,} bytes: use a shorter one."
SENTENCES = {
    "max_nodes": NODES, "max_keys": KEYS, "max_object_keys": ROW, "max_depth": DEPTH,
    "max_key_bytes": LONG, "max_text_bytes": TEXT,
}  # fmt: skip

ODD = st.text(alphabet='"\\[]{},: a\n\tä😀', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD, inner, max_size=4),
    max_leaves=20,
)


def inside(value: Any) -> Iterator[tuple[Any, bool]]:
    """Each value within, and whether it has a key."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield inner, isinstance(value, dict)
        yield from inside(inner)


def measured(value: Any) -> exact_json.BodyLimits:
    """The narrowest bounds that it fits into, by its own nature."""
    all_inside = [(value, False), *inside(value)]
    objects = [each for each, _ in all_inside if isinstance(each, dict)]
    written = [len(json.dumps(key, ensure_ascii=False).encode()) - 2 for each in objects for key in each]
    return exact_json.BodyLimits(
        max_object_keys=max(map(_keys_in_a_row, objects), default=0),
        max_text_bytes=max(_written(value), default=0),
        max_nodes=sum(not has_key or isinstance(each, dict | list) for each, has_key in all_inside),
        max_keys=sum(map(len, objects)),
        max_depth=_depth(value),
        max_key_bytes=max(written, default=0),
    )


def _keys_in_a_row(thing: dict[str, Any]) -> int:
    """A value that holds an object divides the keys that are before it, with its own, from those after."""
    longest = row = 0
    for value in thing.values():
        row += 1
        longest = max(longest, row)
        if any(isinstance(each, dict) for each in (value, *(inner for inner, _ in inside(value)))):
            row = 0
    return longest


def _written(value: Any) -> Iterator[int]:
    """How many bytes each text takes, keys among them."""
    for each in (value, *(inner for inner, _ in inside(value))):
        for text in each if isinstance(each, dict) else [each] if isinstance(each, str) else []:
            yield len(json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")) - 2


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def refusal(body: bytes, limits: exact_json.BodyLimits) -> str | None:
    try:
        exact_json.check_json_limits(body, limits)
    except Invalid as wrong:
        return wrong.message
    return None


@settings(max_examples=300, deadline=None)
@given(value=VALUES, indent=st.none() | st.integers(0, 2), window=st.integers(1, 30))
def test_exactly_what_a_body_holds_is_counted(value: Any, indent: int | None, window: int) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=False).encode(errors="surrogatepass")
    fits = measured(value)
    before, exact_json.WINDOW_BYTES = exact_json.WINDOW_BYTES, window
    try:
        assert refusal(body, fits) is None
        for name, sentence in SENTENCES.items():
            least = getattr(fits, name)
            if least > 0:
                narrower = replace(fits, **{name: least - 1})
                error = refusal(body, narrower)
                # Of texts that are too many it is not known what they are.
                assert error == sentence.format(least - 1) or (name == "max_nodes" and error), name
    finally:
        exact_json.WINDOW_BYTES = before


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a million empty recipients": (b'{"recipients":[' + b"{}," * 999_999 + b"{}]}", NODES.format(100_000)),
    "nine million numbers": (b"[" + b"1," * 8_999_999 + b"1]", NODES.format(100_000)),
    "a million texts": (b"[" + b'"",' * 999_999 + b'""]', NODES.format(100_000)),
    "a key of ten megabytes": (b'{"' + b"k" * 10_000_000 + b'":1}', TEXT.format(1_000_000)),
    "a key of escapes": (b'{"' + b"\\u0041" * 160_000 + b'" :1}', LONG.format(1_000)),
    "a key of spaces": (b'{"' + b" " * 900_000 + b'"' + b" " * 9_000 + b":1}", LONG.format(1_000)),
    "a text of escapes": (b'{"message":"' + b"\\u0041" * 3_300_000 + b'"}', TEXT.format(1_000_000)),
    "nothing but spaces": (b" " * 20_000_000, BARE), "a row of spaces": (b"[1" + b" " * 40_000 + b"]", BARE),
    "a number of a megabyte": (b"[1." + b"3" * 1_000_000 + b"]", BARE),
    "half a million keys": (
        b"[" + b",".join(b'{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}' for _ in range(90_000)) + b"]",
        KEYS.format(200_000),
    ),
    "half a million keys of one object": (
        b"{" + b",".join(b'"k%d":1' % n for n in range(500_000)) + b"}", ROW.format(10_000),
    ),
    "a million levels": (b"[" * 1_000_000 + b"]" * 1_000_000, DEPTH.format(32)),
    "a million objects in each other": (b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000, DEPTH.format(32)),
    "nothing but texts": (b'""' * 5_000_000, KEYS.format(200_000)),
}  # fmt: skip


def test_a_body_that_holds_too_much_is_not_built(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.setattr(exact_json, "_decoder", None)
    for name, (body, error) in HOSTILE.items():
        with subtests.test(name):
            with pytest.raises(Invalid) as refused:
                exact_json.parse_json(body, limits=exact_json.DEFAULT_BODY_LIMITS)
            assert refused.value.fields == {"body": [error]}


def test_no_more_is_looked_at_than_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    look = exact_json._JsonScan.scan_window

    def counting(self: exact_json._JsonScan, window: bytes) -> None:
        looked.append(len(window))
        look(self, window)

    monkeypatch.setattr(exact_json._JsonScan, "scan_window", counting)
    for body in (b"[" + b"1," * 8_999_999 + b"1]", b"]" * 18_000_000):
        refusal(body, exact_json.DEFAULT_BODY_LIMITS)
        assert sum(looked) < 600_000
        looked.clear()


def test_bodies_that_are_large_or_no_json_are_left_to_the_parser() -> None:
    for body in (b"", b"nonsense", b"]]]", b'{"a', b'{"a":\\"', b"\\", b'"\\', b":::", b"\xff"):
        assert refusal(body, exact_json.DEFAULT_BODY_LIMITS) is None
        with pytest.raises(exact_json.InvalidJson):
            exact_json.parse_json(body, limits=exact_json.DEFAULT_BODY_LIMITS)
    person = {f"field{n}": "x" * 20 for n in range(23)}
    body = json.dumps({"recipients": [person] * 5_000, "message": "Hello"}).encode()
    assert len(exact_json.parse_json(body, limits=exact_json.DEFAULT_BODY_LIMITS)["recipients"]) == 5_000


def test_a_form_is_counted_before_it_is_read_and_unknown_keys_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exact_json.parse_form(b"a=1&b=%C3%A4&b=", max_fields=3) == [("a", "1"), ("b", "ä"), ("b", "")]
    monkeypatch.setattr(exact_json, "parse_qsl", None)
    for body, error in (
        (b"&".join([b"a=1"] * 1_000_000), "The form has more than 3 fields: send 3 at most."),
        (b"k" * 1_001 + b"=1", "A field's name has more than 1,000 bytes: use a shorter one."),
        (b"k=" + b"1" * 1_000_000, "A field has more than 1,000,000 bytes: send a shorter one."),
    ):
        with pytest.raises(Invalid) as refused:
            exact_json.parse_form(body, max_fields=3)
        assert refused.value.fields == {"body": [error]}
    names = {f"k{n}" for n in range(1_000)}
    assert exact_json.check_unknown_keys(names, exact_json.DEFAULT_BODY_LIMITS) == names
    with pytest.raises(Invalid, match="more than 1,000 different keys that mean nothing here"):
        exact_json.check_unknown_keys(names | {"one more"}, exact_json.DEFAULT_BODY_LIMITS)
