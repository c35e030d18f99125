"""What pages are answered with: forms, confirmations, CSV files, and the context of a request."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from fastapi import Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from quillpost.accounts.audit.service import record_audit_entry
from quillpost.accounts.service import build_tenant
from quillpost.accounts.sub_accounts.queries import label_sub_accounts, list_sub_accounts
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.web.dashboard.forms import EMPTY_FORM, FormState
from quillpost.web.dependencies import Services, parse_path_id
from quillpost.web.live_updates import Topic, stream_response
from quillpost.web.rendering import download_headers, render_page, render_template
from quillpost.web.security import get_zone
from quillpost.web.sessions import (
    OptionalUser,
    RequireUser,
    get_client_address,
    require_confirmed_operator,
    require_confirmed_owner,
    require_confirmed_user,
    require_operator,
    require_owner,
    require_user,
)


def render_form_page(
    request: Request,
    template: str,
    user: SignedInUser | None,
    form: FormState,
    *,
    status: int | None = None,
    **values: Any,
) -> Response:
    """The template gets `values`, `errors` and `is_selected`; with errors the status is 422."""
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
    """A field that asks why."""

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
    """What an action means, and a form that posts to the same path. With `error_message` the same page says why it
    was refused. `breadcrumbs` are URLs and labels; `hidden_fields` come from the page before."""
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


@dataclass(frozen=True, slots=True)
class VisitContext:
    """A request, and what its pages need. `user`: None unless a user is signed in."""

    request: Request
    user: SignedInUser | None
    container: Container

    @property
    def zone(self) -> ZoneInfo:
        return get_zone(self.request)

    @property
    def address(self) -> str:
        return get_client_address(self.request)

    def now(self) -> datetime:
        return self.container.clock()

    def system_transaction(self) -> AbstractContextManager[Tx]:
        return self.container.db.system_transaction()

    def render(self, template: str, form: FormState = EMPTY_FORM, **values: Any) -> Response:
        return render_form_page(self.request, template, self.user, form, **{"now": self.now(), **values})


@dataclass(frozen=True, slots=True)
class RequestContext(VisitContext):
    """Of a user who is signed in."""

    user: SignedInUser

    @property
    def tenant(self) -> Tenant:
        """What the user may see, in the mode that they look at."""
        return build_tenant(self.user.caller)

    @property
    def account_id(self) -> int:
        return self.user.here.account_id

    def transaction(self) -> AbstractContextManager[Tx]:
        return self.container.db.transaction(self.tenant)

    def account_transaction(self) -> AbstractContextManager[Tx]:
        """In the whole account, both modes of it."""
        return self.container.db.transaction(self.user.tenant)

    def audit(self, tx: Tx, action: str, about: Mapping[str, Any], *, sub_account_id: int | None = None) -> None:
        record_audit_entry(
            tx, self.account_id, action, self.user.actor, about=about, sub_account_id=sub_account_id, now=self.now()
        )

    def sub_account_titles(self, tx: Tx) -> Mapping[int, str]:
        """To choose from; empty for a user of one sub account."""
        return {} if self.user.here.sub_account_id is not None else label_sub_accounts(list_sub_accounts(tx))

    def confirm(self, form: FormState = EMPTY_FORM, **values: Any) -> Response:
        return render_confirmation(self.request, self.user, form, **values)

    def stream(
        self, topic: Topic, fragments: Mapping[str, str], read_values: Callable[[], Mapping[str, Any]]
    ) -> Response:
        """Parts of the page, by name and template: now, and whenever the topic changes."""

        def draw() -> Mapping[str, str]:
            values = {"zone": self.zone, "now": self.now(), **read_values()}
            return {name: render_template(template, **values) for name, template in fragments.items()}

        return stream_response(self.request, self.user, topic, draw)

    def picture(self, digest: str, draw: Callable[[], bytes]) -> Response:
        """A PNG. Browsers keep it, and ask each time whether it is still the one of this digest."""
        headers = {"ETag": f'"{digest}"', "Cache-Control": "private, no-cache"}
        if headers["ETag"] in self.request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(draw(), media_type="image/png", headers=headers)


PathId = Annotated[int, BeforeValidator(parse_path_id)]  # 0, which no row has, if it is no number


async def _create_visit_context(request: Request, container: Services, user: OptionalUser) -> VisitContext:
    return VisitContext(request, user, container)


VisitorContext = Annotated[VisitContext, Depends(_create_visit_context)]


def _context_of(require: RequireUser) -> Any:
    async def create_context(
        request: Request, container: Services, user: Annotated[SignedInUser, Depends(require)]
    ) -> RequestContext:
        return RequestContext(request, user, container)

    return Depends(create_context)


UserContext = Annotated[RequestContext, _context_of(require_user)]
OwnerContext = Annotated[RequestContext, _context_of(require_owner)]
OperatorContext = Annotated[RequestContext, _context_of(require_operator)]
ConfirmedUserContext = Annotated[RequestContext, _context_of(require_confirmed_user)]
ConfirmedOwnerContext = Annotated[RequestContext, _context_of(require_confirmed_owner)]
ConfirmedOperatorContext = Annotated[RequestContext, _context_of(require_confirmed_operator)]


CSV_CHUNK_LINES: Final = 2_000  # read in one transaction, sent in one piece


def csv_response(lines: Iterator[str], file_name: str) -> Response:
    return StreamingResponse(
        _join_chunks(lines), media_type="text/csv; charset=utf-8", headers=download_headers(file_name)
    )


def _join_chunks(lines: Iterator[str]) -> Iterator[str]:
    """In large chunks: each costs a step between threads."""
    while chunk := "".join(islice(lines, CSV_CHUNK_LINES)):
        yield chunk
