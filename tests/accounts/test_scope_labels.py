"""Every scope in words that people understand before they allow it."""

from quillpost.accounts.tokens.rules import (
    ALL_SCOPES_LABEL,
    SCOPE_LABELS,
    SCOPES,
    describe_scopes,
    format_scopes,
    sort_scopes,
)


def test_every_scope_has_a_sentence_of_its_own() -> None:
    assert tuple(SCOPE_LABELS) == SCOPES
    assert len(set(SCOPE_LABELS.values())) == len(SCOPES)


def test_a_sentence_is_short_and_ends_where_a_list_goes_on() -> None:
    for words in (*SCOPE_LABELS.values(), ALL_SCOPES_LABEL):
        assert words[0].isupper()
        assert words[-1].isalpha()
        assert len(words) < 80


def test_only_labels_of_read_scopes_begin_with_see() -> None:
    for scope, words in SCOPE_LABELS.items():
        assert words.startswith("See ") == scope.endswith(":read")


def test_scopes_are_listed_in_one_order_whatever_the_input() -> None:
    assert describe_scopes(["orders:read", "send:write"]) == [SCOPE_LABELS["send:write"], SCOPE_LABELS["orders:read"]]
    assert sort_scopes({"account:write", "send:read", "nonsense"}) == ["send:read", "account:write"]
    assert format_scopes(["orders:read", "send:write"]) == "send:write, orders:read"


def test_no_limit_is_described_as_everything_and_no_scopes_as_nothing() -> None:
    assert describe_scopes(None) == [ALL_SCOPES_LABEL]
    assert describe_scopes([]) == []
    assert format_scopes(None) == "everything"
