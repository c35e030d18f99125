"""Sending: a draft finds its audience and becomes an order with its pictures on the shelf.

Files are put away before the transaction opens, for storage may be far, and recorded inside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core import jobs
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, NoMatch
from quillpost.core.ports import FetchedDocument
from quillpost.core.stored_files import FileStorage, PendingFile
from quillpost.orders import audience, create, validation
from quillpost.orders.audience import AudienceCount, AudienceCriteria
from quillpost.orders.drafts import OrderDraft
from quillpost.orders.images import PictureSet, RecipientIndex
from quillpost.orders.items import NewItem, PersonalFiles, new_short_code
from quillpost.orders.materialization import MATERIALIZE_TASK
from quillpost.orders.models import Order
from quillpost.orders.request import read_usable_lists
from quillpost.orders.requests import FieldErrors
from quillpost.recipients import rules as recipient_rules
from quillpost.recipients.addresses.service import DOUBTFUL
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.leads.search import RECENTLY_MAILED_ALL, FindExcluded, LeadSearchResult
from quillpost.recipients.lists.queries import MailingList
from quillpost.recipients.rules import Person

EMPTY_AUDIENCE_COUNT = AudienceCount(mailed_items=0, cents=0, undeliverable=0, duplicates=0, suppressed=0)

MAX_REFUSAL_REASONS = 5
"""Reasons of refusals that are told one by one."""

DOUBT_WARNING_TEXT = " doubtful: "
"""What comes after it in a warning may name one person's city."""

NOT_MAILED_TEXT = " not mailed to"
"""In every warning that counts recipients who get no piece."""

REPEAT_ADVICE = " Set allow_duplicates to mail to them all the same."


@dataclass(frozen=True, slots=True)
class OrderFiles:
    """What an order prints from the shelf; those in `new_files` still wait for their rows."""

    front: UUID | None = None
    background: UUID | None = None
    logo: UUID | None = None
    pages: UUID | None = None
    new_files: tuple[PendingFile, ...] = ()
    personal_files: PersonalFiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audience:
    """Everyone whom a draft reaches: the call's own people, one by one, and those of its lists, counted."""

    people: list[Person]
    list_count: AudienceCount
    inline_cents: int
    warnings: list[str]
    gift_cents: int = 0
    """What is on the card that each piece brings."""

    @property
    def mailed_items(self) -> int:
        return sum(not person.refusal for person in self.people) + self.list_count.mailed_items

    @property
    def total_cents(self) -> int:
        return self.inline_cents + self.list_count.cents

    @property
    def gift_total(self) -> int:
        return self.mailed_items * self.gift_cents

    @property
    def listed_people(self) -> int:
        count = self.list_count
        return count.mailed_items + count.undeliverable + count.duplicates + count.suppressed + count.samples

    @property
    def suppressed(self) -> int:
        return self._count_refused(recipient_rules.SUPPRESSED) + self.list_count.suppressed

    @property
    def duplicates(self) -> int:
        return (
            self._count_refused(recipient_rules.SAME_ADDRESS, recipient_rules.RECENTLY_MAILED)
            + self.list_count.duplicates
        )

    @property
    def undeliverable(self) -> int:
        """Everyone else who is not mailed to: so all who were given are counted once."""
        everyone = len(self.people) + self.listed_people
        return everyone - self.mailed_items - self.suppressed - self.duplicates

    def _count_refused(self, *sentences: str) -> int:
        return sum(person.refusal in sentences for person in self.people)


def store_files(db: Database, storage: FileStorage, caller: Caller, draft: OrderDraft, *, now: datetime) -> OrderFiles:
    """Put the draft's files away, each once; one that the sender has there already is not kept again."""
    artwork = draft.artwork
    distinct: dict[bytes, FetchedDocument] = {
        picture.body: picture
        for pictures in (artwork.front, artwork.background, artwork.logo)
        for picture in pictures.distinct_pictures()
        if pictures.file is None
    }
    if artwork.pages is not None and artwork.pages_file is None:
        distinct[artwork.pages.body] = artwork.pages
    file_ids, pending_files = _store_missing(
        db, storage, caller, distinct, sub_account_id=draft.request.sub_account_id, now=now
    )

    def ids_by_recipient(pictures: PictureSet) -> dict[RecipientIndex, UUID]:
        if pictures.file is not None:
            return {None: pictures.file.id}
        return {recipient_index: file_ids[picture.body] for recipient_index, picture in pictures.by_recipient.items()}

    fronts, backgrounds = ids_by_recipient(artwork.front), ids_by_recipient(artwork.background)
    pages = artwork.pages_file.id if artwork.pages_file else file_ids[artwork.pages.body] if artwork.pages else None
    return OrderFiles(
        fronts.get(None),
        backgrounds.get(None),
        ids_by_recipient(artwork.logo).get(None),
        pages,
        tuple(pending_files),
        {
            recipient_index: (fronts.get(recipient_index), backgrounds.get(recipient_index))
            for recipient_index in fronts.keys() | backgrounds.keys()
            if recipient_index is not None
        },
    )


def _store_missing(
    db: Database,
    storage: FileStorage,
    caller: Caller,
    contents: Mapping[bytes, FetchedDocument],
    *,
    sub_account_id: int | None,
    now: datetime,
) -> tuple[dict[bytes, UUID], list[PendingFile]]:
    """Where each of the contents lies, and those that were put there just now.

    A file of another home is not used: whoever is limited to this one could not see it.
    """
    if not contents:
        return {}, []
    with db.transaction(Tenant(caller.account_id, sub_account_id)) as tx:
        stored_ids = storage.find_by_content(tx, contents, purpose="creative")
    new_files = {
        body: storage.put(body, purpose="creative", content_type=fetched.content_type, now=now)
        for body, fetched in contents.items()
        if body not in stored_ids
    }
    return stored_ids | {body: pending_file.id for body, pending_file in new_files.items()}, list(new_files.values())


def find_audience(tx: Tx, caller: Caller, draft: OrderDraft, *, mails_at: datetime, lock: bool) -> Audience:
    """Who is mailed to and who is not; `lock`, nobody else sends this creative until the transaction ends."""
    criteria = draft.audience_criteria(caller, mails_at=mails_at)
    people = audience.refuse_inline_people(tx, draft.people, criteria, lock=lock)
    mailed_keys = [person.address_key for person in people if person.address_key and not person.refusal]
    list_count = (
        audience.count_audience(tx, replace(criteria, inline_keys=mailed_keys))
        if criteria.list_ids
        else EMPTY_AUDIENCE_COUNT
    )
    if draft.lead_search_result is not None and not criteria.list_ids:
        list_count = _count_leads(tx, draft, draft.lead_search_result, criteria)
    prices = [draft.tariff.unit_cents(person.country) or 0 for person in people if not person.refusal]
    gift = draft.request.gift
    return Audience(
        people, list_count, sum(prices), _audience_warnings(people, list_count), gift_cents=gift.cents if gift else 0
    )


def _count_leads(
    tx: Tx, draft: OrderDraft, search_result: LeadSearchResult, criteria: AudienceCriteria
) -> AudienceCount:
    """What would become of those whom a search has found, who are on no list yet."""
    people = audience.refuse_inline_people(tx, search_result.people, criteria, lock=False)
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
    """Who of any people would be refused, as they had this creative a short time ago."""
    criteria = draft.audience_criteria(caller, mails_at=mails_at)

    def repeated_people(tx: Tx, people: Sequence[Person]) -> set[int]:
        checked_people = audience.refuse_inline_people(tx, people, criteria, lock=False)
        return {
            position
            for position, person in enumerate(checked_people, start=1)
            if person.refusal == recipient_rules.RECENTLY_MAILED
        }

    return repeated_people


def compute_due_at(draft: OrderDraft, *, review: timedelta, now: datetime) -> datetime:
    """When the review ends, unless the caller wants it later."""
    return max(now + review, draft.request.schedule_for or now)


def create_order(
    tx: Tx,
    caller: Caller,
    storage: FileStorage,
    draft: OrderDraft,
    files: OrderFiles,
    *,
    encryptor: Encryptor | None = None,
    review: timedelta,
    needs_credit: bool = False,
    now: datetime,
) -> tuple[Order, Audience]:
    """The order, the rows of its files, and the job that finds the people of its lists: one transaction.

    So is what its radius search has found, on a list of its own, and the fee: neither is without the other.
    """
    _lock_references(tx, draft)
    mails_at = compute_due_at(draft, review=review, now=now)
    draft, lead_list = _buy_leads(tx, caller, encryptor, draft, mails_at=mails_at, now=now)
    reached_audience = find_audience(tx, caller, draft, mails_at=mails_at, lock=True)
    storage.record_files(
        tx, files.new_files, account_id=caller.account_id, sub_account_id=draft.request.sub_account_id, now=now
    )
    order = create.insert_order(
        tx,
        caller,
        create.PreparedOrder(
            request=draft.request,
            items=_build_items(draft, reached_audience.people, files.personal_files),
            estimated_items=reached_audience.mailed_items,
            authorized_cents=reached_audience.total_cents,
            listed_people=reached_audience.listed_people,
            sender=draft.design.sender,
            return_address=draft.return_address,
            front_file_id=files.front,
            background_file_id=files.background,
            logo_file_id=files.logo,
            pages_file_id=files.pages,
            creative_key=draft.creative_key,
            warnings=draft.warnings + reached_audience.warnings,
            lowest_dpi=draft.lowest_dpi,
            lowest_contrast=draft.lowest_contrast,
            leads_fee=draft.lead_search_result.cents if draft.lead_search_result else 0,
            gift_total=reached_audience.gift_total,
        ),
        due_at=mails_at,
        needs_credit=needs_credit,
        now=now,
    )
    if lead_list is not None and draft.lead_search_result is not None:
        lead_service.record_purchase(tx, caller, draft.lead_search_result, lead_list, order_id=order.id, now=now)
    if draft.request.mailing_list_ids:
        jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order.id)
    return order, reached_audience


def _buy_leads(
    tx: Tx, caller: Caller, encryptor: Encryptor | None, draft: OrderDraft, *, mails_at: datetime, now: datetime
) -> tuple[OrderDraft, MailingList | None]:
    """The draft as one to a list, where it is one to those whom a search has found. Whoever was sent the same
    while it was prepared is not bought: nobody pays for a record that no piece goes to."""
    request = draft.request
    if draft.lead_search_result is None or request.radius_search is None:
        return draft, None
    assert encryptor is not None, "whoever buys people for an order has a sealer for their list's key"
    audience.lock_creative(tx, draft.audience_criteria(caller, mails_at=mails_at))
    repeated_positions = find_repeats(draft, caller, mails_at=mails_at)(tx, draft.lead_search_result.people)
    new_leads = draft.lead_search_result.without(
        {draft.lead_search_result.people[position - 1].address_key for position in repeated_positions}
    )
    if not new_leads.people:
        raise NoMatch(RECENTLY_MAILED_ALL)
    mailing_list = lead_service.create_lead_list(
        tx, caller, encryptor, request.radius_search, sub_account_id=request.sub_account_id, now=now
    )
    lead_service.add_to_list(tx, mailing_list, new_leads, now=now)
    return replace(
        draft, lead_search_result=new_leads, request=replace(request, mailing_list_ids=[mailing_list.id])
    ), mailing_list


def _lock_references(tx: Tx, draft: OrderDraft) -> None:
    """What was looked up may have gone, or changed hands, meanwhile; from here on it stays."""
    sub_account_id, errors = draft.request.sub_account_id, FieldErrors()
    if sub_account_id is not None:
        require_sub_account(tx, sub_account_id)
    read_usable_lists(tx, draft.request.mailing_list_ids, sub_account_id, errors, locked=True)
    if draft.request.gift is not None:
        errors |= validation.check_giftcard(tx, draft.request.gift)
    if errors:
        raise Invalid(errors)


def _build_items(draft: OrderDraft, people: Sequence[Person], personal_files: PersonalFiles) -> list[NewItem]:
    """Each with a price and its short code. The refused are free, and have no paper to put a code on."""
    no_files = (None, None)
    return [
        NewItem(
            person,
            0 if person.refusal else draft.tariff.unit_cents(person.country) or 0,
            None if person.refusal else new_short_code(),
            *personal_files.get(index, no_files),
            draft.request.mailing_list_id,
        )
        for index, person in enumerate(people)
    ]


def _audience_warnings(people: Sequence[Person], list_count: AudienceCount) -> list[str]:
    """How many are not mailed to, and why; nobody should find that out from an item. And whom mail may not
    reach: what is wrong with one address may be wrong with that one alone, so a few reasons stand for all."""
    reasons = Counter(person.refusal for person in people if person.refusal)
    listed_reasons = [reason for reason, _ in reasons.most_common(MAX_REFUSAL_REASONS)]
    warnings = [
        f"{_recipients_text(reasons[reason])}{NOT_MAILED_TEXT}: {reason}{_advice(reason)}"
        for reason in reasons
        if reason in listed_reasons
    ]
    if other_count := sum(count for reason, count in reasons.items() if reason not in listed_reasons):
        warnings.append(f"{_recipients_text(other_count)}{NOT_MAILED_TEXT} for other reasons: their items say which.")
    warnings += _doubt_warnings(people, list_count)
    for count, reason in (
        (list_count.undeliverable, "mail does not reach their addresses, or there is no price for the country."),
        (list_count.duplicates, "the address is in this order already, or had the same piece within 36 hours."),
        (list_count.suppressed, recipient_rules.SUPPRESSED),
        (list_count.samples, recipient_rules.SAMPLE_ADDRESS),
    ):
        warnings += [f"On the lists {_recipients_text(count)}{NOT_MAILED_TEXT}: {reason}"] if count else []
    return warnings


def _doubt_warnings(people: Sequence[Person], list_count: AudienceCount) -> list[str]:
    doubtful = [
        doubtful_person
        for doubtful_person in people
        if doubtful_person.deliverability == DOUBTFUL and not doubtful_person.refusal
    ]
    doubtful_count = len(doubtful) + list_count.doubtful
    if not doubtful_count:
        return []
    reasons = dict.fromkeys(
        [*(reason for person in doubtful for reason in person.reasons[:1]), *list_count.doubt_reasons]
    )
    reasons_text = " ".join(list(reasons)[: audience.MAX_DOUBT_REASONS])
    return [
        f"{'1 address is' if doubtful_count == 1 else f'{doubtful_count:,} addresses are'}"
        f"{DOUBT_WARNING_TEXT}{reasons_text}"
    ]


def _recipients_text(count: int) -> str:
    return "1 recipient is" if count == 1 else f"{count:,} recipients are"


def _advice(reason: str) -> str:
    return REPEAT_ADVICE if reason == recipient_rules.RECENTLY_MAILED else ""
