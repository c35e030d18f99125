"""What a send would cost, as far as the composer's form is filled in: the numbers of an estimate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request, Response

from quillpost.accounts.billing import credit
from quillpost.accounts.billing.rules import LEAD_CENTS
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.errors import Invalid, Refused
from quillpost.orders.drafts import Draft
from quillpost.orders.service import HOW_TO_REPEAT
from quillpost.web.api.send.endpoints import estimate_data
from quillpost.web.dashboard.compose import forms, recipients
from quillpost.web.dashboard.compose.forms import Composed, composed, draft, in_form_terms, read, warnings_of
from quillpost.web.dashboard.forms import typed_zone
from quillpost.web.forms import Form, PostedLargeForm
from quillpost.web.rendering import show
from quillpost.web.sessions import OurParts, Reader

router = APIRouter(include_in_schema=False)

UNFINISHED: Final = "The piece is not finished yet. Who had the same lately is known when it is."
REPEAT_HERE: Final = " Under “More” you can choose to mail to them all the same."
STAND_IN: Final = {"message": "Hello"}
SOMEBODY: Final = {"name": "Jane Sample", "address": "1100 Congress Ave, Austin, TX 78701"}


@dataclass(frozen=True, slots=True)
class Price:
    """In cents. Where nobody can be counted yet there is no total, and `why` says what is missing."""

    unit: int | None = None
    pieces: int = 0
    leads: int = 0
    gifts: int = 0
    total: int | None = None
    credit: int | None = None
    left_out: Mapping[str, int] | None = None
    warnings: tuple[str, ...] = ()
    of_piece: tuple[str, ...] = ()
    """Those of the warnings that are about the piece, and not about people or money."""
    why: str = ""

    @property
    def postage(self) -> int:
        return (self.total or 0) - self.leads - self.gifts

    @property
    def lead_cents(self) -> int:
        """Of each address that is bought."""
        return LEAD_CENTS

    @property
    def is_short(self) -> bool:
        return self.credit is not None and self.total is not None and 0 < self.total > self.credit

    def for_guest(self) -> "Price":
        """What somebody may know who is not of the account: neither what it has, nor why it does not mail to
        somebody. How many these are, they see by the number of pieces anyway."""
        n = sum((self.left_out or {}).values())
        left_out = {"person" if n == 1 else "people": n} if n else {}
        return replace(self, credit=None, left_out=left_out, warnings=self.of_piece)


@router.post("/compose/price")
def price_part(request: Request, who: Reader, form: PostedLargeForm, parts: OurParts) -> Response:
    shown = price_of(form, who.caller, parts, typed_zone(request, form.fields))
    return show(
        request,
        "compose/price.html",
        who=who,
        price=shown,
        within="/compose",
        is_testing=who.caller.is_testing,
    )


def price_of(form: Form, who: Caller, parts: Parts, zone: ZoneInfo) -> Price:
    """Of the whole form; of a plain piece to the same people where its look is not finished; or of one."""
    try:
        return priced(draft(composed(form, parts, zone), who, parts), who, parts)
    except (Invalid, Refused) as unfinished:
        why = _why(unfinished)
    try:
        whom = recipients.audience_fields(form, parts) | forms.schedule_fields(form, zone)
        plain = priced(draft(_plain(form, whom), who, parts), who, parts)
        return replace(plain, why=UNFINISHED)
    except (Invalid, Refused) as unknown:
        why = _why(unknown)
    try:
        one = priced(draft(_plain(form, {"recipients": [SOMEBODY]}), who, parts), who, parts)
        return Price(unit=one.unit, why=why)
    except (Invalid, Refused):
        return Price(why=why)


def priced(drafted: Draft, who: Caller, parts: Parts) -> Price:
    """The numbers of an estimate."""
    data = estimate_data(drafted, who, parts)
    left = {"on a suppression list": data["suppressed"], "twice or just mailed to": data["duplicates"]}
    left["that mail does not reach"] = data["undeliverable"]
    has = _credit(who, parts)
    total = data["authorization_total"]
    untold = {credit.short_of(has, total)} if has is not None and 0 < total > has else set()
    of_piece = warnings_of(drafted, parts)
    return Price(
        unit=data["unit_price"],
        pieces=data["total_recipients"],
        leads=data["leads_fee"],
        gifts=data["giftcard_total"],
        total=total,
        credit=has,
        left_out={words: n for words, n in left.items() if n},
        warnings=tuple(
            each.replace(HOW_TO_REPEAT, REPEAT_HERE)
            for each in dict.fromkeys([*of_piece, *data["warnings"]])
            if each not in untold
        ),
        of_piece=tuple(of_piece),
    )


def _credit(who: Caller, parts: Parts) -> int | None:
    if not parts.worlds[who.mode].needs_credit:
        return None
    with parts.db.transaction(tenant(who)) as tx:
        return credit.credit(tx, who.mode)


def _plain(form: Form, whom: Mapping[str, Any]) -> Composed:
    """The piece that is chosen, with no more on it than it must have."""
    choice = forms.choice_of(form)
    fields: dict[str, Any] = {**STAND_IN, **whom}
    if choice.size is not None:
        fields["size"] = choice.size
    if choice.is_gift:
        gift = forms.design_fields(form)
        fields |= {name: gift[name] for name in ("giftcard_brand", "giftcard_amount") if name in gift}
    return read(choice.offer, fields, form)


def _why(wrong: Invalid | Refused) -> str:
    told = in_form_terms(wrong) if isinstance(wrong, Refused) else wrong
    return next(iter(told.fields.values()))[0]
