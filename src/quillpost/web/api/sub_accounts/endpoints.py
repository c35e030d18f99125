"""Sub accounts: one account's mail kept apart, with return addresses and branding of their own."""

from typing import Annotated

from fastapi import Path, Response

from quillpost.accounts.sub_accounts import queries, service
from quillpost.client import accounts as wire
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant
from quillpost.core.errors import Forbidden, Invalid
from quillpost.core.text import format_time
from quillpost.web.api.dependencies import ApiCaller, PathId, RequestAuditWriter, RequestTransaction, SearchQuery
from quillpost.web.api.responses import json_response, list_of, to_wire
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.sub_accounts.schemas import Branding, ChangedSubAccount, NewSubAccount
from quillpost.web.dependencies import Services

router = ApiRouter("Sub accounts", resource="account")

SubAccountId = Annotated[PathId, Path(description="The sub account's id.")]


def serialize_sub_account(sub_account: queries.SubAccount) -> wire.SubAccount:
    return to_wire(
        wire.SubAccount,
        sub_account,
        user_id=sub_account.account_id,
        name=sub_account.title,
        **{name: sub_account.backgrounds.get(name) for name in queries.BACKGROUND_FIELDS},
        branding_fields={name: sub_account.branding.get(name) for name in Branding.model_fields},
        created_at=format_time(sub_account.created_at),
        updated_at=format_time(sub_account.updated_at),
    )


@router.get("/sub-accounts", list_of(wire.SubAccount), summary="List sub accounts, oldest first")
def list_sub_accounts(tx: RequestTransaction, search: SearchQuery) -> Response:
    """All of them at once. A token that is limited to one sees that one alone. `search` looks at titles,
    names, companies, e-mails and return addresses."""
    return json_response(
        {"data": [serialize_sub_account(sub_account) for sub_account in queries.list_sub_accounts(tx, search=search)]}
    )


@router.post("/sub-accounts", wire.SubAccount, status_code=201, summary="Make a sub account")
def create_sub_account(
    body: NewSubAccount, caller: ApiCaller, tx: RequestTransaction, container: Services, audit: RequestAuditWriter
) -> Response:
    """Only the title is needed. Sends for it use its return address, and its name and company where the
    message says `%YOUR_NAME%` and `%YOUR_COMPANY%`."""
    if field_errors := body.find_errors(container.check_url):
        raise Invalid(field_errors)
    sub_account = service.create_sub_account(tx, caller, body.columns(), now=container.clock())
    audit.record(
        tx, "sub_account.created", {"title": sub_account.title, "id": sub_account.id}, sub_account_id=sub_account.id
    )
    return json_response(serialize_sub_account(sub_account), status=201)


@router.get("/sub-accounts/{sub_account_id}", wire.SubAccount, summary="Read a sub account")
def read_sub_account(sub_account_id: SubAccountId, tx: RequestTransaction) -> Response:
    """Whatever is not set is null."""
    return json_response(serialize_sub_account(queries.find_sub_account(tx, sub_account_id)))


@router.put("/sub-accounts/{sub_account_id}", wire.SubAccount, summary="Change a sub account")
def change_sub_account(
    sub_account_id: SubAccountId, body: ChangedSubAccount, tx: RequestTransaction, container: Services
) -> Response:
    """What is not named stays, within `branding_fields` too; null clears. Orders that are placed already
    keep the sender that they had."""
    before = queries.lock_sub_account(tx, sub_account_id)
    if field_errors := body.find_errors(container.check_url, before):
        raise Invalid(field_errors)
    changed = service.update_sub_account(tx, before.id, body.columns(before), now=container.clock())
    return json_response(serialize_sub_account(changed))


@router.delete("/sub-accounts/{sub_account_id}", MessageResponse, errors=[400], summary="Delete a sub account")
def delete_sub_account(
    sub_account_id: SubAccountId, caller: ApiCaller, container: Services, audit: RequestAuditWriter
) -> Response:
    """Not while an order of it is held back or lists or templates of it remain. Its tokens and
    subscriptions end with it; what it has mailed stays in the account."""
    if caller.sub_account_id is not None:
        raise Forbidden("This token is limited to one sub account: it cannot delete any.")
    with container.db.transaction(Tenant(caller.account_id)) as tx:
        deleted = service.remove_sub_account(tx, sub_account_id, now=container.clock())
        audit.record(tx, "sub_account.deleted", {"title": deleted.title, "id": deleted.id}, sub_account_id=deleted.id)
    return json_response({"message": "success"})
