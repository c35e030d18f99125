"""The first page: what happened, what needs attention, and what to do first."""

from quillpost.dashboard.home import front

ROUTERS = (front.router,)
