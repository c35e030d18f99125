"""Pages with a form: what stands in it, what is wrong with it, and the one that asks whether one is sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request, Response

from quillpost.kit.errors import Invalid, Refused
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

    def unseen(self, fields: Sequence[str]) -> list[str]:
        """Faults of none of these fields, which the form has: they are told at its top."""
        return [sentence for name, told in self.faults.items() if name not in fields for sentence in told]


EMPTY = Filled({})


def show_form(
    request: Request,
    template: str,
    who: SignedIn | None,
    form: Filled,
    *,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The page with this in its form, as `typed`, `faults` and `has`; with faults its status is 422."""
    return show(
        request,
        template,
        who=who,
        status=status or (422 if form.faults else 200),
        typed=form.values,
        faults=form.faults,
        has=form.has,
        **values,
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """A field beside the question, for why it is done."""

    label: str
    hint: str
    is_needed: bool = False


def are_you_sure(
    request: Request,
    who: SignedIn,
    form: Filled = EMPTY,
    *,
    title: str,
    means: Sequence[str],
    button: str,
    back: str,
    refused: str | None = None,
    crumbs: Sequence[tuple[str, str]] = (),
    reason: Reason | None = None,
    carried: Mapping[str, str] | None = None,
    is_once: bool = False,
    is_harmless: bool = False,
) -> Response:
    """Before something ends: what that means, and a form for the same path. Works without any script. Where
    it was `refused`, the same page says why. `crumbs` lead back, by address and words; `carried` are fields
    that were filled in on the page before. `is_once`: its form has a key for `do_once`."""
    return show_form(
        request,
        "parts/sure.html",
        who,
        form,
        status=None if refused is None else 400,
        title=title,
        means=means,
        button=button,
        back=back,
        refused=refused,
        crumbs=crumbs,
        reason=reason,
        carried=carried or {},
        is_once=is_once,
        is_harmless=is_harmless,
    )
