"""The consent form: what an app can be allowed to do, and what its user decides."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth.service import AppGrant
from quillpost.accounts.sub_accounts.queries import SubAccount, list_sub_accounts
from quillpost.accounts.tokens.rules import get_role_scopes
from quillpost.accounts.users.sessions import SignedInUser, UserMembership
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid
from quillpost.core.tokens import hide_secrets
from quillpost.web.forms import INVALID_CHOICE, Form

PLAIN_SCOPE = re.compile(r"[A-Za-z0-9:._/-]{1,40}")
MAX_NAMED_SCOPES = 3


def quote_scopes(scopes: Collection[str]) -> str:
    """Only scopes that are short and plain (RFC 6749 allows ASCII only) and no secrets of ours."""
    plain = sorted(scope for scope in scopes if PLAIN_SCOPE.fullmatch(scope) and hide_secrets(scope) == scope)
    omitted = len(scopes) - len(plain[:MAX_NAMED_SCOPES])
    names = plain[:MAX_NAMED_SCOPES]
    if omitted:
        names.append(f"{omitted} more" if names else "what is no plain word")
    return ", ".join(names)


ALLOW, DENY = "allow", "deny"
SCOPES_FIELD = "scopes"  # what the page said that the app may do
MAX_SCOPES_LENGTH = 2_000
SCOPES_CHANGED = "What the app asks for has changed. Read it again, and decide then."


@dataclass(frozen=True, slots=True)
class ConsentOffer:
    """What can be allowed, in one of the user's accounts. An owner may choose one of `sub_accounts`."""

    account: UserMembership
    others: Sequence[UserMembership]
    scopes: frozenset[str]
    left_out: frozenset[str]
    sub_accounts: Sequence[SubAccount]

    @property
    def modes(self) -> Sequence[str]:
        return ("test",) if self.account.is_test_account else ("live", "test")


@dataclass(frozen=True, slots=True)
class Consent:
    permission: AppGrant
    actor: Actor


def find_membership(user: SignedInUser, membership: str | None) -> UserMembership | None:
    return next((each for each in (user.here, *user.elsewhere) if str(each.membership_id) == membership), None)


def build_offer(
    container: Container, user: SignedInUser, chosen: UserMembership, requested_scopes: frozenset[str]
) -> ConsentOffer:
    """What the app can be allowed in this account, whichever the user looks at."""
    allowed = get_role_scopes(chosen.role)
    scopes = requested_scopes if allowed is None else requested_scopes & allowed
    others = [each for each in (user.here, *user.elsewhere) if each is not chosen]
    return ConsentOffer(chosen, others, scopes, requested_scopes - scopes, _list_sub_accounts(container, chosen))


def read_decision(user: SignedInUser, offer: ConsentOffer, form: Form) -> Consent | None:
    """None: nothing was allowed. `Invalid` by field. What the page did not say is not allowed, even if the app may
    ask for more by now."""
    decision, mode = form.text("decision"), form.text("mode")
    scopes = offer.scopes & set(form.text(SCOPES_FIELD, max_length=MAX_SCOPES_LENGTH).split())
    if decision == DENY or not offer.scopes:
        return None
    errors = {}
    if not scopes:
        errors["decision"] = [SCOPES_CHANGED]
    if decision != ALLOW:
        errors["decision"] = ["Allow it, or do not."]
    if mode not in offer.modes:
        errors["mode"] = ["Choose whether it sends real mail." if len(offer.modes) > 1 else INVALID_CHOICE]
    sub_account_id = offer.account.sub_account_id or form.number("sub_account_id")
    if sub_account_id is not None and sub_account_id not in _allowed_sub_account_ids(offer):
        errors["sub_account_id"] = [INVALID_CHOICE]
    if errors:
        raise Invalid(errors)
    permission = AppGrant(offer.account.account_id, sub_account_id, mode, user.person_id, scopes)
    return Consent(permission, user.actor)


def _allowed_sub_account_ids(offer: ConsentOffer) -> set[int | None]:
    return {offer.account.sub_account_id, *(sub_account.id for sub_account in offer.sub_accounts)}


def _list_sub_accounts(container: Container, account: UserMembership) -> Sequence[SubAccount]:
    if account.role != "owner":
        return []
    with container.db.transaction(Tenant(account.account_id)) as tx:
        return list_sub_accounts(tx)
