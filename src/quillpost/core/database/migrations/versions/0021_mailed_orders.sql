-- An order is mailed when every piece that will be mailed was handed to the carrier, or seen by it.
alter table orders drop constraint orders_status_check;
alter table orders add constraint orders_status_check check (status in
    ('reviewing', 'processing', 'printing', 'mailed', 'fulfilled', 'cancelled', 'paused', 'error'));

alter table items add column is_mailed boolean not null default false;   -- the carrier has it, or had it
alter table orders add column n_mailed integer not null default 0;

-- What the carrier has seen, or lost; and what lies in a batch that was handed to it.
update items i set is_mailed = true
 where i.status not in ('Processing', 'Printed', 'Failed')
    or i.status = 'Printed' and exists (
       select 1 from prints p join batches b on b.id = p.batch_id
        where p.item_id = i.id and not p.superseded and b.status = 'mailed')
    or i.status = 'Failed' and exists (
       select 1 from facts f
        where f.item_id = i.id and f.kind = 'item.status' and f.current = 'Failed'
          and (f.previous not in ('Processing', 'Printed') or f.seen_at is not null));

-- What goes abroad is over once it is mailed; it used to be over as soon as it was printed.
update items i set is_over = false
  from orders o
 where o.id = i.order_id and o.status in ('processing', 'printing')
   and i.status = 'Printed' and i.is_over and not i.is_mailed;

update orders o set n_mailed = c.mailed, n_over = c.over
  from (select order_id, count(*) filter (where is_mailed) as mailed, count(*) filter (where is_over) as over
          from items where is_mailed or is_over or status = 'Printed' group by order_id) c
 where o.id = c.order_id and (o.n_mailed, o.n_over) <> (c.mailed, c.over);

with mailed as (
    update orders o set status = 'mailed', updated_at = now()
      from orders was
     where was.id = o.id and o.status in ('processing', 'printing')
       and o.n_mailed > 0 and o.recipient_count = o.n_mailed + o.n_failed - o.n_lost
    returning o.id, o.account_id, o.sub_account_id, o.mode, was.status as previous),
told as (
    insert into facts (account_id, sub_account_id, mode, kind, order_id, order_status, previous, current, at)
    select account_id, sub_account_id, mode, 'order.status', id, 'mailed', previous, 'mailed', now()
      from mailed order by id
    returning id)
insert into fact_queue (fact_id) select id from told;
