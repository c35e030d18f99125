"""How errors name scopes that an app asked for in vain."""

import pytest

from quillpost.core.tokens import mint_secret
from quillpost.web.oauth.forms import quote_scopes

SECRET = mint_secret("live", bytes(range(24)))


@pytest.mark.parametrize(
    ("scopes", "words"),
    [
        ({"nope"}, "nope"),
        ({"orders:delete", "all"}, "all, orders:delete"),
        ({"a", "b", "c", "d", "e"}, "a, b, c, 2 more"),
        ({SECRET}, "what is no plain word"),
        ({"qp_live_mistyped0123"}, "what is no plain word"),
        ({SECRET, "all"}, "all, 1 more"),
        ({"snow\u2603"}, "what is no plain word"),
        ({"a" * 41}, "what is no plain word"),
        ({'quo"te'}, "what is no plain word"),
    ],
)
def test_a_scope_is_named_if_it_is_a_short_plain_word_and_no_secret(scopes: set[str], words: str) -> None:
    assert quote_scopes(scopes) == words
