-- What the service adds to the job engine's tables (procrastinate.sql).

-- Both find a job that is scheduled already, among all jobs of three days.
create index quillpost_jobs_wake on procrastinate_jobs (task_name, scheduled_at) where status = 'todo';
create index procrastinate_jobs_alike on procrastinate_jobs (task_name, args)
    where status in ('todo', 'doing', 'failed');

grant select, insert, update, delete on
    procrastinate_jobs, procrastinate_events, procrastinate_workers, procrastinate_periodic_defers
    to quillpost_worker;
grant select, insert on procrastinate_jobs to quillpost_app;
grant insert on procrastinate_events to quillpost_app;

-- The sequences of all areas before this one, the engine's included.
grant usage, select on all sequences in schema public to quillpost_app, quillpost_worker;
