"""Mailing lists, the people on them, and whom nothing is sent to."""

from quillpost.dashboard.lists import (
    importing,
    keeping,
    one_list,
    overview,
    pasting,
    person,
    radius,
    suppression,
)

# A list's own pages last: the others' paths would be taken for a list's number.
ROUTERS = (
    overview.router,
    suppression.router,
    radius.router,
    importing.router,
    pasting.router,
    person.router,
    keeping.router,
    one_list.router,
)
