"""Passwords in forms: a new one, the present one, and what is said of wrong ones."""

from fastapi import Request

from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.people import signing_in
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form
from quillpost.reception.visits import visitor_of

NO_EMAIL = "Type your e-mail."
NO_PASSWORD = "Type your password."  # noqa: S105 (a sentence)
WRONG = "The e-mail or the password is not right. Try again, or set another password."
WRONG_PASSWORD = "That is not your password."  # noqa: S105 (a sentence)
DIFFERENT = "This is not the same as above. Type both anew."


def chosen_password(form: Form) -> str:
    """A new password, typed twice as nobody sees what they type."""
    password = form.secret("password")
    if form.secret("again") != password:
        raise Invalid({"again": [DIFFERENT]})
    return password


def require_password(request: Request, parts: Parts, who: SignedIn, form: Form, field: str) -> None:
    """`Invalid` (that field) unless it holds the reader's password."""
    given = form.secret(field)
    outcome = signing_in.confirm_password(parts.people, who.person_id, given, visitor_of(request))
    if outcome == "throttled":
        raise Invalid({field: [too_often(None)]})
    if outcome != "in":
        raise Invalid({field: [WRONG_PASSWORD]})


def too_often(seconds: int | None) -> str:
    """When to try again, in words: the exact second helps only programs, which are told in a header."""
    minutes = None if seconds is None else -(-seconds // 60)
    wait = "a while" if minutes is None else "a minute" if minutes <= 1 else f"{minutes} minutes"
    return f"There were too many attempts. Wait for {wait}, and try again."
