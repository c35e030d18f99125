"""Sub accounts: one account's mail kept apart, with return addresses and branding of their own."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response

from quillpost.accounts import sub_accounts as store
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import remove_sub_account
from quillpost.core.clock import plain_time
from quillpost.core.database import Tenant
from quillpost.core.errors import Forbidden, Invalid
from quillpost.web.api.dependencies import AskedSearch, InTx, Log, Services, id_in_path, may
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.responses import answer
from quillpost.web.api.routes import PREFIX, V2Route
from quillpost.web.api.sub_accounts import schemas as schemas
from quillpost.web.api.sub_accounts.schemas import Branding, ChangedSubAccount, NewSubAccount

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Sub accounts"])

MAY_READ = [Depends(may("account:read"))]
MAY_WRITE = [Depends(may("account:write"))]
MayWrite = Annotated[Caller, Depends(may("account:write"))]
SubAccountId = Annotated[
    str, Path(description="The sub account's id.", json_schema_extra={"type": "integer"})
]


def shape(sub_account: store.SubAccount) -> dict[str, Any]:
    return {
        "id": sub_account.id,
        "user_id": sub_account.account_id,
        "title": sub_account.title,
        "name": sub_account.title,
        "return_name": sub_account.return_name,
        "return_address": sub_account.return_address,
        "return_address2": sub_account.return_address2,
        "return_city": sub_account.return_city,
        "return_state": sub_account.return_state,
        "return_postal_code": sub_account.return_postal_code,
        **{name: sub_account.backgrounds.get(name) for name in store.BACKGROUNDS},
        "branding_fields": {name: sub_account.branding.get(name) for name in Branding.model_fields},
        "created_at": plain_time(sub_account.created_at),
        "updated_at": plain_time(sub_account.updated_at),
    }


@router.get(
    "/sub-accounts",
    response_model=schemas.SubAccounts,
    responses=errors(422),
    dependencies=MAY_READ,
    summary="List sub accounts, oldest first",
)
def list_sub_accounts(tx: InTx, search: AskedSearch) -> Response:
    """All of them at once. A token that is limited to one sees that one alone. `search` looks at titles,
    names, companies, e-mails and return addresses."""
    return answer({"data": [shape(each) for each in store.list_sub_accounts(tx, search=search)]})


@router.post(
    "/sub-accounts",
    status_code=201,
    response_model=schemas.SubAccountShape,
    responses=errors(*BODY_ERRORS),
    summary="Make a sub account",
)
def create_sub_account(body: NewSubAccount, who: MayWrite, tx: InTx, parts: Services, log: Log) -> Response:
    """Only the title is needed. Sends for it use its return address, and its name and company where the
    message says `%YOUR_NAME%` and `%YOUR_COMPANY%`."""
    if faults := body.faults(parts.check_url):
        raise Invalid(faults)
    made = store.create_sub_account(tx, who, body.columns(), now=parts.clock())
    log.note(tx, "sub_account.created", {"title": made.title, "id": made.id}, sub_account_id=made.id)
    return answer(shape(made), status=201)


@router.get(
    "/sub-accounts/{sub_account_id}",
    response_model=schemas.SubAccountShape,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a sub account",
)
def read_sub_account(sub_account_id: SubAccountId, tx: InTx) -> Response:
    """Whatever is not set is null."""
    return answer(shape(store.find_sub_account(tx, id_in_path(sub_account_id))))


@router.put(
    "/sub-accounts/{sub_account_id}",
    response_model=schemas.SubAccountShape,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Change a sub account",
)
def change_sub_account(
    sub_account_id: SubAccountId, body: ChangedSubAccount, tx: InTx, parts: Services
) -> Response:
    """What is not named stays, within `branding_fields` too; null clears. Orders that are placed already
    keep the sender that they had."""
    before = store.lock_sub_account(tx, id_in_path(sub_account_id))
    if faults := body.faults(parts.check_url, before):
        raise Invalid(faults)
    changed = store.change_sub_account(tx, before.id, body.columns(before), now=parts.clock())
    return answer(shape(changed))


@router.delete(
    "/sub-accounts/{sub_account_id}",
    response_model=Message,
    responses=errors(400, 404),
    summary="Delete a sub account",
)
def delete_sub_account(sub_account_id: SubAccountId, who: MayWrite, parts: Services, log: Log) -> Response:
    """Not while an order of it is held back or lists or templates of it remain. Its tokens and
    subscriptions end with it; what it has mailed stays in the account."""
    if who.sub_account_id is not None:
        raise Forbidden("This token is limited to one sub account: it cannot delete any.")
    with parts.db.transaction(Tenant(who.account_id)) as both_modes:
        gone = remove_sub_account(both_modes, id_in_path(sub_account_id), now=parts.clock())
        log.note(
            both_modes, "sub_account.deleted", {"title": gone.title, "id": gone.id}, sub_account_id=gone.id
        )
    return answer({"message": "success"})
