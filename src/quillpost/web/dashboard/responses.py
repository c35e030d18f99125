"""Pages with a form, confirmations and CSV files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from quillpost.accounts.users.sessions import SignedInUser
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState
from quillpost.web.rendering import render_page


def render_form_page(
    request: Request,
    template: str,
    user: SignedInUser | None,
    form: FormState,
    *,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The page with this in its form, as `values`, `errors` and `is_selected`; with errors its status is 422."""
    return render_page(
        request,
        template,
        user=user,
        status=status or (422 if form.errors else 200),
        values=form.values,
        errors=form.errors,
        is_selected=form.is_selected,
        **values,
    )


@dataclass(frozen=True, slots=True)
class ReasonField:
    """A field beside the question, for why it is done."""

    label: str
    hint: str
    is_required: bool = False


def render_confirmation(
    request: Request,
    user: SignedInUser,
    form: FormState = EMPTY_FORM,
    *,
    title: str,
    consequences: Sequence[str],
    button_label: str,
    back_url: str,
    error_message: str | None = None,
    breadcrumbs: Sequence[tuple[str, str]] = (),
    reason: ReasonField | None = None,
    hidden_fields: Mapping[str, str] | None = None,
    has_one_time_key: bool = False,
    is_harmless: bool = False,
) -> Response:
    """Before something ends: what that means, and a form for the same path. Works without any script. Where
    it was `error_message`, the same page says why. `crumbs` lead back, by address and words; `hidden_fields` are fields
    that were filled in on the page before. `has_one_time_key`: its form has a key for `do_once`."""
    return render_form_page(
        request,
        "shared/confirm.html",
        user,
        form,
        status=None if error_message is None else 400,
        title=title,
        consequences=consequences,
        button_label=button_label,
        back_url=back_url,
        error_message=error_message,
        breadcrumbs=breadcrumbs,
        reason=reason,
        hidden_fields=hidden_fields or {},
        has_one_time_key=has_one_time_key,
        is_harmless=is_harmless,
    )


CSV_CHUNK_LINES: Final = 2_000
"""Lines of the file that are read in one transaction, and sent in one piece."""


def csv_response(lines: Iterator[str], file_name: str) -> Response:
    return StreamingResponse(
        _join_chunks(lines),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"},
    )


def _join_chunks(lines: Iterator[str]) -> Iterator[str]:
    """Many lines together: each piece costs a step between threads."""
    while chunk := "".join(islice(lines, CSV_CHUNK_LINES)):
        yield chunk
