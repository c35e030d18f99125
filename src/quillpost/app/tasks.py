"""Everything that workers do, by name, and how often they do it of their own accord."""

from collections.abc import Callable
from datetime import datetime
from functools import cache, partial

from quillpost.accounts import service as account_service
from quillpost.accounts import service as accounts
from quillpost.accounts.users.tasks import forget_ended
from quillpost.app.container import Limits, Parts
from quillpost.core.database import search
from quillpost.core.jobs import Task
from quillpost.core.stored_files import forget_expired, forget_orphans
from quillpost.fulfillment import batching, production, review
from quillpost.fulfillment import models as fulfillment_models
from quillpost.fulfillment.tracking import service as tracking
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.notifications import digests
from quillpost.notifications.webhooks import deliveries, failures, replay
from quillpost.orders import stored
from quillpost.orders.automations import queries as automation_queries
from quillpost.orders.automations.drafts import Means, ReadSend
from quillpost.orders.automations.tasks import send_due
from quillpost.orders.create import SWEEP
from quillpost.orders.giftcards.returns import GIVE_BACK, Returns
from quillpost.orders.mailed_items import verify
from quillpost.orders.materialization import MATERIALISE, materialise, materialise_again
from quillpost.orders.rejudged import rejudge
from quillpost.orders.requests import Call, Faults
from quillpost.privacy import do_not_mail, erasure, retention
from quillpost.privacy.erasure import FINISH
from quillpost.recipients.imports import retention as imports_upkeep
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.leads import service as lead_service
from quillpost.recipients.rejudging import REJUDGE
from quillpost.recipients.verification.service import forget_expired as forget_expired_verdicts
from quillpost.recipients.verification.tasks import VERIFY


def tasks(parts: Parts) -> list[Task]:
    """Everything that workers do."""
    db, press, shelf = parts.db, parts.press, parts.shelf

    def timed(do: Callable[..., object], *known: object) -> Callable[..., None]:
        """The work with the moment at which it runs."""

        def run(**args: int) -> None:
            do(*known, **args, now=parts.clock())

        return run

    def kept(do: Callable[..., object], setting: str) -> Callable[..., None]:
        """The work of whoever forgets what was kept for as many days as the setting says."""
        return timed(partial(do, db, kept_days=parts.retention[setting]))

    modes_that_need_credit = {mode for mode, world in parts.worlds.items() if world.needs_credit}
    sweep = timed(review.sweep, press)
    pool = timed(batching.pool, press)
    track = timed(tracking.poll, db, parts.worlds)
    close = timed(tracking_tasks.close, db, parts.worlds)
    automate = partial(send_due, automation_means(parts))
    importing = import_tasks.Means(db, shelf.store, parts.clock)
    forget_imports = partial(imports_upkeep.forget_old, importing, keep=parts.keep_imports)
    forget_people = timed(erasure.finish, db, parts.sealer, shelf.store)
    heed_requests = partial(do_not_mail.take_in, db, parts.sealer, clock=parts.clock)
    find_dates = timed(partial(automation_queries.find_dates, db, zone=parts.worlds["live"].zone))
    give_back = timed(Returns(db, press.issuers).give_back)
    rejudge_old = partial(rejudge, db, parts.clock)
    index_words = partial(search.index_new, db)

    def verify_new() -> None:
        if parts.verifying is not None:
            verify(parts.verifying)

    return [
        Task(MATERIALISE, timed(partial(materialise, db, needs_credit=modes_that_need_credit))),
        Task(SWEEP, sweep),
        Task(fulfillment_models.POOL, pool),
        Task(
            fulfillment_models.COMPOSE,
            timed(production.compose, press),
            queue=fulfillment_models.COMPOSE_QUEUE,
        ),
        Task(
            fulfillment_models.HAND_OVER,
            timed(production.hand_over, press),
            queue=fulfillment_models.HAND_OVER_QUEUE,
        ),
        Task(fulfillment_models.FOLLOW, timed(production.follow, press)),
        Task(tracking.POLL, track),
        Task(tracking_tasks.CLOSE, close),
        Task(replay.REPLAY, timed(replay.go_on, db)),
        Task(lead_service.TELL, timed(lead_service.tell, db, parts.leads["live"])),
        Task(GIVE_BACK, give_back),
        Task(import_tasks.FILL, partial(import_tasks.fill, importing), queue=import_tasks.QUEUE, retries=6),
        Task(VERIFY, verify_new),
        Task(search.INDEX, index_words),
        Task(REJUDGE, rejudge_old),
        Task(automation_queries.SEND, automate),
        Task(automation_queries.FIND_DATES, find_dates),
        Task(FINISH, forget_people),
        Task(do_not_mail.TAKE_IN, heed_requests),
        # Backstops: whatever a wake-up that was lost should have started.
        Task("audience.materialise_again", partial(materialise_again, db), every="* * * * *"),
        Task("audience.import_again", partial(imports_upkeep.resume, importing), every="* * * * *"),
        Task("fulfilment.sweep_again", sweep, every="* * * * *"),
        Task("fulfilment.pool_again", pool, every="* * * * *"),
        Task("fulfilment.resume", partial(production.resume, press), every="* * * * *"),
        Task("tracking.poll_again", track, every="* * * * *"),
        Task("tracking.close_again", close, every="11 * * * *"),
        Task("webhooks.replay_again", partial(replay.go_on_again, db), every="* * * * *"),
        Task("leads.tell_again", partial(lead_service.tell_again, db), every="* * * * *"),
        Task("giftcards.give_back_again", give_back, every="* * * * *"),
        Task("search.index_again", index_words, every="* * * * *"),
        Task("audience.verify_again", verify_new, every="* * * * *"),
        Task("audience.rejudge_again", rejudge_old, every="* * * * *"),
        Task("automations.send_again", automate, every="* * * * *"),
        Task("do_not_mail.take_in_again", heed_requests, every="* * * * *"),
        Task("automations.find_dates_again", find_dates, every="7 * * * *"),
        Task("privacy.finish_again", forget_people, every="*/5 * * * *"),
        # Housekeeping.
        Task("webhooks.keep_days", kept(deliveries.keep, "keep_deliveries_days"), every="17 * * * *"),
        Task("webhooks.give_up", timed(failures.give_up, db), every="*/10 * * * *"),
        Task("files.forget_expired", timed(forget_expired, db, shelf), every="23 * * * *"),
        Task("files.forget_orphans", timed(forget_orphans, db, shelf), every="37 3 * * *"),
        Task("idempotency.forget_expired", timed(account_service.forget_expired, db), every="29 * * * *"),
        Task(
            "stored_sends.forget_expired",
            kept(stored.forget_expired, "keep_stored_sends_days"),
            every="41 * * * *",
        ),
        Task("audience.forget_imports", timed(forget_imports), every="47 * * * *"),
        Task("audience.forget_verdicts", timed(forget_expired_verdicts, db), every="47 * * * *"),
        Task("notices.forget_old", kept(digests.forget_old, "keep_notices_days"), every="43 * * * *"),
        Task("privacy.forget_old", timed(retention.forget_old, db, parts.retention), every="53 * * * *"),
        Task("people.forget_ended", timed(forget_ended, db), every="19 * * * *"),
        Task("accounts.forget_windows", partial(accounts.forget_windows, db), every="31 * * * *"),
    ]


def automation_means(parts: Parts) -> Means:
    """All that automations send with."""
    return Means(
        db=parts.db,
        studio=parts.studio,
        shelf=parts.shelf,
        fetcher=parts.fetcher,
        worlds=parts.worlds,
        check_url=parts.check_url,
        read=_read_by_api(parts.limits),
        zone=parts.worlds["live"].zone,
        clock=parts.clock,
    )


def _read_by_api(limits: Limits) -> ReadSend:
    """The API reads what automations have kept."""

    @cache
    def reader() -> ReadSend:
        # With the first of them: whoever only works, or runs one command, has no other use for the API,
        # which takes a third of the time that it takes to load everything.
        from quillpost.web.api.automations import schemas as automation_schemas  # noqa: PLC0415

        return automation_schemas.reader(limits)

    def read(text: str, now: datetime) -> tuple[Call, Faults]:
        return reader()(text, now)

    return read
