"""What a person can let an app do, and what they decide."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import scopes_of
from quillpost.accounts.oauth.apps import Leave
from quillpost.accounts.sub_accounts import SubAccount, list_sub_accounts
from quillpost.accounts.users.sessions import Belonging, SignedIn
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid
from quillpost.core.tokens import hide_secrets
from quillpost.web.forms import NO_CHOICE, Form

PLAIN = re.compile(r"[A-Za-z0-9:._/-]{1,40}")
MOST = 3


def named(scopes: Collection[str]) -> str:
    """The scopes, as far as they are short plain words (RFC 6749 allows no other letters than ASCII's) and no
    secrets of ours."""
    plain = sorted(scope for scope in scopes if PLAIN.fullmatch(scope) and hide_secrets(scope) == scope)
    others = len(scopes) - len(plain[:MOST])
    words = plain[:MOST]
    if others:
        words.append(f"{others} more" if words else "what is no plain word")
    return ", ".join(words)


ALLOW, DENY = "allow", "deny"
SHOWN = "scopes"
"""The field that holds what the page said that the app may do."""
LONGEST_SHOWN = 2_000
CHANGED = "What the app asks for has changed. Read it again, and decide then."


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be allowed, in one of the person's accounts. An owner may choose one of `sub_accounts`."""

    account: Belonging
    others: Sequence[Belonging]
    scopes: frozenset[str]
    left_out: frozenset[str]
    sub_accounts: Sequence[SubAccount]

    @property
    def modes(self) -> Sequence[str]:
        return ("test",) if self.account.is_test_account else ("live", "test")


@dataclass(frozen=True, slots=True)
class Consent:
    """What was allowed, and by whom."""

    leave: Leave
    actor: Actor


def one_of(who: SignedIn, membership: str | None) -> Belonging | None:
    """The reader's account by this name of it; None if they are in no such account."""
    mine = (who.here, *who.elsewhere)
    return next((each for each in mine if str(each.membership_id) == membership), None)


def offer_in(parts: Parts, who: SignedIn, chosen: Belonging, wanted: frozenset[str]) -> Offer:
    """What the app can be allowed in one of the reader's accounts, whichever they look at elsewhere."""
    mine = [who.here, *who.elsewhere]
    allowed = scopes_of(chosen.role)
    scopes = wanted if allowed is None else wanted & allowed
    others = [each for each in mine if each is not chosen]
    return Offer(chosen, others, scopes, wanted - scopes, _sub_accounts(parts, chosen))


def decided(who: SignedIn, offer: Offer, form: Form) -> Consent | None:
    """What was allowed; None: nothing. `Invalid` by field. What the page did not say is not allowed, even if
    the app could have more by now."""
    decision, mode = form.text("decision"), form.text("mode")
    scopes = offer.scopes & set(form.text(SHOWN, most=LONGEST_SHOWN).split())
    if decision == DENY or not offer.scopes:
        return None
    faults = {}
    if not scopes:
        faults["decision"] = [CHANGED]
    if decision != ALLOW:
        faults["decision"] = ["Allow it, or do not."]
    if mode not in offer.modes:
        faults["mode"] = ["Choose whether it sends real mail." if len(offer.modes) > 1 else NO_CHOICE]
    limited_to = offer.account.sub_account_id or form.number("sub_account_id")
    if limited_to is not None and limited_to not in _choices(offer):
        faults["sub_account_id"] = [NO_CHOICE]
    if faults:
        raise Invalid(faults)
    leave = Leave(offer.account.account_id, limited_to, mode, who.person_id, scopes)
    return Consent(leave, who.actor)


def _choices(offer: Offer) -> set[int | None]:
    return {offer.account.sub_account_id, *(each.id for each in offer.sub_accounts)}


def _sub_accounts(parts: Parts, account: Belonging) -> Sequence[SubAccount]:
    if account.role != "owner":
        return []
    with parts.db.transaction(Tenant(account.account_id)) as tx:
        return list_sub_accounts(tx)
