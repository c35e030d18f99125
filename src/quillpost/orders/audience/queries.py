"""Who of saved lists is mailed, and why the others are not: one SQL text for all callers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, Tariff
from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.orders.drafts.models import OrderDraft
from quillpost.orders.models import Order, can_repeat
from quillpost.recipients.addresses.rules import DOUBTFUL, HOME_COUNTRY, INCOMPLETE_ADDRESS, NO_ADDRESS, UNDELIVERABLE
from quillpost.recipients.models import CUSTOM_FIELDS, DERIVED_COLUMNS, TEXT_FIELDS, Person
from quillpost.recipients.queries import get_derived_fields, lacks_address_parts_sql
from quillpost.recipients.rules import NO_PRICE, RECENTLY_MAILED, SAME_ADDRESS, SAMPLE_ADDRESS, SUPPRESSED

MAX_DOUBTFUL_REASONS = 3

REPEAT_WINDOW = timedelta(hours=36)

PERSON_COLUMNS = (*TEXT_FIELDS, "dob", "anniversary", *DERIVED_COLUMNS, "absentee_address")
"""What an item copies from a recipient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceCriteria:
    """What decides who of the lists is mailed. `inline_keys` are the address keys of inline recipients who are mailed,
    and come first; `order_id` is set once there is an order."""

    account_id: int
    sub_account_id: int | None
    mode: str
    list_ids: Sequence[int]
    creative_key: UUID | None
    allows_repeats: bool
    mails_at: datetime
    tariff: Tariff
    inline_keys: Sequence[str] = ()
    order_id: int | None = None

    @classmethod
    def for_draft(cls, caller: Caller, draft: OrderDraft, *, mails_at: datetime) -> Self:
        return cls(
            account_id=caller.account_id,
            sub_account_id=draft.request.sub_account_id,
            mode=caller.mode,
            list_ids=draft.request.mailing_list_ids,
            creative_key=draft.creative_key,
            allows_repeats=can_repeat(draft.request),
            mails_at=mails_at,
            tariff=draft.tariff,
        )

    @classmethod
    def for_order(cls, order: Order | sa.Row[Any], *, tariff: Tariff, inline_keys: Sequence[str] = ()) -> Self:
        return cls(
            account_id=order.account_id,
            sub_account_id=order.sub_account_id,
            mode=order.mode,
            list_ids=order.mailing_list_ids,
            creative_key=order.creative_key,
            allows_repeats=can_repeat(order),
            mails_at=order.due_at,
            tariff=tariff,
            inline_keys=inline_keys,
            order_id=order.id,
        )


@dataclass(frozen=True, slots=True)
class AudienceCount:
    """How many people of the lists are mailed at what cost, and how many are not, by reason; of the mailed, how many
    have a doubtful address."""

    mailed_items: int
    cents: int
    undeliverable: int
    duplicates: int
    suppressed: int
    samples: int = 0
    doubtful: int = 0
    doubtful_reasons: tuple[str, ...] = ()


def _repeats_sql(key_sql: str) -> str:
    """Whether the same creative goes to the address of this key within the repeat window."""
    return f"""exists (
        select 1 from items i join orders o on o.id = i.order_id
         where i.account_id = :account_id and i.mode = :mode and i.address_key = {key_sql}
           and i.creative_key = cast(:creative_key as uuid)
           and i.sub_account_id is not distinct from cast(:sub_account_id as bigint)
           and i.status <> 'Failed' and o.id is distinct from cast(:order_id as bigint)
           and o.due_at > :repeats_from and o.due_at < :repeats_until)"""


# An address is on a list once, so duplicates are met only between lists. Two with the same address have the same
# country and so the same price, and a suppressed address suppresses both; but an e-mail suppresses only one person,
# a household one family, and a move is one person's. So of duplicates the first who can be mailed to stands for the
# address.
CLASSIFIED_SQL = f"""
    suppressed as materialized (
        select id from suppressed_recipients(cast(:sub_account_id as bigint), :mode, :lists) as found (id)),
    doubled as (
        select address_key, min(id) as first_id from recipients r
         where cardinality(cast(:lists as bigint[])) > 1
           and mailing_list_id = any(:lists)
           and account_id = :account_id and address_key is not null and not {lacks_address_parts_sql("r")}
           and deliverability is distinct from '{UNDELIVERABLE}' and not (is_sample and :mode = 'live')
           and not exists (select 1 from suppressed b where b.id = r.id)
         group by address_key having count(*) > 1),
    listed as (
        select id, mailing_list_id, {", ".join(name for name in PERSON_COLUMNS if name != "country")},
               coalesce(country, '{HOME_COUNTRY}') as country, is_sample, moved_key
          from recipients where mailing_list_id = any(:lists) and account_id = :account_id),
    classified as (
        select r.*, coalesce(price.cents, cast(:cents_elsewhere as integer)) as cents,
               case when r.address is null then :no_address
                    when {lacks_address_parts_sql("r")} then :half_an_address
                    when r.is_sample and :mode = 'live' then :sample
                    when r.deliverability = '{UNDELIVERABLE}' then r.reasons[1]
                    when coalesce(price.cents, cast(:cents_elsewhere as integer)) is null
                    then replace(:no_price, '{{}}', r.country)
                    when b.id is not null then :suppressed
                    when r.id <> d.first_id
                      or r.address_key in (select unnest(cast(:inline_keys as text[]))) then :same_address
                    when not :allows_repeats and {_repeats_sql("r.address_key")} then :repeated
               end as refusal
          from listed r
          left join suppressed b on b.id = r.id
          left join doubled d on d.address_key = r.address_key
          left join unnest(cast(:countries as text[]), cast(:cents as integer[])) as price (country, cents)
            on price.country = r.country)
"""
"""The people of the lists with their price and, where they are not mailed, the reason."""

# Of reasons that speak of single addresses there may be as many as people: they are counted as one.
COUNT_AUDIENCE = sa.text(f"""
    with {CLASSIFIED_SQL}
    select case when refusal is null
                  or refusal in (:same_address, :repeated, :suppressed, :sample) then refusal
                else '{UNDELIVERABLE}' end as refusal,
           count(*) as people, sum(cents) as cents,
           count(*) filter (where deliverability = '{DOUBTFUL}') as doubtful
      from classified group by 1
""")

SELECT_DOUBTFUL_REASONS = sa.text(f"""
    select why from (
        select reasons[1] as why, id from recipients
         where mailing_list_id = any(:lists) and account_id = :account_id and deliverability = '{DOUBTFUL}'
         order by id limit 1000) doubted
     where why is not null group by why order by min(id) limit :most
""")

SELECT_FIRST_MAILED = sa.text(f"""
    with {CLASSIFIED_SQL}
    select * from classified where refusal is null order by mailing_list_id, id limit 1
""")

SELECT_INLINE_REFUSALS = sa.text(f"""
    select p.position, case when suppressed.position is null then :repeated else :suppressed end as refusal
      from unnest(cast(:keys as text[])) with ordinality as p (key, position)
      left join suppressed_places(cast(:sub_account_id as bigint), :mode, :keys, cast(:surnames as text[]),
                                  cast(:emails as text[])) as suppressed (position) on suppressed.position = p.position
     where suppressed.position is not null or (not :allows_repeats and {_repeats_sql("p.key")})
""")

COUNT_REPEATED_ITEMS = sa.text(f"""
    select count(*) from items r
     where r.order_id = :order_id and r.status = 'Processing' and r.address_key is not null
       and {_repeats_sql("r.address_key")}
""")

# Two sends of one creative at the same moment would not see each other's pieces.
LOCK_CREATIVE = sa.text("select pg_advisory_xact_lock(hashtextextended(:creative, 0))")


def count_audience(tx: Tx, criteria: AudienceCriteria) -> AudienceCount:
    """Counts the people of the lists; nothing is stored."""
    rows = {row.refusal: row for row in tx.execute(COUNT_AUDIENCE, query_values(criteria))}
    counts = Counter({refusal: row.people for refusal, row in rows.items()})
    cents, doubtful = (rows[None].cents, rows[None].doubtful) if None in rows else (0, 0)
    doubtful_reasons: tuple[str, ...] = ()
    if doubtful:
        values = {"lists": list(criteria.list_ids), "account_id": criteria.account_id, "most": MAX_DOUBTFUL_REASONS}
        doubtful_reasons = tuple(tx.execute(SELECT_DOUBTFUL_REASONS, values).scalars())
    return AudienceCount(
        mailed_items=counts[None],
        cents=cents,
        undeliverable=counts[UNDELIVERABLE],
        duplicates=counts[SAME_ADDRESS] + counts[RECENTLY_MAILED],
        suppressed=counts[SUPPRESSED],
        samples=counts[SAMPLE_ADDRESS],
        doubtful=doubtful,
        doubtful_reasons=doubtful_reasons,
    )


def find_first_mailed(tx: Tx, criteria: AudienceCriteria) -> Person | None:
    row = tx.execute(SELECT_FIRST_MAILED, query_values(criteria)).first()
    return None if row is None else read_person(row._mapping)


def refuse_inline_people(tx: Tx, people: Sequence[Person], criteria: AudienceCriteria, *, lock: bool) -> list[Person]:
    """The same people; those who must not be mailed, or not again so soon, now have a refusal. A suppressed person
    leaves the address to the next; a repeat is refused at the first of its address. With `lock` no other order of this
    creative is checked before the transaction ends."""
    if lock:
        lock_creative(tx, criteria)
    candidate_indexes = [index for index, person in enumerate(people) if person.refusal in (None, SAME_ADDRESS)]
    if not candidate_indexes:
        return list(people)
    inline_values = {
        "keys": [people[index].address_key for index in candidate_indexes],
        "surnames": [people[index].surname for index in candidate_indexes],
        "emails": [people[index].email for index in candidate_indexes],
    }
    refusals = {
        candidate_indexes[row.position - 1]: row.refusal
        for row in tx.execute(SELECT_INLINE_REFUSALS, query_values(criteria) | inline_values)
    }
    checked_people: list[Person] = []
    used_address_keys: set[str | None] = set()
    for index, person in enumerate(people):
        refusal = person.refusal
        if refusals.get(index) == SUPPRESSED:
            refusal = SUPPRESSED
        elif refusal is None:
            refusal = SAME_ADDRESS if person.address_key in used_address_keys else refusals.get(index)
            used_address_keys.add(person.address_key)
        checked_people.append(replace(person, refusal=refusal))
    return checked_people


def count_repeated_items(tx: Tx, criteria: AudienceCriteria) -> int:
    """How many items of an existing order would repeat those of another."""
    lock_creative(tx, criteria)
    return 0 if criteria.allows_repeats else int(tx.execute(COUNT_REPEATED_ITEMS, query_values(criteria)).scalar_one())


def lock_creative(tx: Tx, criteria: AudienceCriteria) -> None:
    """Wait until no other transaction checks the audience of this creative, unless it may repeat."""
    if not criteria.allows_repeats:
        tx.execute(LOCK_CREATIVE, {"creative": f"{criteria.account_id}:{criteria.creative_key}"})


def query_values(criteria: AudienceCriteria) -> dict[str, Any]:
    """The parameters of this module's statements, and of those built on `CLASSIFIED_SQL`."""
    prices = {country: cents for country, cents in criteria.tariff.by_country.items() if country != EVERYWHERE_ELSE}
    return {
        "account_id": criteria.account_id,
        "sub_account_id": criteria.sub_account_id,
        "mode": criteria.mode,
        "lists": list(criteria.list_ids),
        "creative_key": criteria.creative_key,
        "allows_repeats": criteria.allows_repeats,
        "repeats_from": criteria.mails_at - REPEAT_WINDOW,
        "repeats_until": criteria.mails_at + REPEAT_WINDOW,
        "inline_keys": list(criteria.inline_keys),
        "order_id": criteria.order_id,
        "countries": list(prices),
        "cents": list(prices.values()),
        "cents_elsewhere": criteria.tariff.by_country.get(EVERYWHERE_ELSE),
        "no_address": NO_ADDRESS,
        "half_an_address": INCOMPLETE_ADDRESS,
        "no_price": NO_PRICE,
        "sample": SAMPLE_ADDRESS,
        "suppressed": SUPPRESSED,
        "same_address": SAME_ADDRESS,
        "repeated": RECENTLY_MAILED,
    }


def read_person(columns: Mapping[Any, Any]) -> Person:
    plain_values = {name: columns[name] for name in PERSON_COLUMNS if name not in (*CUSTOM_FIELDS, *DERIVED_COLUMNS)}
    return Person(**plain_values, **get_derived_fields(columns), custom=tuple(columns[name] for name in CUSTOM_FIELDS))
