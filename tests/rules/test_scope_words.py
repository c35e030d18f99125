"""Every scope in words that people understand before they allow it."""

from quillpost.accounts.models import SCOPES
from quillpost.accounts.tokens.rules import EVERYTHING, WORDS, in_order, in_words, named


def test_every_scope_has_a_sentence_of_its_own() -> None:
    assert tuple(WORDS) == SCOPES
    assert len(set(WORDS.values())) == len(SCOPES)


def test_a_sentence_is_short_and_ends_where_a_list_goes_on() -> None:
    for words in (*WORDS.values(), EVERYTHING):
        assert words[0].isupper()
        assert words[-1].isalpha()
        assert len(words) < 80


def test_what_is_written_is_told_as_more_than_what_is_read() -> None:
    for scope, words in WORDS.items():
        assert words.startswith("See ") == scope.endswith(":read")


def test_scopes_are_told_in_one_order_whichever_they_come_in() -> None:
    assert in_words(["orders:read", "send:write"]) == [WORDS["send:write"], WORDS["orders:read"]]
    assert in_order({"account:write", "send:read", "nonsense"}) == ["send:read", "account:write"]
    assert named(["orders:read", "send:write"]) == "send:write, orders:read"


def test_no_limit_is_told_as_everything_and_nothing_as_nothing() -> None:
    assert in_words(None) == [EVERYTHING]
    assert in_words([]) == []
    assert named(None) == "everything"
