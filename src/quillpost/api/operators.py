"""Calls for those who run the service. They see what is every account's, in the mode of their token."""

from collections.abc import Callable, Iterator
from typing import Annotated

from fastapi import Depends, Request

from quillpost.accounts.rules import Caller
from quillpost.api.needs import Parts, Unit, caller_of
from quillpost.database import Tx
from quillpost.kit.errors import Forbidden

NO_APPS = (
    "A connected app never may do this, whoever connected it: use a personal access token of an operator's "
    "account."
)


def operator(scope: str) -> Callable[[Caller], Caller]:
    """An operator whose token has the scope. A token that is limited to a sub account is no operator's, nor
    is a connected app's."""

    def check(who: Annotated[Caller, Depends(caller_of)]) -> Caller:
        who.require(scope)
        if who.grant_id is not None:
            raise Forbidden(NO_APPS)
        if not who.is_operator:
            raise Forbidden("Only an operator may do this: use a token of an operator's account.")
        return who

    return check


def live_operator(scope: str) -> Callable[[Caller], Caller]:
    """The same, for what is one and the same in both modes: a testing token changes nothing of live mail."""

    def check(who: Annotated[Caller, Depends(operator(scope))]) -> Caller:
        if who.is_testing:
            raise Forbidden("This changes live mail as well: use a live token of an operator's account.")
        return who

    return check


def service_unit(request: Request, parts: Parts) -> Iterator[Unit]:
    """The service's own transaction. An endpoint asks for the operator before it asks for this."""
    with Unit(parts.db.work) as unit:
        request.state.unit = unit
        yield unit


def service_tx(unit: Annotated[Unit, Depends(service_unit, scope="function")]) -> Tx:
    return unit.tx


MayDecide = Annotated[Caller, Depends(operator("orders:write"))]
MayLook = Annotated[Caller, Depends(operator("orders:read"))]
InServiceTx = Annotated[Tx, Depends(service_tx, scope="function")]
