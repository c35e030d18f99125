"""Everything that workers do, by name, and how often they do it of their own accord."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from quillpost.accounts import service as account_service
from quillpost.accounts.rate_limits.service import delete_expired_rate_limits
from quillpost.accounts.users.tasks import delete_expired_access
from quillpost.app.container import Container, Limits
from quillpost.core.database import search
from quillpost.core.files import delete_expired_files, delete_orphaned_files
from quillpost.core.jobs import Task
from quillpost.fulfillment import models as fulfillment_models
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.notifications import service as notification_service
from quillpost.notifications.webhooks import deliveries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks import tasks as webhook_tasks
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations.service import AutomationContext
from quillpost.orders.automations.tasks import send_due
from quillpost.orders.giftcards.tasks import RETURN_CARDS_TASK, CardReturns
from quillpost.orders.models import FieldErrors, OrderRequest
from quillpost.orders.requests import service as request_service
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK
from quillpost.orders.tasks import enqueue_missing_materializations, materialize_order, verify_addresses
from quillpost.privacy import service as privacy_service
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure import service as erasure_service
from quillpost.privacy.erasure.service import FINISH_ERASURES
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.verification.service import delete_expired_results as delete_expired_verifications
from quillpost.recipients.verification.tasks import VERIFY_TASK


def build_tasks(container: Container) -> list[Task]:
    db, production_context, storage = container.db, container.production, container.storage

    def with_current_time(work: Callable[..., object], *bound_args: object) -> Callable[..., None]:
        def run(**args: int) -> None:
            work(*bound_args, **args, now=container.clock())

        return run

    def with_retention(work: Callable[..., object], setting: str) -> Callable[..., None]:
        return with_current_time(partial(work, db, retention_days=container.retention_days[setting]))

    modes_that_need_credit = {mode for mode, environment in container.environments.items() if environment.needs_credit}
    sweep = with_current_time(review_service.sweep_due_orders, production_context)
    pool = with_current_time(batch_service.pool_due_orders, production_context)
    poll_tracking = with_current_time(tracking_service.poll_carriers, db, container.environments)
    close_tracking = with_current_time(tracking_tasks.close_items, db, container.environments)
    send_automations = partial(send_due, build_automation_context(container))
    import_context = import_tasks.ImportContext(db, storage.store, container.clock)
    delete_old_imports = partial(
        import_tasks.delete_expired_imports, import_context, retention=container.import_retention
    )
    finish_erasures = with_current_time(erasure_service.finish_erasures, db, container.encryptor, storage.store)
    process_do_not_mail = partial(privacy_tasks.process_requests, db, container.encryptor, clock=container.clock)
    find_dates = with_current_time(
        partial(automation_queries.insert_due_dates, db, zone=container.environments["live"].zone)
    )
    return_giftcards = with_current_time(CardReturns(db, production_context.giftcard_issuers).return_cards)
    index_search = partial(search.index_backlog, db)

    def verify_new_addresses() -> None:
        if container.verification is not None:
            verify_addresses(container.verification)

    return [
        Task(MATERIALIZE_TASK, with_current_time(partial(materialize_order, db, needs_credit=modes_that_need_credit))),
        Task(SWEEP_TASK, sweep),
        Task(fulfillment_models.POOL, pool),
        Task(
            fulfillment_models.COMPOSE,
            with_current_time(batch_tasks.compose_batch, production_context),
            queue=fulfillment_models.COMPOSE_QUEUE,
        ),
        Task(
            fulfillment_models.HAND_OVER,
            with_current_time(batch_tasks.hand_over_batch, production_context),
            queue=fulfillment_models.HAND_OVER_QUEUE,
        ),
        Task(fulfillment_models.POLL_PRINTER, with_current_time(batch_tasks.poll_printer, production_context)),
        Task(tracking_service.POLL_TASK, poll_tracking),
        Task(tracking_tasks.CLOSE_TASK, close_tracking),
        Task(webhook_tasks.REPLAY_TASK, with_current_time(webhook_tasks.continue_replay, db)),
        Task(
            lead_service.REPORT_PURCHASE_TASK,
            with_current_time(lead_service.report_purchase, db, container.lead_providers["live"]),
        ),
        Task(RETURN_CARDS_TASK, return_giftcards),
        Task(
            import_tasks.IMPORT_TASK,
            partial(import_tasks.run_import, import_context),
            queue=import_tasks.IMPORT_QUEUE,
            max_retries=6,
        ),
        Task(VERIFY_TASK, verify_new_addresses),
        Task(search.INDEX_TASK, index_search),
        Task(automation_queries.SEND_TASK, send_automations),
        Task(automation_queries.FIND_DATES_TASK, find_dates),
        Task(FINISH_ERASURES, finish_erasures),
        Task(privacy_tasks.PROCESS_REQUESTS, process_do_not_mail),
        # Backstops: whatever a wake-up that was lost should have started.
        Task("orders.resume_materialization", partial(enqueue_missing_materializations, db), cron="* * * * *"),
        Task("imports.resume", partial(import_tasks.resume_imports, import_context), cron="* * * * *"),
        Task("fulfillment.sweep_due_orders_periodic", sweep, cron="* * * * *"),
        Task("fulfillment.pool_due_orders_periodic", pool, cron="* * * * *"),
        Task("fulfillment.resume_batches", partial(batch_tasks.resume_batches, production_context), cron="* * * * *"),
        Task("tracking.poll_carriers_periodic", poll_tracking, cron="* * * * *"),
        Task("tracking.close_items_periodic", close_tracking, cron="11 * * * *"),
        Task("webhooks.resume_replays", partial(webhook_tasks.resume_replays, db), cron="* * * * *"),
        Task("leads.resume_purchase_reports", partial(lead_service.enqueue_unreported_purchases, db), cron="* * * * *"),
        Task("giftcards.return_void_cards_periodic", return_giftcards, cron="* * * * *"),
        Task("search.index_backlog_periodic", index_search, cron="* * * * *"),
        Task("verification.verify_addresses_periodic", verify_new_addresses, cron="* * * * *"),
        Task("automations.send_due_periodic", send_automations, cron="* * * * *"),
        Task("do_not_mail.process_requests_periodic", process_do_not_mail, cron="* * * * *"),
        Task("automations.find_due_dates_periodic", find_dates, cron="7 * * * *"),
        Task("privacy.finish_erasures_periodic", finish_erasures, cron="*/5 * * * *"),
        # Housekeeping.
        Task(
            "webhooks.maintain_partitions",
            with_retention(deliveries.maintain_partitions, "keep_deliveries_days"),
            cron="17 * * * *",
        ),
        Task(
            "webhooks.fail_expired_deliveries",
            with_current_time(webhook_service.give_up_failing, db),
            cron="*/10 * * * *",
        ),
        Task("files.delete_expired", with_current_time(delete_expired_files, db, storage), cron="23 * * * *"),
        Task("files.delete_orphaned", with_current_time(delete_orphaned_files, db, storage), cron="37 3 * * *"),
        Task(
            "idempotency.delete_expired_keys",
            with_current_time(account_service.delete_expired_idempotency_keys, db),
            cron="29 * * * *",
        ),
        Task(
            "stored_sends.delete_expired",
            with_retention(request_service.delete_expired_sends, "keep_stored_sends_days"),
            cron="41 * * * *",
        ),
        Task("imports.delete_expired", with_current_time(delete_old_imports), cron="47 * * * *"),
        Task("verification.delete_expired", with_current_time(delete_expired_verifications, db), cron="47 * * * *"),
        Task(
            "notifications.delete_expired",
            with_retention(notification_service.delete_expired_notifications, "keep_notices_days"),
            cron="43 * * * *",
        ),
        Task(
            "privacy.delete_expired",
            with_current_time(privacy_tasks.delete_overdue, db, container.retention_days),
            cron="53 * * * *",
        ),
        Task(
            "privacy.delete_removed_handwriting",
            partial(privacy_service.delete_removed_handwriting, db),
            cron="23 * * * *",
        ),
        Task("users.delete_expired_access", with_current_time(delete_expired_access, db), cron="19 * * * *"),
        Task("accounts.delete_expired_rate_limits", partial(delete_expired_rate_limits, db), cron="31 * * * *"),
    ]


def build_automation_context(container: Container) -> AutomationContext:
    return AutomationContext(
        orders=container.orders,
        read_send=partial(_read_stored_send, container.limits),
        zone=container.environments["live"].zone,
    )


def _read_stored_send(limits: Limits, text: str, now: datetime) -> tuple[OrderRequest, FieldErrors]:
    """Automations store the body of a send, which the API parses."""
    # Imported when the first is read: the API takes a third of the time that it takes to load everything, and a
    # worker or a command has no other use for it.
    from quillpost.web.api.automations.schemas import read_stored_send  # noqa: PLC0415

    return read_stored_send(limits, text, now)
