-- A picture for one recipient alone; null: the order's own.
alter table items
    add column front_file_id uuid references files,
    add column background_file_id uuid references files;

-- Whoever removes a file asks here whether a piece still needs it; few pieces have any.
create index items_front_file on items (front_file_id) where front_file_id is not null;
create index items_background_file on items (background_file_id) where background_file_id is not null;
