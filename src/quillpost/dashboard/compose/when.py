"""When a piece is mailed, from whom, and what else its sender may wish, as the composer's form says it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from zoneinfo import ZoneInfo

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import sender_of, tenant
from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.dashboard.typed_times import typed_moment, when_values
from quillpost.kit.errors import Invalid
from quillpost.parts import Parts
from quillpost.reception.forms import Form

RETURN: Final = ("name", "address", "address2", "city", "state", "postal_code")
SWITCHES: Final = ("send_standard_mail", "append_or_current_resident", "allow_duplicates")
FORM_FIELDS: Final[Mapping[str, str]] = {
    "schedule_for": "send_on",
    "sub_account_id": "sub_account_id",
    "notification_emails": "notification_emails",
    **{f"return_{part}": f"return_{part}" for part in RETURN},
    **{name: name for name in SWITCHES},
}
STARTING: Final[Mapping[str, Sequence[str]]] = {"when": ["now"], "returns": ["own"]}
RETURNS: Final = "returns"
"""Which return address it is; what is wrong with the one that is not typed here is told beside the choice."""
MOST_NOTIFIED = 2_000


def fields_of(form: Form, zone: ZoneInfo) -> dict[str, Any]:
    """`schedule_for` (UTC), `sub_account_id`, `return_*`, `notification_emails` and switches, as the API has
    them; `Invalid` by form field."""
    fields: dict[str, Any] = {name: True for name in SWITCHES if form.text(name) == "on"}
    if (branch := form.number("sub_account_id")) is not None:
        fields["sub_account_id"] = branch
    if told := form.text("notification_emails", most=MOST_NOTIFIED):
        fields["notification_emails"] = ", ".join(told.split("\n"))
    if form.text("returns") == "other":
        given = {f"return_{part}": form.text(f"return_{part}") for part in RETURN}
        fields |= {name: words for name, words in given.items() if words}
    if form.text("when") == "later":
        at = typed_moment(form, "send_on", zone)
        fields["schedule_for"] = at.isoformat().replace("+00:00", "Z")
    return fields


def opened(form: Form, faults: Mapping[str, Sequence[str]]) -> tuple[Form, Mapping[str, Sequence[str]]]:
    """With the fields of another return address in sight where the one that is chosen will not do."""
    fields = {f"return_{part}" for part in RETURN} & faults.keys()
    if not fields or form.text(RETURNS) == "other":
        return form, faults
    others = {name: told for name, told in faults.items() if name not in fields}
    told = dict.fromkeys(sentence for name in sorted(fields) for sentence in faults[name])
    return replace(form, fields={**form.fields, RETURNS: ["other"]}), {**others, RETURNS: list(told)}


def page_values(form: Form, who: Caller, parts: Parts, zone: ZoneInfo) -> dict[str, Any]:
    """What the template needs beside what is typed."""
    branch = who.sub_account_id
    if branch is None:
        branch = _chosen_branch(form)
    with parts.db.transaction(tenant(who)) as tx:
        titles = titles_of(list_sub_accounts(tx)) if who.sub_account_id is None else {}
        branch = branch if who.sub_account_id is not None or branch in titles else None
        home = sender_of(tx, who, branch)
    return {"titles": titles, "home": _home(home), **when_values(zone, now=parts.clock())}


def _home(home: Any) -> list[str]:
    """The return address, line by line; none where there is none."""
    if home.return_address is None:
        return []
    town = f"{home.return_city or ''}, {home.return_province or ''} {home.return_postal_code or ''}"
    lines = (home.return_name, home.return_address, home.return_address2, town.strip(" ,"))
    return [line for line in lines if line]


def _chosen_branch(form: Form) -> int | None:
    try:
        return form.number("sub_account_id")
    except Invalid:
        return None
