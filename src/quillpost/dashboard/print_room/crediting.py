"""Credit that an operator gives an account, or takes from it. Live money alone: nobody pays for tests."""

from fastapi import APIRouter, Request, Response

from quillpost.accounts import directory
from quillpost.api.needs import id_in_path
from quillpost.dashboard.form_pages import Filled
from quillpost.dashboard.print_room.accounts import PAGE, account_page
from quillpost.dashboard.print_room.room_pages import noted, require_live
from quillpost.dashboard.print_room.words import cents_in
from quillpost.kit.errors import Invalid, Refused
from quillpost.pages.wording import cents as shown
from quillpost.pricing import credit
from quillpost.reception import once
from quillpost.reception.forms import PostedForm
from quillpost.reception.once import do_once
from quillpost.reception.show import go
from quillpost.reception.visits import ConfirmedOperator, OurParts

router = APIRouter(include_in_schema=False)

NOT_TWICE = "The account's page shows what it has now."
FORWARD, BACK = "give", "take"


@router.get(f"{PAGE}/{{account_id}}/credit")
def credit_page(request: Request, account_id: str, who: ConfirmedOperator, parts: OurParts) -> Response:
    """The account's page, for whoever was asked for their password on the way to the form."""
    return account_page(request, who, parts, id_in_path(account_id))


@router.post(f"{PAGE}/{{account_id}}/credit")
def move(
    request: Request, account_id: str, who: ConfirmedOperator, form: PostedForm, parts: OurParts
) -> Response:
    """In the log of that account, under the operator's name, and in the operator's own."""
    require_live(who)
    number, now = id_in_path(account_id), parts.clock()
    here = f"{PAGE}/{number}"
    try:
        cents, way, why = cents_in(form.text("amount"), field="amount"), form.text("way"), form.text("note")
        faults = {} if way in (FORWARD, BACK) else {"way": ["Choose whether to add it or to take it out."]}
        if not why:
            faults["note"] = ["Say what it is for: the ledger keeps it."]
        if faults:
            raise Invalid(faults)
        with parts.db.work() as tx:
            account = directory.find_known(tx, number, mode="live", month=now.date().replace(day=1))
            key = form.text(once.FIELD)
            do_once(tx, who, key, instead=NOT_TWICE, leads_to=here)
            pay = credit.deposit if way == FORWARD else credit.withdraw
            pay(tx, number, cents=cents, key=f"page:{key}", note=why, actor=who.actor, now=now)
            if number != who.here.account_id:
                amount = shown(cents if way == FORWARD else -cents)
                noted(who, parts, "credit.moved", {"name": account.name, "amount": amount, "note": why})(tx)
    except (Invalid, Refused) as refused:
        return account_page(request, who, parts, number, form=Filled.back(form, refused, at="amount"))
    return go(here, said="credit_given" if way == FORWARD else "credit_taken")
