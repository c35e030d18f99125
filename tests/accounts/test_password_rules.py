"""Which passwords will do."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.users.rules import check_password, find_email_error, normalize_email, normalize_password

COMMON = "among the first that others would try"
OWN = "your name or e-mail"


def errors_of(password: str) -> str:
    return " ".join(check_password(password, email="dana.whitfield@oakandpine.example", name="Dana Whitfield"))


@pytest.mark.parametrize(
    "password",
    [
        "plum orchard weather vane",
        "gravel-under-the-wheel",
        "Xk7#pQ9!mz",
        "дождь на крыше дома",
        "一二三四五六七八九十木水",
        "    spaces    count    ",
        "purple dolphins juggle teacups",
        "tr0ubadour&3 hats",
        "dog 4829 cat 3187",
        "summer 93 of 4871 to 2",
    ],
)
def test_these_will_do(password: str) -> None:
    assert errors_of(password) == ""


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple", "password12", "Password1234", "P@ssw0rd2026", "pa55word!!!!",
        "passwordpassword", "p.a.s.s.w.o.r.d",
        "letmein1234", "LetMeIn!!!!", "welcome2026!", "Welcome2Quillpost", "qwertyuiop", "1234567890",
        "0987654321", "abcdefghij", "1q2w3e4r5t", "1qaz2wsx3edc", "asdfghjkl1234", "zyxwvutsrq",
        "aaaaaaaaaa", "ababababab", "abc123abc123", "1111122222", "iloveyou123", "Sunshine#2026",
        "summer2026!!", "monkeydragon", "administrator1", "quillpost2026",
        "qwerty12345678", "test1234test", "changeme!!!",
    ],
)  # fmt: skip
def test_whoever_guesses_tries_these_first(password: str) -> None:
    assert COMMON in errors_of(password)


@pytest.mark.parametrize(
    "password",
    [
        "dana.whitfield@oakandpine.example", "DanaWhitfield", "whitfield2026", "dana whitfield 1",
        "oakandpine!!", "WhitfieldWhitfield", "wh1tf1eld99", "danawhitfielddana",
    ],
)  # fmt: skip
def test_ones_own_name_is_no_password(password: str) -> None:
    assert OWN in errors_of(password)


def test_a_password_has_a_length() -> None:
    assert errors_of("nine char") == "A password has at least 10 characters."
    assert errors_of("ten chars ") == ""
    assert errors_of("x" * 500 + "plum orchard" * 100) == "A password has at most 1,000 characters."
    assert errors_of("plum trees " * 90 + "plum trees") == ""


def test_letters_are_counted_as_they_are_read() -> None:
    decomposed = unicodedata.normalize("NFD", "éàèùâêîô")
    assert len(decomposed) == 16
    assert "at least 10" in errors_of(decomposed)
    assert normalize_password(decomposed) == normalize_password("éàèùâêîô")


@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_no_text_upsets_the_rules(password: str, email: str, name: str) -> None:
    assert all(error.endswith(".") for error in check_password(password, email=email, name=name))


@pytest.mark.parametrize("email", ["dana@example.com", "d+x@mail.example.co.uk", "jürgen@münchen.example"])
def test_these_are_e_mail_addresses(email: str) -> None:
    assert find_email_error(email) is None


@pytest.mark.parametrize(
    "email",
    [
        "", "dana", "dana@", "@example.com", "dana@example", "+15125550100@sms", "a b@example.com",
        "a@b@example.com", "Dana <dana@example.com>", "dana@example..com", "dana@.example.com",
        "d" * 65 + "@example.com", "dana@" + "x" * 320 + ".com", "dana@exa\x00mple.com",
        "dana@example.com\r\nBcc: x@example.com", "a,b@example.com",
    ],
)  # fmt: skip
def test_these_are_none(email: str) -> None:
    assert find_email_error(email) is not None
    assert find_email_error(normalize_email(email)) is not None


@given(st.text(max_size=60))
def test_an_address_as_it_is_kept_stays_as_it_is(email: str) -> None:
    assert normalize_email(normalize_email(email)) == normalize_email(email)
    assert normalize_email(email).isprintable()
