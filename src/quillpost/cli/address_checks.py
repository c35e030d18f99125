"""What `quillpost doctor` sees of addresses: whether they can be verified, and which are yet to be judged."""

from typing import Any

import sqlalchemy as sa

from quillpost.audience.rejudging import ADDRESS_RULES, NAMES
from quillpost.cli.findings import Finding
from quillpost.database import Tx
from quillpost.database.address_tables import address_passes
from quillpost.kit.errors import NotReady
from quillpost.verifiers import verifier_of
from quillpost.wiring import Settings

CORRECT_IT = "Correct it: nothing starts until then."


def check_verifier(settings: Settings) -> Finding:
    """Whether the settings fit together. Asking costs, so nobody does."""
    try:
        verifier = verifier_of(settings)
    except NotReady as fault:
        return Finding("verifier", "broken", fault.message, CORRECT_IT)
    if verifier is None:
        return Finding("verifier", "ok", "there is none: addresses are judged by our own tables")
    return Finding("verifier", "ok", "its settings fit together")


def check_addresses(tx: Tx) -> Finding:
    """What stops the verifier, and how far judging old rows by new rules has come."""
    passes = {row.name: row for row in tx.execute(sa.select(address_passes))}
    asking = passes.pop("verify", None)
    if asking is not None and asking.trouble:
        since, trouble = asking.trouble_at.strftime("%Y-%m-%d %H:%M"), asking.trouble
        advice = "Mail goes on with our own verdicts. Look at QUILLPOST_VERIFIER and the service behind it."
        return Finding("addresses", "warning", f"not verified since {since}: {trouble}", advice)
    todo = [said for name in sorted(NAMES) if (said := _left(name, passes.get(name)))]
    if todo:
        what = f"those of an older release are judged again; {', '.join(todo)}"
        return Finding("addresses", "ok", what)
    return Finding("addresses", "ok", "all are judged by the rules of this release")


def _left(name: str, row: sa.Row[Any] | None) -> str | None:
    if row is None or row.rules != ADDRESS_RULES:
        return f"{name}: not begun"
    return None if row.done_at is not None else f"{name} to {row.until_id:,}: at {row.last_id:,}"
