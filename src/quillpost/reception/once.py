"""Forms that do something once, however often they are sent: a page that shows a secret answers the form
itself, and whoever loads it again sends the form again."""

import re
import secrets
from hashlib import sha256

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.kit.errors import Conflict, Forbidden
from quillpost.people.sessions import SignedIn
from quillpost.reception.csrf import STALE

FIELD = "once"
KEY = re.compile(r"[A-Za-z0-9_-]{22}")
A_DAY = 24 * 60 * 60

COUNT = sa.text("select used from count_call(:key, :seconds)")


class DoneAlready(Conflict):
    """The same form once more. `leads_to` is where its reader finds what came of it."""

    def __init__(self, instead: str, leads_to: str) -> None:
        super().__init__(f"This was done already, and was not done again. {instead}")
        self.leads_to = leads_to


def new_key() -> str:
    """For the form of the page that is shown now."""
    return secrets.token_urlsafe(16)


def do_once(tx: Tx, who: SignedIn, key: str, *, instead: str, leads_to: str) -> None:
    """`DoneAlready`, in these words, if the form with this key was sent before, and what it asked for was
    done. Counted in the transaction of the act itself: of two at once one waits for the other, and what is
    refused may be sent again."""
    if not KEY.fullmatch(key):
        raise Forbidden(STALE)
    # The digest: what a browser sends is not kept.
    counted = f"day:once:{who.person_id}:{sha256(key.encode()).hexdigest()}"
    if tx.execute(COUNT, {"key": counted, "seconds": A_DAY}).scalar_one() > 1:
        raise DoneAlready(instead, leads_to)
