"""All automations of an account."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts.service import tenant
from quillpost.audience.lists import MailingList, known_lists
from quillpost.automations import store
from quillpost.dashboard.automations.automation_pages import PAGE, automation_page
from quillpost.dashboard.automations.words import sentence
from quillpost.dashboard.paging import asked_page
from quillpost.reception.visits import OurParts, Reader

router = APIRouter(include_in_schema=False)


@router.get(PAGE)
def list_page(request: Request, who: Reader, parts: OurParts, page: str = "") -> Response:
    with parts.db.transaction(tenant(who.caller)) as tx:
        found = store.list_automations(tx, asked_page(page), sub_account_id=None, mailing_list_id=None)
        waiting = store.waiting(tx, [each.id for each in found.rows])
        lists = known_lists(tx, {each.mailing_list_id for each in found.rows if each.mailing_list_id})
    says = {each.id: sentence(each, named(lists.get(each.mailing_list_id or 0))) for each in found.rows}
    return automation_page(request, "list.html", who, parts, page=found, waiting=waiting, says=says)


def named(mailing_list: MailingList | None) -> str | None:
    """What a list is called in a sentence."""
    return None if mailing_list is None else mailing_list.description or f"list {mailing_list.id}"
