grant select, insert, update, delete on
    procrastinate_jobs, procrastinate_events, procrastinate_workers, procrastinate_periodic_defers
    to quillpost_worker;
grant insert, select on procrastinate_jobs to quillpost_app;
grant insert on procrastinate_events to quillpost_app;
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;

-- For asking whether a wake-up is booked already.
create index quillpost_jobs_wake on procrastinate_jobs (task_name, scheduled_at) where status = 'todo';
