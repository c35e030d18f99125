"""What callers of the API do that the audit log should tell: written with the deed, in its transaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from quillpost.accounts import audit
from quillpost.accounts.rules import Caller
from quillpost.api.needs import Parts, caller_of
from quillpost.database import Tx
from quillpost.kit.times import Clock


@dataclass(frozen=True, slots=True)
class Pen:
    """Writes in the name of the caller, into the log of the caller's account."""

    who: Caller
    address: str | None
    clock: Clock
    actor: audit.Actor | None = None
    """The person, where one does it at a page of ours and not by a token."""

    def note(self, tx: Tx, act: str, about: Mapping[str, Any], *, sub_account_id: int | None = None) -> None:
        """One line; whoever is limited to a sub account writes for that one."""
        audit.note(
            tx,
            self.who.account_id,
            act,
            self.actor or audit.caller_actor(tx, self.who, address=self.address),
            about=about,
            sub_account_id=self.who.sub_account_id if sub_account_id is None else sub_account_id,
            now=self.clock(),
        )

    def later(self, act: str, about: Mapping[str, Any]) -> Callable[[Tx], None]:
        """The same for a deed that has a transaction of its own."""
        return lambda tx: self.note(tx, act, about)

    def counting(self, act: str, about: Mapping[str, Any]) -> Callable[[Tx, int], None]:
        """The same for one that is done to several, which are not known yet."""
        return lambda tx, how_many: self.note(tx, act, {**about, "how_many": how_many})


def pen_of(request: Request, who: Annotated[Caller, Depends(caller_of)], parts: Parts) -> Pen:
    return Pen(who, request.client.host if request.client else None, parts.clock)


Log = Annotated[Pen, Depends(pen_of)]
