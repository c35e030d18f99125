"""What an automation does, in a sentence."""

from collections.abc import Mapping
from typing import Final

from quillpost.api.v2.automation_body import BY_PATH
from quillpost.automations.store import Automation
from quillpost.dashboard.compose.look import CHOICES, Choice
from quillpost.dashboard.piece_names import TYPE_NAMES

TRIGGERS: Final[Mapping[str, tuple[str, str]]] = {
    "list_entry": ("Somebody joins a list", "Whoever comes onto the list after it is switched on."),
    "scan": ("Somebody scans a QR code", "Of mail to the list or, without a list, of any mail of yours."),
    "date": ("It is somebody's day", "A birthday or an anniversary of those on the list, every year."),
}
"""What starts one, with a sentence on it."""

DATES: Final[Mapping[str, str]] = {"dob": "birthday", "anniversary": "anniversary"}


def sentence(automation: Automation, list_name: str | None) -> str:
    """`7 days before somebody on Customers has their birthday: a notecard.`"""
    return f"{_when(automation, list_name)}: {piece_words(automation)}."


def piece_words(automation: Automation) -> str:
    offer = BY_PATH.get(automation.piece)
    return f"a {TYPE_NAMES[offer.piece.name].lower()}" if offer else automation.piece


def choice_key(piece: object, size: object) -> str | None:
    """Which piece of the form it is, by its names in a send."""
    return next((key for key, each in CHOICES.items() if _is(each, piece, size)), None)


def _when(automation: Automation, list_name: str | None) -> str:
    if automation.trigger == "list_entry":
        return f"When somebody joins {list_name}"
    if automation.trigger == "scan":
        whose = f"mail to {list_name}" if list_name else "any of your mail"
        return f"When somebody scans the QR code of {whose}"
    day = f"somebody on {list_name} has their {DATES.get(automation.date_field or '', 'day')}"
    days = abs(automation.days_offset)
    if not days:
        return f"On the day that {day}"
    side = "before" if automation.days_offset < 0 else "after"
    return f"{days} day{'' if days == 1 else 's'} {side} {day}"


def _is(choice: Choice, piece: object, size: object) -> bool:
    return piece in choice.offer.piece.paths and (choice.size is None or choice.size == (size or "4x6"))
