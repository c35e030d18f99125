"""People on mailing lists: adding, reading, changing and removing them, one by one or many at once."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import require_sub_account
from quillpost.app.container import Container
from quillpost.client import recipients as wire
from quillpost.client.types import MessageResponse
from quillpost.core.database import Tenant, Tx
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.paging import OLDEST_FIRST, Page
from quillpost.privacy.erasure.queries import parse_subject
from quillpost.privacy.erasure.service import erase_subject
from quillpost.recipients import queries as recipient_queries
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import find_lists, read_list, read_lists
from quillpost.recipients.models import Recipient
from quillpost.recipients.rules import MAX_FIELD_LENGTH
from quillpost.recipients.service import RecipientRejection
from quillpost.web.api.dependencies import (
    ApiCaller,
    IdQuery,
    PathId,
    RecipientPageQuery,
    RequestAuditWriter,
    RequestTransaction,
    SearchQuery,
    SubAccountFilter,
    parse_query_id,
)
from quillpost.web.api.idempotency import HOLDS_SECRET_HEADER
from quillpost.web.api.mailing_lists.endpoints import ListId, create_recipient_serializer
from quillpost.web.api.orders.search import TimeQuery, parse_time
from quillpost.web.api.recipients import schemas
from quillpost.web.api.recipients.schemas import (
    ChangedRecipient,
    ManyRecipients,
    NewRecipient,
    WhomToErase,
    WhomToFind,
    WhomToRemove,
    get_person_fields,
    keep_known_fields,
)
from quillpost.web.api.responses import json_response, numbered_page_response, page_of, page_response
from quillpost.web.api.routes import ApiRouter
from quillpost.web.api.schemas import QueryText, strip_or_none
from quillpost.web.dependencies import Services

router = ApiRouter("Recipients", resource="lists")

RecipientId = Annotated[PathId, Path(description="The recipient's id.")]
EmailQuery = Annotated[
    QueryText | None, Query(max_length=MAX_FIELD_LENGTH, description="Only those with this e-mail, in any case.")
]
ListQuery = Annotated[IdQuery, Query(description="Only those on this list.")]
ListAliasQuery = Annotated[IdQuery, Query(description="Another name of mailing_list_id.")]
UpdatedSinceQuery = Annotated[
    TimeQuery, Query(description="Only those changed at this ISO 8601 date or date-time, or later.")
]
# Every recipient is shown with its list, and a list with its key.
SECRET_HEADERS = {HOLDS_SECRET_HEADER: "yes"}


def _serialize_recipient(tx: Tx, container: Container, recipient: Recipient) -> wire.Recipient:
    lists = find_lists(tx, [recipient.mailing_list_id])
    if not lists:
        raise NotFound
    return create_recipient_serializer(container, lists.values())(recipient)


def _with_lists(tx: Tx, recipients: Iterable[Recipient]) -> tuple[list[Recipient], dict[int, Any]]:
    """Leaves out people whose list was deleted meanwhile."""
    people = list(recipients)
    lists = find_lists(tx, (recipient.mailing_list_id for recipient in people))
    return [recipient for recipient in people if recipient.mailing_list_id in lists], lists


@router.get("/mailing-lists/{mailing_list_id}/recipients", include_in_schema=False)
@router.get(
    "/mailing-lists-utils/recipients/{mailing_list_id}", wire.ListRecipients, summary="List a mailing list's recipients"
)
def list_recipients_of(
    request: Request,
    mailing_list_id: ListId,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: RecipientPageQuery,
    sub_account_id: SubAccountFilter,
    search: SearchQuery,
    updated_since: UpdatedSinceQuery = None,
) -> Response:
    """As they were added; with `updated_since` in the order of their changes, so that whoever follows a list
    asks again from the last change that it has seen. Asked for another sub account than the list's: nobody.
    `search` looks at names, companies, e-mails and addresses.

    Also at `/mailing-lists/{mailing_list_id}/recipients`.
    """
    field_errors: dict[str, list[str]] = {}
    since = parse_time("updated_since", updated_since, field_errors)
    if field_errors:
        raise Invalid(field_errors)
    mailing_list = read_list(tx, mailing_list_id)
    require_sub_account(tx, sub_account_id)
    if sub_account_id not in (None, mailing_list.sub_account_id):
        page: Page[Recipient] = Page([], 0, page_request)
    elif search is None:
        page = recipient_queries.read_list_page(tx, mailing_list, page_request, updated_since=since)
    else:
        page = recipient_queries.search_recipients(
            container.db,
            tx,
            build_tenant(caller),
            page_request,
            search,
            mailing_list_id=mailing_list.id,
            updated_since=since,
            sorting=OLDEST_FIRST if since is None else recipient_queries.BY_UPDATED_AT,
        )
    serialize = create_recipient_serializer(container, [mailing_list])
    return numbered_page_response(request, page, serialize)


@router.get("/recipients", page_of(wire.Recipient), summary="List recipients, newest first")
def list_recipients(
    request: Request,
    caller: ApiCaller,
    tx: RequestTransaction,
    container: Services,
    page_request: RecipientPageQuery,
    sub_account_id: SubAccountFilter,
    search: SearchQuery,
    email: EmailQuery = None,
    mailing_list_id: ListQuery = None,
    mailing_list: ListAliasQuery = None,
) -> Response:
    """Of all lists; filter by e-mail, list and sub account. `search` looks at names, companies, e-mails and
    addresses."""
    aliases = {"mailing_list_id": mailing_list_id, "mailing_list": mailing_list}
    list_id = next(filter(None, (parse_query_id(*alias) for alias in aliases.items())), None)
    require_sub_account(tx, sub_account_id)
    if list_id is not None:
        read_lists(tx, [list_id])
    filters: dict[str, Any] = {
        "email": strip_or_none(email),
        "mailing_list_id": list_id,
        "sub_account_id": sub_account_id,
    }
    if search is None:
        page = recipient_queries.read_recipient_page(tx, page_request, **filters)
    else:
        page = recipient_queries.search_recipients(
            container.db, tx, build_tenant(caller), page_request, search, **filters
        )
    rows, lists = _with_lists(tx, page.rows)
    return page_response(
        request, Page(rows, page.total, page_request), create_recipient_serializer(container, lists.values())
    )


@router.post("/recipients", wire.Recipient, status_code=201, summary="Add a recipient to a mailing list")
def create_recipient(body: NewRecipient, tx: RequestTransaction, container: Services) -> Response:
    """With an address, in parts or whole on one line, or at least an e-mail. An address is on a list once,
    however it is spelled."""
    added = recipient_service.add_recipient(tx, body.mailing_list_id, body.person_fields(), clock=container.clock)
    return json_response(_serialize_recipient(tx, container, added), status=201, headers=SECRET_HEADERS)


@router.get("/recipients/{recipient_id}", wire.Recipient, summary="Read a recipient")
def read_recipient(recipient_id: RecipientId, tx: RequestTransaction, container: Services) -> Response:
    """With the list that it is on."""
    return json_response(_serialize_recipient(tx, container, recipient_queries.read_recipient(tx, recipient_id)))


@router.put("/recipients/{recipient_id}", wire.Recipient, summary="Change a recipient")
def change_recipient(
    recipient_id: RecipientId, body: ChangedRecipient, tx: RequestTransaction, container: Services
) -> Response:
    """What is not named stays; null clears. An address given whole on one line replaces the city, state and
    ZIP code too. Another `mailing_list_id` moves the recipient there."""
    changed = recipient_service.change_recipient(
        tx, recipient_id, body.person_fields(), mailing_list_id=body.mailing_list_id or None, clock=container.clock
    )
    return json_response(_serialize_recipient(tx, container, changed))


@router.delete("/recipients/{recipient_id}", MessageResponse, summary="Remove a recipient")
def delete_recipient(recipient_id: RecipientId, tx: RequestTransaction) -> Response:
    """From its list; mail that is under way goes on."""
    recipient_service.remove_recipient(tx, recipient_id)
    return json_response({"message": "success"})


@router.post("/recipients_multi", status_code=201, include_in_schema=False)
@router.post(
    "/recipients-utils/create-multiple", schemas.RecipientsAdded, status_code=201, summary="Add many recipients at once"
)
def create_recipients(body: ManyRecipients, tx: RequestTransaction, container: Services) -> Response:
    """The answer has a row for each of yours, in their order: the recipient as it was stored or, for one that
    was not, what you gave and `error`. The others are stored all the same.

    Also at `/recipients_multi`.
    """
    rows = body.parse_rows()
    valid_rows = [(row.get("mailing_list_id"), get_person_fields(row)) for row in rows if not isinstance(row, str)]
    added = iter(recipient_service.add_recipients(tx, valid_rows, clock=container.clock))
    outcomes = [RecipientRejection(row) if isinstance(row, str) else next(added) for row in rows]
    lists = find_lists(tx, (outcome.mailing_list_id for outcome in outcomes if isinstance(outcome, Recipient)))
    serialize = create_recipient_serializer(container, lists.values())
    content = [
        serialize(outcome)
        if isinstance(outcome, Recipient)
        else keep_known_fields(sent_row) | {"error": outcome.reason}
        for sent_row, outcome in zip(body.recipients, outcomes, strict=True)
    ]
    return json_response(content, status=201, headers=SECRET_HEADERS)


@router.post("/recipients/delete-by-address", include_in_schema=False)
@router.post(
    "/recipients-utils/delete-by-address",
    wire.RemovalResponse,
    errors=[404],
    summary="Remove a recipient by address or e-mail",
)
def delete_by_address(body: WhomToRemove, tx: RequestTransaction) -> Response:
    """The address in parts or whole on one line, in any spelling; or a street or an e-mail that only one on
    the list has. Where several match, the 422 names what would tell them apart.

    Also at `/recipients/delete-by-address`.
    """
    removed = recipient_service.remove_matching_recipient(tx, body.mailing_list_id, body.person_fields())
    return json_response(wire.RemovalResponse(status=f"Recipient {removed} Deleted"))


@router.post(
    "/recipients/lookup", wire.Recipient, errors=[404], scope="lists:read", summary="Find a recipient by e-mail"
)
def look_up_recipient(body: WhomToFind, tx: RequestTransaction, container: Services) -> Response:
    """Whoever was added last, where several lists have them."""
    recipient = recipient_queries.read_newest_recipient(tx, body.email.strip())
    return json_response(_serialize_recipient(tx, container, recipient), headers=SECRET_HEADERS)


@router.post("/recipients/erase", wire.ErasureResponse, summary="Erase a person")
def erase_person(body: WhomToErase, caller: ApiCaller, container: Services, audit: RequestAuditWriter) -> Response:
    """For good: from lists, pieces, what was told of them, sends that wait, and files; with a live token in
    both modes, with a test token in testing mode and on the lists, which both modes share. Counts,
    totals and money stay. A piece that is not printed yet fails and is not billed; one that a printer has
    keeps its recipient until it is in the mail, and `waiting` counts these. Whom a suppression list barred
    stays barred. Previews and the files of finished imports may show anybody: all of them go, whoever is
    asked for, so `files` and `imports` tell nothing of whether somebody is known."""
    person = parse_subject({name: value for name, value in body.provided_fields().items() if isinstance(value, str)})
    with container.db.system_transaction() as tx:
        # A live token erases the person in testing too; a test token touches nothing that was really mailed.
        tenant = Tenant(caller.account_id, caller.sub_account_id, "test" if caller.mode == "test" else None)
        erasure = erase_subject(tx, container.encryptor, tenant, person, now=container.clock())
        audit.record(tx, "person.erased", {})  # not whom: that is erased
    return json_response(wire.ErasureResponse(message="success", erased=dict(erasure.erased), waiting=erasure.waiting))
