"""Whose turn a request takes, told before anybody has looked in the database.

A token or a session that was good before stands for the account that it was good for; everybody else for
their network address, made-up tokens among them. That decides who waits behind whom, and nothing else:
whether a token is good is looked up with every call.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from quillpost.accounts.rules import network_of
from quillpost.kit.tokens import digest

MOST: Final = 20_000
"""Tokens and sessions that are remembered; who was not seen for longest is forgotten."""


class Identities:
    def __init__(self, cookie: str) -> None:
        self._cookies = (cookie, f"__Host-{cookie}")
        self._accounts: OrderedDict[bytes, int] = OrderedDict()

    def whose(self, scope: Scope) -> Hashable:
        secret = self._secret(scope)
        account = None if secret is None else self._accounts.get(secret)
        if account is None:
            return "address", network_of(address_of(scope))
        return account_line(account)

    def learn(self, scope: Scope, account: int | None) -> None:
        """What came with the request is good for this account; None: for none, or for none any longer."""
        if (secret := self._secret(scope)) is None:
            return
        if account is None:
            self._accounts.pop(secret, None)
            return
        self._accounts[secret] = account
        self._accounts.move_to_end(secret)
        if len(self._accounts) > MOST:
            self._accounts.popitem(last=False)

    def _secret(self, scope: Scope) -> bytes | None:
        """A digest of what the caller shows: it is in memory for long."""
        headers = Headers(scope=scope)
        if (token := bearer(headers)) is not None:
            return digest(token)
        cookies = cookie_parser(headers.get("cookie", ""))
        shown = next(filter(None, map(cookies.get, self._cookies)), None)
        return None if shown is None else digest(shown)


def account_line(account: int) -> Hashable:
    """All tokens, sub accounts and people of an account are one caller."""
    return "account", account


def is_account(whose: Hashable) -> bool:
    """Not just somebody's network address."""
    return isinstance(whose, tuple) and whose[0] == "account"


def address_of(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"


def bearer(headers: Headers) -> str | None:
    """The token of a call, whatever it may be."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None
