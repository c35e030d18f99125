"""Everything that workers do, by name, and how often they do it of their own accord."""

from collections.abc import Callable
from datetime import datetime
from functools import cache, partial

from quillpost.accounts import kept_answers
from quillpost.accounts import service as accounts
from quillpost.audience.address_verdicts import forget_expired as forget_expired_verdicts
from quillpost.audience.importing import filling
from quillpost.audience.importing import upkeep as imports_upkeep
from quillpost.audience.rejudging import REJUDGE
from quillpost.audience.verifying import VERIFY
from quillpost.automations import due
from quillpost.automations.drafting import Means, ReadSend
from quillpost.automations.sending import send_due
from quillpost.creative.shelf import forget_expired, forget_orphans
from quillpost.database import search
from quillpost.fulfilment import pooling, production, review, steps
from quillpost.giftcards.giving_back import Returns
from quillpost.giftcards.voiding import GIVE_BACK
from quillpost.jobs import Task
from quillpost.leads import buying
from quillpost.notices import upkeep
from quillpost.orders import stored
from quillpost.orders.calls import Call, Faults
from quillpost.orders.materialising import MATERIALISE, materialise, materialise_again
from quillpost.orders.rejudged_pieces import rejudge
from quillpost.orders.service import SWEEP
from quillpost.orders.verified_pieces import verify
from quillpost.parts import Limits, Parts
from quillpost.people.upkeep import forget_ended
from quillpost.privacy import do_not_mail, finishing, forgetting
from quillpost.privacy.erasing import FINISH
from quillpost.tracking import closing
from quillpost.tracking import service as tracking
from quillpost.webhooks import days, failing, replaying


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
    pool = timed(pooling.pool, press)
    track = timed(tracking.poll, db, parts.worlds)
    close = timed(closing.close, db, parts.worlds)
    automate = partial(send_due, automation_means(parts))
    importing = filling.Means(db, shelf.store, parts.clock)
    forget_imports = partial(imports_upkeep.forget_old, importing, keep=parts.keep_imports)
    forget_people = timed(finishing.finish, db, parts.sealer, shelf.store)
    heed_requests = partial(do_not_mail.take_in, db, parts.sealer, clock=parts.clock)
    find_dates = timed(partial(due.find_dates, db, zone=parts.worlds["live"].zone))
    give_back = timed(Returns(db, press.issuers).give_back)
    rejudge_old = partial(rejudge, db, parts.clock)
    index_words = partial(search.index_new, db)

    def verify_new() -> None:
        if parts.verifying is not None:
            verify(parts.verifying)

    return [
        Task(MATERIALISE, timed(partial(materialise, db, needs_credit=modes_that_need_credit))),
        Task(SWEEP, sweep),
        Task(steps.POOL, pool),
        Task(steps.COMPOSE, timed(production.compose, press), queue=steps.COMPOSE_QUEUE),
        Task(steps.HAND_OVER, timed(production.hand_over, press), queue=steps.HAND_OVER_QUEUE),
        Task(steps.FOLLOW, timed(production.follow, press)),
        Task(tracking.POLL, track),
        Task(closing.CLOSE, close),
        Task(replaying.REPLAY, timed(replaying.go_on, db)),
        Task(buying.TELL, timed(buying.tell, db, parts.leads["live"])),
        Task(GIVE_BACK, give_back),
        Task(filling.FILL, partial(filling.fill, importing), queue=filling.QUEUE, retries=6),
        Task(VERIFY, verify_new),
        Task(search.INDEX, index_words),
        Task(REJUDGE, rejudge_old),
        Task(due.SEND, automate),
        Task(due.FIND_DATES, find_dates),
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
        Task("webhooks.replay_again", partial(replaying.go_on_again, db), every="* * * * *"),
        Task("leads.tell_again", partial(buying.tell_again, db), every="* * * * *"),
        Task("giftcards.give_back_again", give_back, every="* * * * *"),
        Task("search.index_again", index_words, every="* * * * *"),
        Task("audience.verify_again", verify_new, every="* * * * *"),
        Task("audience.rejudge_again", rejudge_old, every="* * * * *"),
        Task("automations.send_again", automate, every="* * * * *"),
        Task("do_not_mail.take_in_again", heed_requests, every="* * * * *"),
        Task("automations.find_dates_again", find_dates, every="7 * * * *"),
        Task("privacy.finish_again", forget_people, every="*/5 * * * *"),
        # Housekeeping.
        Task("webhooks.keep_days", kept(days.keep, "keep_deliveries_days"), every="17 * * * *"),
        Task("webhooks.give_up", timed(failing.give_up, db), every="*/10 * * * *"),
        Task("files.forget_expired", timed(forget_expired, db, shelf), every="23 * * * *"),
        Task("files.forget_orphans", timed(forget_orphans, db, shelf), every="37 3 * * *"),
        Task("idempotency.forget_expired", timed(kept_answers.forget_expired, db), every="29 * * * *"),
        Task(
            "stored_sends.forget_expired",
            kept(stored.forget_expired, "keep_stored_sends_days"),
            every="41 * * * *",
        ),
        Task("audience.forget_imports", timed(forget_imports), every="47 * * * *"),
        Task("audience.forget_verdicts", timed(forget_expired_verdicts, db), every="47 * * * *"),
        Task("notices.forget_old", kept(upkeep.forget_old, "keep_notices_days"), every="43 * * * *"),
        Task("privacy.forget_old", timed(forgetting.forget_old, db, parts.retention), every="53 * * * *"),
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
        from quillpost.api.v2 import automation_body  # noqa: PLC0415

        return automation_body.reader(limits)

    def read(text: str, now: datetime) -> tuple[Call, Faults]:
        return reader()(text, now)

    return read
