"""Styles of an account's own whose sheets nobody had to read: the letters are those of one of our hands."""

from functools import cache

import numpy as np

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.orders.handwriting import service
from quillpost.orders.handwriting.models import SheetLetters
from quillpost.rendering.handwriting.letterforms import read_forms
from quillpost.rendering.handwriting.sheet.layout import BoxKind, sheet_pages
from quillpost.rendering.handwriting.sheet.models import WrittenChar
from support.factories import Account

STROKES = [[[20, 90], [60, 20], [90, 100], [130, 40], [170, 95], [240, 60], [330, 70]], [[100, 110], [300, 104]]]
"""A signature as it is drawn on a screen."""


@cache
def letters_of(name: str = "owen") -> SheetLetters:
    """Each box with another form of its letter where there is one."""
    hand, chars = read_forms(name), []
    for page in sheet_pages():
        for box in page.boxes:
            if box.kind is BoxKind.CHAR:
                forms = hand.forms[box.text]
                lines = [line.knots for line in forms[box.instance_number % len(forms)].lines]
                left = min(float(line[:, 0].min()) for line in lines)
                strokes = tuple(line - np.array([left, 0.0]) for line in lines)
                chars.append(WrittenChar(box.text, box.instance_number, strokes, hand.pen))
    return SheetLetters(tuple(chars))


def store_letters(container: Container, account: Account, name: str = "Dana") -> int:
    """A style whose letters wait to be accepted."""
    caller = Caller(account.id, "test", account.sub_account_id)
    with container.db.transaction(Tenant(account.id, account.sub_account_id)) as tx:
        return service.create_hand(
            tx, caller, name, letters_of(), sub_account_id=account.sub_account_id, now=container.clock()
        ).id


def make_style(container: Container, account: Account, name: str = "Dana") -> int:
    number = store_letters(container, account, name)
    accepted = account.post(f"/handwriting-styles/{number}/accept", {})
    assert (accepted.status_code, accepted.json()["is_ready"]) == (200, True), accepted.text
    return number


def sign(account: Account, name: str = "Dana") -> int:
    made = account.post("/signatures", {"name": name, "strokes": STROKES})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])
