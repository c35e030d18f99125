"""Saves styles made from a person's sheet, and signatures."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import message_templates, own_hands, signatures
from quillpost.core.errors import Conflict, Invalid, NotFound, Refused
from quillpost.orders.handwriting import rules
from quillpost.orders.handwriting.models import LetterKey, SavedHand, SavedSignature, SheetLetters
from quillpost.orders.handwriting.queries import list_hands, list_signatures, read_hand, read_signature
from quillpost.orders.ports import OrderContext
from quillpost.orders.templates.images import limit_heavy_work
from quillpost.rendering.decoder.service import read_sheet_in_sandbox, read_signature_in_sandbox
from quillpost.rendering.handwriting.own_hands import TooFewLetters, make_own_hand
from quillpost.rendering.handwriting.sheet.models import Signature, UnreadableSheet
from quillpost.rendering.handwriting.sheet.signature import outline_drawn_signature
from quillpost.rendering.previews import render_own_sample

_MIN_PENS = 5.0  # so many pens wide or high is a signature that was drawn on a screen


def read_sheet(files: Sequence[bytes]) -> SheetLetters:
    """What the photographs and scans of a sheet show; `Invalid` where nothing can be taken from them.

    It takes seconds: no transaction may be open.
    """
    if not files:
        raise Invalid({"files": ["Choose the photos or scans of both pages."]})
    if len(files) > rules.MAX_SHEET_FILES:
        raise Invalid({"files": [f"Choose at most {rules.MAX_SHEET_FILES} files."]})
    if sum(map(len, files)) > rules.MAX_SHEET_BYTES:
        megabytes = rules.MAX_SHEET_BYTES // 1_000_000
        raise Invalid({"files": [f"The files have more than {megabytes} MB together. Choose smaller ones."]})
    with limit_heavy_work():
        letters = SheetLetters.of(read_sheet_in_sandbox(files))
    if not letters.accepted:
        # That a page is missing goes without saying where its picture can't be read.
        problems = [problem.message for problem in letters.problems if problem.picture is not None]
        raise Invalid({"files": problems or ["We found no handwriting on the sheet."]})
    return letters


def create_hand(
    tx: Tx, caller: Caller, name: str, letters: SheetLetters, *, sub_account_id: int | None, now: datetime
) -> SavedHand:
    """Its letters wait to be accepted."""
    if len(list_hands(tx)) >= rules.MAX_HANDS:
        raise Conflict(f"You have {rules.MAX_HANDS} styles of your own. Delete one first.")
    values = {
        "account_id": caller.account_id,
        "sub_account_id": sub_account_id,
        "name": rules.clean_name(name),
        "letters": rules.letters_to_bytes(letters),
        "created_at": now,
        "updated_at": now,
    }
    hand_id = tx.execute(sa.insert(own_hands).values(values).returning(own_hands.c.id)).scalar_one()
    return read_hand(tx, hand_id)


def read_letters(tx: Tx, hand_id: int) -> SheetLetters:
    query = sa.select(own_hands.c.letters).where(own_hands.c.id == hand_id, own_hands.c.deleted_at.is_(None))
    data = tx.execute(query).scalar()
    if data is None:
        raise NotFound
    return rules.letters_from_bytes(bytes(data))


def accept_letters(
    context: OrderContext, caller: Caller, hand_id: int, rejected: Collection[LetterKey] | None, *, now: datetime
) -> SavedHand:
    """Make the style without these letters; None: without the doubtful ones. A style that is ready stays as it is."""
    with context.db.transaction(build_tenant(caller)) as tx:
        hand, letters = read_hand(tx, hand_id), read_letters(tx, hand_id)
    if rejected is not None:
        letters = replace(letters, rejected=frozenset(rejected))
    if hand.is_ready:
        raise Conflict("This style is ready already. Create another to change its letters.")
    try:
        forms = make_own_hand(letters.accepted, name=hand.name).to_bytes()
    except TooFewLetters as missing:
        raise Invalid({"letters": [str(missing)]}) from None
    with limit_heavy_work():
        sample = render_own_sample(context.renderer, forms)
    with context.db.transaction(build_tenant(caller)) as tx:
        values = {"letters": rules.letters_to_bytes(letters), "forms": forms, "sample": sample, "updated_at": now}
        is_waiting = (own_hands.c.id == hand_id, own_hands.c.forms.is_(None), own_hands.c.deleted_at.is_(None))
        if not tx.execute(sa.update(own_hands).where(*is_waiting).values(values)).rowcount:
            raise Conflict("This style was made or deleted meanwhile.")
        return read_hand(tx, hand_id)


def read_sample(tx: Tx, hand_id: int) -> bytes:
    query = sa.select(own_hands.c.sample).where(own_hands.c.id == hand_id, own_hands.c.deleted_at.is_(None))
    sample = tx.execute(query).scalar()
    if sample is None:
        raise NotFound
    return bytes(sample)


def delete_hand(tx: Tx, hand_id: int, *, now: datetime) -> None:
    """Nothing new is written in it; what is left of it goes when the last order in it has ended."""
    read_hand(tx, hand_id, locked=True)
    _refuse_if_used_by_template(tx, "handwriting_style_id", hand_id)
    _mark_deleted(tx, own_hands, hand_id, now=now)


def make_signature(
    picture: bytes | None, strokes: Sequence[Sequence[Sequence[float]]] | None, *, pen_width: float
) -> Signature:
    """From a picture, or from strokes drawn on a screen, y downward; `Invalid` where neither shows one.

    It takes a moment: no transaction may be open.
    """
    lines = [np.array(stroke, np.float64) * (1, -1) for stroke in strokes or () if len(stroke)]
    if picture is None and not lines:
        raise Invalid({"picture": ["Upload a picture of your signature, or draw it."]})
    try:
        with limit_heavy_work():
            if picture is not None:
                return read_signature_in_sandbox(picture)
            is_dot = np.ptp(np.concatenate(lines), axis=0).max() < _MIN_PENS * pen_width
            drawn = None if is_dot else outline_drawn_signature(lines, pen_width / 2)
    except UnreadableSheet as error:
        raise Invalid({"picture": [error.message]}) from None
    if drawn is None:
        raise Invalid({"strokes": ["Draw your signature larger."]})
    return drawn


def create_signature(
    tx: Tx, caller: Caller, name: str, signature: Signature, *, sub_account_id: int | None, now: datetime
) -> SavedSignature:
    if len(list_signatures(tx)) >= rules.MAX_SIGNATURES:
        raise Conflict(f"You have {rules.MAX_SIGNATURES} signatures. Delete one first.")
    values: dict[str, Any] = {
        "account_id": caller.account_id,
        "sub_account_id": sub_account_id,
        "name": rules.clean_name(name),
        "outlines": signature.to_bytes(),
        "created_at": now,
        "updated_at": now,
    }
    signature_id = tx.execute(sa.insert(signatures).values(values).returning(signatures.c.id)).scalar_one()
    return read_signature(tx, signature_id)


def delete_signature(tx: Tx, signature_id: int, *, now: datetime) -> None:
    read_signature(tx, signature_id)
    _refuse_if_used_by_template(tx, "signature_id", signature_id)
    _mark_deleted(tx, signatures, signature_id, now=now)


def _refuse_if_used_by_template(tx: Tx, setting: str, value: int) -> None:
    names = tx.execute(
        sa.select(message_templates.c.name)
        .where(message_templates.c.settings[setting].as_string() == str(value))
        .order_by(message_templates.c.id)
        .limit(1)
    ).scalar()
    if names is not None:
        raise Refused(f"The message template {names} uses it: change that first.")


def _mark_deleted(tx: Tx, table: sa.Table, row_id: int, *, now: datetime) -> None:
    statement = sa.update(table).where(table.c.id == row_id, table.c.deleted_at.is_(None))
    if not tx.execute(statement.values(deleted_at=now)).rowcount:
        raise NotFound
