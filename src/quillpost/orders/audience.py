"""Who of saved lists is mailed, and why the others are not: one text of SQL, whoever asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, Tariff
from quillpost.core.database import Tx
from quillpost.recipients.addresses.service import DOUBTFUL, HALF_AN_ADDRESS, HOME, NO_ADDRESS, UNDELIVERABLE
from quillpost.recipients.queries import judged_of
from quillpost.recipients.rules import (
    CUSTOM,
    JUDGED,
    NO_PRICE,
    REPEATED,
    SAME_ADDRESS,
    SAMPLE,
    SUPPRESSED,
    TEXTS,
    Person,
)

DOUBTS_TOLD = 3
"""Reasons, of the many that there may be, that a warning names."""

NOT_AGAIN_WITHIN = timedelta(hours=36)

PERSON_COLUMNS = (*TEXTS, "dob", "anniversary", *JUDGED, "absentee_address")
"""What an item takes over from a recipient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What decides who of the lists is mailed.

    `mails_at` is when the order is due; `inline_keys` are the address keys of inline recipients who are
    mailed, and come first. `order_id` is the order's own, once it has one.
    """

    account_id: int
    sub_account_id: int | None
    mode: str
    list_ids: Sequence[int]
    creative_key: UUID | None
    allow_duplicates: bool
    mails_at: datetime
    tariff: Tariff
    inline_keys: Sequence[str] = ()
    order_id: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of the lists are mailed at what cost, and how many are not, by reason. Of those who are
    mailed, how many have a doubtful address, and a few of the reasons."""

    pieces: int
    cents: int
    undeliverable: int
    duplicates: int
    suppressed: int
    samples: int = 0
    doubtful: int = 0
    doubts: tuple[str, ...] = ()


def _repeats(key: str) -> str:
    """Whether the same piece goes to the address of this key a short time before or after."""
    return f"""exists (
        select 1 from items i join orders o on o.id = i.order_id
         where i.account_id = :account_id and i.mode = :mode and i.address_key = {key}
           and i.creative_key = cast(:creative_key as uuid)
           and i.sub_account_id is not distinct from cast(:sub_account_id as bigint)
           and i.status <> 'Failed' and o.id is distinct from cast(:order_id as bigint)
           and o.due_at > :repeats_from and o.due_at < :repeats_until)"""


def lacks_parts(person: str) -> str:
    """Whether the address of this row, if there is one, is too little for the mail."""
    return f"""({person}.city is null or coalesce({person}.country, '{HOME}') = '{HOME}'
                and ({person}.province is null or {person}.postal_code is null))"""


# An address is on a list once, so doubles are met only between lists, or where newer rules found some. Two
# with the same address have the same country and so the same price, and a barred address bars both; but an
# e-mail bars one person alone, a household one family, and a move is one person's. So of doubles the first
# who can be mailed to stands for the address.
CLASSIFIED = f"""
    barred as materialized (
        select id from suppressed_recipients(cast(:sub_account_id as bigint), :mode, :lists) as found (id)),
    doubled as (
        select address_key, min(id) as first_id from recipients r
         where (cardinality(cast(:lists as bigint[])) > 1
                or exists (select 1 from recipients
                            where mailing_list_id = any(:lists) and address_rules < 0))
           and mailing_list_id = any(:lists)
           and account_id = :account_id and address_key is not null and not {lacks_parts("r")}
           and deliverability is distinct from '{UNDELIVERABLE}' and not (is_sample and :mode = 'live')
           and not exists (select 1 from barred b where b.id = r.id)
         group by address_key having count(*) > 1),
    listed as (
        select id, mailing_list_id, {", ".join(name for name in PERSON_COLUMNS if name != "country")},
               coalesce(country, '{HOME}') as country, is_sample, moved_key
          from recipients where mailing_list_id = any(:lists) and account_id = :account_id),
    classified as (
        select r.*, coalesce(price.cents, cast(:cents_elsewhere as integer)) as cents,
               case when r.address is null then :no_address
                    when {lacks_parts("r")} then :half_an_address
                    when r.is_sample and :mode = 'live' then :sample
                    when r.deliverability = '{UNDELIVERABLE}' then r.reasons[1]
                    when coalesce(price.cents, cast(:cents_elsewhere as integer)) is null
                    then replace(:no_price, '{{}}', r.country)
                    when b.id is not null then :suppressed
                    when r.id <> d.first_id
                      or r.address_key in (select unnest(cast(:inline_keys as text[]))) then :same_address
                    when not :allow_duplicates and {_repeats("r.address_key")} then :repeated
               end as refusal
          from listed r
          left join barred b on b.id = r.id
          left join doubled d on d.address_key = r.address_key
          left join unnest(cast(:countries as text[]), cast(:cents as integer[])) as price (country, cents)
            on price.country = r.country)
"""
"""The lists' people with the price of a piece there and, where they are not mailed, the reason."""

# Of reasons that speak of single addresses there may be as many as people: they are counted as one.
TALLY = sa.text(
    f"""
    with {CLASSIFIED}
    select case when refusal is null
                  or refusal in (:same_address, :repeated, :suppressed, :sample) then refusal
                else '{UNDELIVERABLE}' end as refusal,
           count(*) as people, sum(cents) as cents,
           count(*) filter (where deliverability = '{DOUBTFUL}') as doubtful
      from classified group by 1
    """
)

DOUBTS = sa.text(
    f"""
    select why from (
        select reasons[1] as why, id from recipients
         where mailing_list_id = any(:lists) and account_id = :account_id and deliverability = '{DOUBTFUL}'
         order by id limit 1000) doubted
     where why is not null group by why order by min(id) limit :most
    """
)
"""A few of the reasons why people of lists are doubtful."""

FIRST = sa.text(
    f"""
    with {CLASSIFIED}
    select * from classified where refusal is null order by mailing_list_id, id limit 1
    """
)

REFUSED_INLINE = sa.text(
    f"""
    select p.place, case when barred.place is null then :repeated else :suppressed end as refusal
      from unnest(cast(:keys as text[])) with ordinality as p (key, place)
      left join suppressed_places(cast(:sub_account_id as bigint), :mode, :keys, cast(:surnames as text[]),
                                  cast(:emails as text[])) as barred (place) on barred.place = p.place
     where barred.place is not null or (not :allow_duplicates and {_repeats("p.key")})
    """
)

REPEATED_ITEMS = sa.text(
    f"""
    select count(*) from items r
     where r.order_id = :order_id and r.status = 'Processing' and r.address_key is not null
       and {_repeats("r.address_key")}
    """
)

# Two sends of one creative at the same moment would not see each other's pieces.
TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended(:creative, 0))")


def tally(tx: Tx, reach: Reach) -> Tally:
    """Of the lists alone; nothing is stored."""
    mailed, cents, doubtful = 0, 0, 0
    refused = {SAME_ADDRESS: 0, REPEATED: 0, SUPPRESSED: 0, SAMPLE: 0}
    undeliverable = 0
    for row in tx.execute(TALLY, values(reach)):
        if row.refusal is None:
            mailed, cents, doubtful = row.people, row.cents, row.doubtful
        elif row.refusal in refused:
            refused[row.refusal] = row.people
        else:
            undeliverable += row.people
    return Tally(
        pieces=mailed,
        cents=cents,
        undeliverable=undeliverable,
        duplicates=refused[SAME_ADDRESS] + refused[REPEATED],
        suppressed=refused[SUPPRESSED],
        samples=refused[SAMPLE],
        doubtful=doubtful,
        doubts=_doubts(tx, reach) if doubtful else (),
    )


def _doubts(tx: Tx, reach: Reach) -> tuple[str, ...]:
    asked = {"lists": list(reach.list_ids), "account_id": reach.account_id, "most": DOUBTS_TOLD}
    return tuple(tx.execute(DOUBTS, asked).scalars())


def first_person(tx: Tx, reach: Reach) -> Person | None:
    """The first of the lists who would be mailed."""
    row = tx.execute(FIRST, values(reach)).first()
    return None if row is None else person_of(row._mapping)


def refused_inline(tx: Tx, people: Sequence[Person], reach: Reach, *, lock: bool) -> list[Person]:
    """The same people; those who must not be mailed, or not again so soon, now carry the refusal.

    With `lock` no other order of this creative is judged before the transaction ends.
    """
    if lock:
        take_turns(tx, reach)
    open_places = [place for place, person in enumerate(people) if person.refusal in (None, SAME_ADDRESS)]
    if not open_places:
        return list(people)
    asked = {
        "keys": [people[place].address_key for place in open_places],
        "surnames": [people[place].surname for place in open_places],
        "emails": [people[place].email for place in open_places],
    }
    found = {
        open_places[row.place - 1]: row.refusal for row in tx.execute(REFUSED_INLINE, values(reach) | asked)
    }
    return _each_address_once(people, found)


def _each_address_once(people: Sequence[Person], found: Mapping[int, str]) -> list[Person]:
    """Who is barred leaves the address to the next; a repeat is one of the address, so of the first there."""
    judged: list[Person] = []
    taken: set[str | None] = set()
    for place, person in enumerate(people):
        refusal = person.refusal
        if found.get(place) == SUPPRESSED:
            refusal = SUPPRESSED
        elif refusal is None:
            refusal = SAME_ADDRESS if person.address_key in taken else found.get(place)
            taken.add(person.address_key)
        judged.append(replace(person, refusal=refusal))
    return judged


def repeated_items(tx: Tx, reach: Reach) -> int:
    """How many pieces of an order there is already would repeat another's; judged as if it were new."""
    take_turns(tx, reach)
    return 0 if reach.allow_duplicates else int(tx.execute(REPEATED_ITEMS, values(reach)).scalar_one())


def take_turns(tx: Tx, reach: Reach) -> None:
    """Wait until no other transaction judges whom this creative may reach; where it matters."""
    if not reach.allow_duplicates:
        tx.execute(TAKE_TURNS, {"creative": f"{reach.account_id}:{reach.creative_key}"})


def may_repeat(order_type: str, *, allow_duplicates: bool) -> bool:
    """Whether one creative may reach an address again at once; a gift card always may."""
    return allow_duplicates or order_type == "giftcard"


def values(reach: Reach) -> dict[str, Any]:
    """What the statements of this module, and those built on `CLASSIFIED`, want to know."""
    prices = {place: cents for place, cents in reach.tariff.by_country.items() if place != EVERYWHERE_ELSE}
    return {
        "account_id": reach.account_id,
        "sub_account_id": reach.sub_account_id,
        "mode": reach.mode,
        "lists": list(reach.list_ids),
        "creative_key": reach.creative_key,
        "allow_duplicates": reach.allow_duplicates,
        "repeats_from": reach.mails_at - NOT_AGAIN_WITHIN,
        "repeats_until": reach.mails_at + NOT_AGAIN_WITHIN,
        "inline_keys": list(reach.inline_keys),
        "order_id": reach.order_id,
        "countries": list(prices),
        "cents": list(prices.values()),
        "cents_elsewhere": reach.tariff.by_country.get(EVERYWHERE_ELSE),
        "no_address": NO_ADDRESS,
        "half_an_address": HALF_AN_ADDRESS,
        "no_price": NO_PRICE,
        "sample": SAMPLE,
        "suppressed": SUPPRESSED,
        "same_address": SAME_ADDRESS,
        "repeated": REPEATED,
    }


def person_of(columns: Mapping[Any, Any]) -> Person:
    """Someone from the columns of a recipient or of an item."""
    plain = {name: columns[name] for name in PERSON_COLUMNS if name not in (*CUSTOM, *JUDGED)}
    return Person(**plain, **judged_of(columns), custom=tuple(columns[name] for name in CUSTOM))
