"""Who a draft reaches and what that costs: people of the call one by one, those of lists counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.errors import Message
from quillpost.orders.audience import queries
from quillpost.orders.audience.queries import AudienceCount, AudienceCriteria
from quillpost.orders.drafts.models import OrderDraft
from quillpost.recipients import rules as recipient_rules
from quillpost.recipients.addresses.rules import DOUBTFUL
from quillpost.recipients.leads.search import FindExcluded, LeadSearchResult
from quillpost.recipients.models import Person

EMPTY_AUDIENCE_COUNT = AudienceCount(mailed_items=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)

MAX_REFUSAL_REASONS = 5

NOT_MAILED, RECENTLY_MAILED, ADDRESSES_DOUBTFUL = "not_mailed", "recently_mailed", "addresses_doubtful"
"""Codes of warnings. The first two count recipients who get no piece; the reasons of the third may name a city."""

RECENTLY_MAILED_ALL = Message(
    "search_recently_mailed",
    "All whom this search finds had the same piece less than 36 hours ago: search around another address, or"
    " set allow_duplicates.",
)


@dataclass(frozen=True, slots=True)
class Audience:
    """The call's own people one by one, and those of lists counted. `recipient_count` counts the refused too;
    `gift_total` is what is on all the cards that the pieces bring."""

    people: list[Person]
    list_count: AudienceCount
    recipient_count: int
    mailed_items: int
    total_cents: int
    gift_total: int
    warnings: list[Message]

    @property
    def suppressed(self) -> int:
        return self._count_refused(recipient_rules.SUPPRESSED) + self.list_count.suppressed

    @property
    def duplicates(self) -> int:
        refused = self._count_refused(recipient_rules.SAME_ADDRESS, recipient_rules.RECENTLY_MAILED)
        return refused + self.list_count.duplicates

    @property
    def undeliverable(self) -> int:
        """The rest: everyone is counted once."""
        return self.recipient_count - self.mailed_items - self.suppressed - self.duplicates

    def _count_refused(self, *sentences: str) -> int:
        return sum(person.refusal in sentences for person in self.people)


def find_audience(tx: Tx, caller: Caller, draft: OrderDraft, *, mails_at: datetime, lock: bool) -> Audience:
    """Who is mailed; `lock`, nobody else sends this creative until the transaction ends."""
    criteria = AudienceCriteria.for_draft(caller, draft, mails_at=mails_at)
    people = queries.refuse_inline_people(tx, draft.people, criteria, lock=lock)
    mailed = [person for person in people if not person.refusal]
    listed = EMPTY_AUDIENCE_COUNT
    if criteria.list_ids:
        mailed_keys = [person.address_key for person in mailed if person.address_key]
        listed = queries.count_audience(tx, replace(criteria, inline_keys=mailed_keys))
    elif draft.lead_search_result is not None:
        listed = _count_leads(tx, draft, draft.lead_search_result, criteria)
    mailed_items = len(mailed) + listed.mailed_items
    listed_refused = listed.undeliverable + listed.duplicates + listed.suppressed + listed.samples
    return Audience(
        people,
        listed,
        recipient_count=len(people) + listed.mailed_items + listed_refused,
        mailed_items=mailed_items,
        total_cents=sum(draft.tariff.unit_cents(person.country) or 0 for person in mailed) + listed.cents,
        gift_total=mailed_items * draft.request.gift.cents if draft.request.gift else 0,
        warnings=_audience_warnings(people, listed),
    )


def _count_leads(
    tx: Tx, draft: OrderDraft, search_result: LeadSearchResult, criteria: AudienceCriteria
) -> AudienceCount:
    """The leads of a search, who are on no list yet."""
    people = queries.refuse_inline_people(tx, search_result.people, criteria, lock=False)
    prices = [draft.tariff.unit_cents(person.country) for person in people if not person.refusal]
    available_prices = [cents for cents in prices if cents is not None]
    refusals = Counter(person.refusal for person in people if person.refusal)
    return AudienceCount(
        mailed_items=len(available_prices),
        cents=sum(available_prices),
        undeliverable=len(prices) - len(available_prices),
        duplicates=refusals[recipient_rules.RECENTLY_MAILED] + refusals[recipient_rules.SAME_ADDRESS],
        suppressed=refusals[recipient_rules.SUPPRESSED],
    )


def find_repeats(draft: OrderDraft, caller: Caller, *, mails_at: datetime) -> FindExcluded:
    """Finds who had this creative a short time ago."""
    criteria = AudienceCriteria.for_draft(caller, draft, mails_at=mails_at)

    def repeated_people(tx: Tx, people: Sequence[Person]) -> set[int]:
        checked_people = queries.refuse_inline_people(tx, people, criteria, lock=False)
        return {
            position
            for position, person in enumerate(checked_people, start=1)
            if person.refusal == recipient_rules.RECENTLY_MAILED
        }

    return repeated_people


def _audience_warnings(people: Sequence[Person], list_count: AudienceCount) -> list[Message]:
    """How many are not mailed and why, and which addresses are doubtful; a few reasons stand for all."""
    refusals = Counter(person.refusal for person in people if person.refusal)
    listed_refusals = [reason for reason, _ in refusals.most_common(MAX_REFUSAL_REASONS)]
    warnings = [_refusal_warning(refusals[reason], reason) for reason in refusals if reason in listed_refusals]
    if other_count := sum(count for reason, count in refusals.items() if reason not in listed_refusals):
        text = f"{_not_mailed_text(other_count)} for other reasons: their items say which."
        warnings.append(Message(NOT_MAILED, text))
    doubtful = [person for person in people if person.deliverability == DOUBTFUL and not person.refusal]
    if doubtful_count := len(doubtful) + list_count.doubtful:
        reasons = [*(reason for person in doubtful for reason in person.reasons[:1]), *list_count.doubtful_reasons]
        reasons_text = " ".join(list(dict.fromkeys(reasons))[: queries.MAX_DOUBTFUL_REASONS])
        count_text = "1 address is" if doubtful_count == 1 else f"{doubtful_count:,} addresses are"
        text = f"{count_text} doubtful: {reasons_text}"
        warnings.append(Message(ADDRESSES_DOUBTFUL, text, count_text=count_text))
    for count, reason in (
        (list_count.undeliverable, "mail does not reach their addresses, or there is no price for the country."),
        (list_count.duplicates, "the address is in this order already, or had the same piece within 36 hours."),
        (list_count.suppressed, recipient_rules.SUPPRESSED),
        (list_count.samples, recipient_rules.SAMPLE_ADDRESS),
    ):
        warnings += [Message(NOT_MAILED, f"On the lists {_not_mailed_text(count)}: {reason}")] if count else []
    return warnings


def _refusal_warning(count: int, reason: str) -> Message:
    text = f"{_not_mailed_text(count)}: {reason}"
    if reason != recipient_rules.RECENTLY_MAILED:
        return Message(NOT_MAILED, text)
    return Message(RECENTLY_MAILED, f"{text} Set allow_duplicates to mail to them all the same.", start=text)


def _not_mailed_text(count: int) -> str:
    return "1 recipient is not mailed to" if count == 1 else f"{count:,} recipients are not mailed to"
