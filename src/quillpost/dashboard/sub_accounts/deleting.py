"""Deleting a sub account: asks first, and explains what keeps it."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts import audit
from quillpost.accounts import sub_accounts as store
from quillpost.accounts.removing import remove_sub_account
from quillpost.api.needs import id_in_path
from quillpost.dashboard.form_pages import are_you_sure
from quillpost.dashboard.sub_accounts.listing import PAGE
from quillpost.database import Tenant
from quillpost.kit.errors import Refused
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import PostedForm
from quillpost.reception.show import go
from quillpost.reception.visits import OurParts, Owner

router = APIRouter(include_in_schema=False)

MEANS = (
    "Its tokens, webhooks, automations and connected apps end, in test mode and live.",
    "Teammates who are limited to it lose their way in.",
    "What it has mailed and spent stays in the account.",
    "It must be empty first: no order that waits, no list, no template. Delete or move those before.",
)


@router.get(f"{PAGE}/{{sub_account_id}}/delete")
def delete_page(request: Request, sub_account_id: str, who: Owner, parts: OurParts) -> Response:
    return _ask(request, id_in_path(sub_account_id), who, parts)


@router.post(f"{PAGE}/{{sub_account_id}}/delete")
def delete(request: Request, sub_account_id: str, who: Owner, _form: PostedForm, parts: OurParts) -> Response:
    number, now = id_in_path(sub_account_id), parts.clock()
    try:
        # Both modes: what is live keeps it, too, while one looks at test mode.
        with parts.db.transaction(Tenant(who.here.account_id)) as tx:
            gone = remove_sub_account(tx, number, now=now)
            about = {"title": gone.title, "id": gone.id}
            audit.note(
                tx,
                gone.account_id,
                "sub_account.deleted",
                who.actor,
                about=about,
                sub_account_id=gone.id,
                now=now,
            )
    except Refused as refused:
        return _ask(request, number, who, parts, refused.message)
    return go(PAGE, said="sub_account_deleted")


def _ask(request: Request, number: int, who: SignedIn, parts: Parts, refused: str | None = None) -> Response:
    with parts.db.transaction(who.tenant) as tx:
        found = store.find_sub_account(tx, number)
    return are_you_sure(
        request,
        who,
        title=f"Delete “{found.title}”?",
        means=MEANS,
        button="Delete it",
        back=f"{PAGE}/{number}",
        refused=refused,
    )
