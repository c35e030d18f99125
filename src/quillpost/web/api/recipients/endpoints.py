"""People on mailing lists: adding, reading, changing and removing them, one by one or many at once."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.app.container import Parts as ServiceParts
from quillpost.core.database import Tx
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.paging import OLDEST_FIRST, Page
from quillpost.recipients import queries as recipient_queries
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import known_lists, read_list, read_lists
from quillpost.recipients.queries import Recipient
from quillpost.recipients.rules import LONGEST
from quillpost.recipients.service import Refusal
from quillpost.web.api.bodies import SoughtText, said
from quillpost.web.api.dependencies import (
    AskedId,
    AskedRecipientsPage,
    AskedSearch,
    InTx,
    Services,
    SubAccountFilter,
    id_in_path,
    may,
    number_in_query,
)
from quillpost.web.api.errors import BODY_ERRORS, errors
from quillpost.web.api.idempotency import HOLDS_SECRET
from quillpost.web.api.mailing_lists.endpoints import ListId, Shape, recipient_shapes
from quillpost.web.api.orders.filters import AskedMoment, moment
from quillpost.web.api.orders.schemas import Message
from quillpost.web.api.recipients import schemas as schemas
from quillpost.web.api.recipients.schemas import (
    ChangedRecipient,
    ManyRecipients,
    NewRecipient,
    WhomToFind,
    WhomToRemove,
    known_fields,
    person_of,
)
from quillpost.web.api.responses import answer, linked, paginated
from quillpost.web.api.routes import PREFIX, V2Route

router = APIRouter(prefix=PREFIX, route_class=V2Route, tags=["Recipients"])

MAY_READ = [Depends(may("lists:read"))]
MAY_WRITE = [Depends(may("lists:write"))]
MayRead = Annotated[Caller, Depends(may("lists:read"))]
RecipientId = Annotated[str, Path(description="The recipient's id.", json_schema_extra={"type": "integer"})]
TheirEmail = Annotated[
    SoughtText | None, Query(max_length=LONGEST, description="Only those with this e-mail, in any case.")
]
OnList = Annotated[AskedId, Query(description="Only those on this list.")]
OnListToo = Annotated[AskedId, Query(description="Another name of mailing_list_id.")]
Since = Annotated[
    AskedMoment, Query(description="Only those changed at this ISO 8601 date or date-time, or later.")
]
# Every recipient is shown with its list, and a list with its key.
SECRET = {HOLDS_SECRET: "yes"}


def _shown(tx: Tx, parts: ServiceParts, recipient: Recipient) -> Shape:
    found = known_lists(tx, [recipient.mailing_list_id])
    if not found:
        raise NotFound
    return recipient_shapes(parts, found.values())(recipient)


def _with_lists(tx: Tx, found: Iterable[Recipient]) -> tuple[list[Recipient], dict[int, Any]]:
    """These people and their lists; whoever's list was deleted this moment is gone as well."""
    people = list(found)
    lists = known_lists(tx, (one.mailing_list_id for one in people))
    return [one for one in people if one.mailing_list_id in lists], lists


@router.get("/mailing-lists/{mailing_list_id}/recipients", include_in_schema=False)
@router.get(
    "/mailing-lists-utils/recipients/{mailing_list_id}",
    response_model=schemas.ListRecipients,
    responses=errors(400, 404, 422),
    summary="List a mailing list's recipients",
)
def list_recipients_of(
    request: Request,
    mailing_list_id: ListId,
    who: MayRead,
    tx: InTx,
    parts: Services,
    asked: AskedRecipientsPage,
    sub_account_id: SubAccountFilter,
    search: AskedSearch,
    updated_since: Since = None,
) -> Response:
    """As they were added; with `updated_since` in the order of their changes, so that whoever follows a list
    asks again from the last change that it has seen. Asked for another sub account than the list's: nobody.
    `search` looks at names, companies, e-mails and addresses.

    Also at `/mailing-lists/{mailing_list_id}/recipients`.
    """
    faults: dict[str, list[str]] = {}
    since = moment("updated_since", updated_since, faults)
    if faults:
        raise Invalid(faults)
    mailing_list = read_list(tx, id_in_path(mailing_list_id))
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if sub_account_id not in (None, mailing_list.sub_account_id):
        page: Page[Recipient] = Page([], 0, asked)
    elif search is None:
        page = recipient_queries.list_recipients(tx, mailing_list, asked, updated_since=since)
    else:
        page = recipient_queries.searched_recipients(
            parts.db,
            tx,
            tenant(who),
            asked,
            search,
            mailing_list_id=mailing_list.id,
            updated_since=since,
            sorting=OLDEST_FIRST if since is None else recipient_queries.BY_CHANGE,
        )
    shape = recipient_shapes(parts, [mailing_list])
    return paginated(request, page, shape)


@router.get(
    "/recipients",
    response_model=schemas.RecipientPage,
    responses=errors(400, 422),
    summary="List recipients, newest first",
)
def list_recipients(
    request: Request,
    who: MayRead,
    tx: InTx,
    parts: Services,
    asked: AskedRecipientsPage,
    sub_account_id: SubAccountFilter,
    search: AskedSearch,
    email: TheirEmail = None,
    mailing_list_id: OnList = None,
    mailing_list: OnListToo = None,
) -> Response:
    """Of all lists; filter by e-mail, list and sub account. `search` looks at names, companies, e-mails and
    addresses."""
    named = {"mailing_list_id": mailing_list_id, "mailing_list": mailing_list}
    list_id = next(filter(None, (number_in_query(*each) for each in named.items())), None)
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    if list_id is not None:
        read_lists(tx, [list_id])
    only: dict[str, Any] = {
        "email": said(email),
        "mailing_list_id": list_id,
        "sub_account_id": sub_account_id,
    }
    if search is None:
        page = recipient_queries.recipient_page(tx, asked, **only)
    else:
        page = recipient_queries.searched_recipients(parts.db, tx, tenant(who), asked, search, **only)
    rows, lists = _with_lists(tx, page.rows)
    return linked(request, Page(rows, page.total, asked), recipient_shapes(parts, lists.values()))


@router.post(
    "/recipients",
    status_code=201,
    response_model=schemas.RecipientRead,
    responses=errors(*BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Add a recipient to a mailing list",
)
def create_recipient(body: NewRecipient, tx: InTx, parts: Services) -> Response:
    """With an address, in parts or whole on one line, or at least an e-mail. An address is on a list once,
    however it is spelled."""
    added = recipient_service.add_recipient(tx, body.mailing_list_id, body.person(), clock=parts.clock)
    return answer(_shown(tx, parts, added), status=201, headers=SECRET)


@router.get(
    "/recipients/{recipient_id}",
    response_model=schemas.RecipientRead,
    responses=errors(404),
    dependencies=MAY_READ,
    summary="Read a recipient",
)
def read_recipient(recipient_id: RecipientId, tx: InTx, parts: Services) -> Response:
    """With the list that it is on."""
    return answer(_shown(tx, parts, recipient_queries.read_recipient(tx, id_in_path(recipient_id))))


@router.put(
    "/recipients/{recipient_id}",
    response_model=schemas.RecipientRead,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Change a recipient",
)
def change_recipient(
    recipient_id: RecipientId, body: ChangedRecipient, tx: InTx, parts: Services
) -> Response:
    """What is not named stays; null clears. An address given whole on one line replaces the city, state and
    ZIP code too. Another `mailing_list_id` moves the recipient there."""
    changed = recipient_service.change_recipient(
        tx,
        id_in_path(recipient_id),
        body.person(),
        mailing_list_id=body.mailing_list_id or None,
        clock=parts.clock,
    )
    return answer(_shown(tx, parts, changed))


@router.delete(
    "/recipients/{recipient_id}",
    response_model=Message,
    responses=errors(404),
    dependencies=MAY_WRITE,
    summary="Remove a recipient",
)
def delete_recipient(recipient_id: RecipientId, tx: InTx) -> Response:
    """From its list; mail that is under way goes on."""
    recipient_service.remove_recipient(tx, id_in_path(recipient_id))
    return answer({"message": "success"})


@router.post("/recipients_multi", status_code=201, include_in_schema=False, dependencies=MAY_WRITE)
@router.post(
    "/recipients-utils/create-multiple",
    status_code=201,
    response_model=schemas.RecipientsAdded,
    responses=errors(*BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Add many recipients at once",
)
def create_recipients(body: ManyRecipients, tx: InTx, parts: Services) -> Response:
    """The answer has a row for each of yours, in their order: the recipient as it was stored or, for one that
    was not, what you gave and `error`. The others are stored all the same.

    Also at `/recipients_multi`.
    """
    rows = body.read()
    sound = [(row.get("mailing_list_id"), person_of(row)) for row in rows if not isinstance(row, str)]
    added = iter(recipient_service.add_many(tx, sound, clock=parts.clock))
    outcome = [Refusal(row) if isinstance(row, str) else next(added) for row in rows]
    lists = known_lists(tx, (one.mailing_list_id for one in outcome if isinstance(one, Recipient)))
    shape = recipient_shapes(parts, lists.values())
    shown = [
        shape(one) if isinstance(one, Recipient) else known_fields(given) | {"error": one.why}
        for given, one in zip(body.recipients, outcome, strict=True)
    ]
    return answer(shown, status=201, headers=SECRET)


@router.post("/recipients/delete-by-address", include_in_schema=False, dependencies=MAY_WRITE)
@router.post(
    "/recipients-utils/delete-by-address",
    response_model=schemas.RecipientRemoved,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_WRITE,
    summary="Remove a recipient by address or e-mail",
)
def delete_by_address(body: WhomToRemove, tx: InTx) -> Response:
    """The address in parts or whole on one line, in any spelling; or a street or an e-mail that only one on
    the list has. Where several match, the 422 names what would tell them apart.

    Also at `/recipients/delete-by-address`.
    """
    removed = recipient_service.remove_at(tx, body.mailing_list_id, body.whereabouts())
    return answer({"status": f"Recipient {removed} Deleted"})


@router.post(
    "/recipients/lookup",
    response_model=schemas.RecipientRead,
    responses=errors(404, *BODY_ERRORS),
    dependencies=MAY_READ,
    summary="Find a recipient by e-mail",
)
def look_up_recipient(body: WhomToFind, tx: InTx, parts: Services) -> Response:
    """Whoever was added last, where several lists have them."""
    found = recipient_queries.newest_with_email(tx, body.email.strip())
    return answer(_shown(tx, parts, found), headers=SECRET)
