"""What a page says about the act that led to it. A URL names the sentence, and never holds it: nobody can put
words into our mouth. Where it says `{place}`, that is the account that its reader is in."""

from collections.abc import Mapping
from typing import Final

SAID: Final[Mapping[str, str]] = {
    # Signing in
    "signed_out": "You are signed out.",
    "too_many_codes": "Those were too many wrong codes. Sign in again.",
    "reset_asked": "If somebody has this e-mail here, a link is on its way.",
    "reset_unsent": "This service sends no mail. Ask whoever runs it for a link.",
    "password_reset": "Your password is set. Sign in with it.",
    "joined": "Welcome. You have joined {place}.",
    # A person's own page
    "name_changed": "Your name is changed.",
    "password_changed": "Your password is changed. All your other sessions have ended.",
    "second_factor_off": "The second factor is off.",
    "session_ended": "That session has ended.",
    "sessions_ended": "All your other sessions have ended.",
    # People
    "invited": "The invitation is on its way.",
    "uninvited": "The invitation is taken back.",
    "member_changed": "The role is changed.",
    "member_removed": "That person is no longer in this account.",
    # API settings
    "token_revoked": "The token is revoked.",
    "token_gone": "That token is revoked already. Nothing is let in by it.",
    "client_changed": "The client is changed.",
    "client_deleted": "The client is deleted, and every app that was connected by it.",
    "app_disconnected": "The app is disconnected.",
}
