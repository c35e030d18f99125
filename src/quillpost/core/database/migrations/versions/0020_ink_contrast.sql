-- Orders that were sent before were looked at by the rules of then.
alter table orders
    add column lowest_contrast double precision;     -- of its handwriting; null: all of it is easy to read
