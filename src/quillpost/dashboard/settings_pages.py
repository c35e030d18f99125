"""What the settings pages have in common: forms that come back with what was typed, the time in words, and
the page that asks whether one is sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from fastapi import Request, Response

from quillpost.accounts.sub_accounts import list_sub_accounts, titles_of
from quillpost.kit.errors import Invalid, Refused
from quillpost.kit.times import ago
from quillpost.parts import Parts
from quillpost.people.sessions import SignedIn
from quillpost.reception.forms import Form
from quillpost.reception.show import show


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as a page shows it: what stands in its fields, and what is wrong with each."""

    typed: Mapping[str, Sequence[str]]
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def back(cls, form: Form, refused: Invalid | Refused, *, at: str) -> "Filled":
        """As it was sent, for another try. What is refused as a whole is told `at` a field."""
        faults = refused.fields if isinstance(refused, Invalid) else {at: [refused.message]}
        return cls(form.fields, faults)

    @property
    def values(self) -> Mapping[str, str]:
        """Of the fields that are filled in but once."""
        return {name: given[0] for name, given in self.typed.items() if given}

    def has(self, name: str, value: object) -> bool:
        """Whether this choice is the one, or one of those, that are made."""
        return str(value) in self.typed.get(name, ())


EMPTY = Filled({})
BOTH = "You chose everything, but had ticked some as well: choose again."
NEITHER = "Choose everything, or some of it."


def settings_page(
    request: Request,
    template: str,
    who: SignedIn,
    parts: Parts,
    *,
    form: Filled = EMPTY,
    **values: Any,
) -> Response:
    """The page; with a form that has faults its status is 422."""
    now = parts.clock()
    return show(
        request,
        template,
        who=who,
        status=422 if form.faults else 200,
        typed=form.values,
        faults=form.faults,
        has=form.has,
        now=now,
        ago=partial(ago, now=now),
        day=day,
        **values,
    )


def are_you_sure(
    request: Request,
    who: SignedIn,
    *,
    title: str,
    means: Sequence[str],
    button: str,
    back: str,
    refused: str | None = None,
    is_once: bool = False,
) -> Response:
    """Before something ends: what that means, and a form for the same path. Works without any script. Where
    it was `refused`, the same page says why. `is_once`: its form has a key for `do_once`."""
    return show(
        request,
        "settings_sure.html",
        who=who,
        status=200 if refused is None else 400,
        title=title,
        means=means,
        button=button,
        back=back,
        refused=refused,
        is_once=is_once,
    )


def sub_account_titles(who: SignedIn, parts: Parts) -> Mapping[int, str]:
    with parts.db.transaction(who.tenant) as tx:
        return titles_of(list_sub_accounts(tx))


def chosen_scopes(form: Form) -> list[str] | None:
    """None: everything. Whoever chooses that and ticks some as well is asked again: nobody guesses."""
    ticked, limits = form.many("scopes"), form.text("limits")
    if limits not in ("all", "some"):
        raise Invalid({"scopes": [NEITHER]})
    if limits == "all" and ticked:
        raise Invalid({"scopes": [BOTH]})
    return ticked if limits == "some" else None


def day(moment: datetime) -> str:
    """A date that nobody reads the wrong way round: `4 May 2026`."""
    return f"{moment.day} {moment:%B %Y}"
