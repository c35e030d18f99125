"""The print room, for those who run the service."""

from quillpost.dashboard.print_room import (
    accounts,
    batch_files,
    batches,
    brands,
    crediting,
    feeds,
    held,
    marking,
    prices,
    receivers,
    reprinting,
    stopped_jobs,
    today,
)

ROUTERS = (
    today.router,
    batches.router,
    batch_files.router,
    marking.router,
    reprinting.router,
    held.router,
    feeds.router,
    receivers.router,
    stopped_jobs.router,
    accounts.router,
    crediting.router,
    brands.router,
    prices.router,
)
