"""Styles made from people's own handwriting, and signatures."""

from typing import Any

from fastapi import APIRouter, Response

from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.orders.handwriting import queries, service
from quillpost.orders.handwriting.models import SavedHand, SheetLetters, letter_key
from quillpost.rendering.handwriting.sheet.drawings import draw_as_svg
from quillpost.rendering.handwriting.sheet.models import Signature, WrittenChar
from quillpost.rendering.handwriting.sheet.signature_paths import signature_svg
from quillpost.web.dashboard.forms import FormState
from quillpost.web.dashboard.responses import PathId, RequestContext, UserContext
from quillpost.web.dashboard.styles import sample_url
from quillpost.web.forms import PostedForm
from quillpost.web.rendering import redirect

router = APIRouter(include_in_schema=False)

HANDWRITING_PATH = "/templates/handwriting"
STYLE_PATH = f"{HANDWRITING_PATH}/{{style_id}}"
SIGNATURE_PATH = "/templates/signatures/{signature_id}"
LEFT_OUT, MAX_LEFT_OUT = "left_out", 200
STYLE_CONSEQUENCES = (
    "It disappears from the composer, in test mode and live.",
    "Orders you've already sent are still mailed in it. After the last one is finished, we delete your letters.",
)
SIGNATURE_CONSEQUENCES = (
    "It disappears from the composer, in test mode and live.",
    "Orders you've already sent keep it. After the last one is finished, we delete it.",
)


@router.get(HANDWRITING_PATH)
def handwriting_page(context: UserContext) -> Response:
    with context.transaction() as tx:
        hands, signatures = queries.list_hands(tx), queries.list_signatures(tx)
    return context.render(
        "templates/handwriting.html",
        hands=[(hand, sample_url(context.container, hand.id) if hand.is_ready else None) for hand in hands],
        signatures=[(each, signature_svg(Signature.from_bytes(each.outlines))) for each in signatures],
    )


@router.get(f"{HANDWRITING_PATH}/new")
def new_style_page(context: UserContext) -> Response:
    """The page calls the API with a token of the user's session, so that pictures need no form of their own."""
    return _render_new(context, "templates/handwriting_new.html")


@router.get("/templates/signatures/new")
def new_signature_page(context: UserContext) -> Response:
    return _render_new(context, "templates/signature_new.html")


def _render_new(context: RequestContext, template: str) -> Response:
    with context.transaction() as tx:
        titles = context.sub_account_titles(tx)
    return context.render(template, titles=titles)


@router.get(STYLE_PATH)
def style_page(context: UserContext, style_id: PathId) -> Response:
    hand, letters = _read_style(context, style_id)
    if hand.is_ready:
        url = sample_url(context.container, hand.id)
        return context.render(
            "templates/handwriting_style.html", hand=hand, sample_url=url, letters=_show_letters(letters)
        )
    return _render_letters(context, hand, letters, FormState({LEFT_OUT: _left_out(letters)}))


@router.post(STYLE_PATH)
def accept_letters(context: UserContext, style_id: PathId, form: PostedForm) -> Response:
    hand, letters = _read_style(context, style_id)
    left_out = set(form.values(LEFT_OUT, max_count=MAX_LEFT_OUT))
    rejected = [letter_key(char) for char in letters.chars if _letter_value(char) in left_out]
    try:
        service.accept_letters(context.container.orders, context.user.caller, hand.id, rejected, now=context.now())
    except (Invalid, Conflict) as error:
        return _render_letters(context, hand, letters, FormState.from_error(form, error, default_field="letters"))
    return redirect(f"{HANDWRITING_PATH}/{hand.id}", flash="style_made")


def _read_style(context: RequestContext, style_id: int) -> tuple[SavedHand, SheetLetters]:
    with context.transaction() as tx:
        return queries.read_hand(tx, style_id), service.read_letters(tx, style_id)


def _render_letters(context: RequestContext, hand: SavedHand, letters: SheetLetters, form: FormState) -> Response:
    return context.render(
        "templates/handwriting_letters.html",
        form,
        hand=hand,
        letters=_show_letters(letters),
        missing=sorted({box.char for box in letters.missing}),
        problems=[problem.message for problem in letters.problems],
        signature=None if letters.signature is None else signature_svg(letters.signature),
    )


def _show_letters(letters: SheetLetters) -> list[tuple[str, list[dict[str, Any]]]]:
    """By character, in the order of the sheet."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for char in letters.chars:
        if char.strokes:
            shown = {
                "value": _letter_value(char),
                "number": char.instance_number,
                "picture": draw_as_svg(char),
                "reason": char.reason,
            }
            groups.setdefault(char.char, []).append(shown)
    return list(groups.items())


def _left_out(letters: SheetLetters) -> list[str]:
    return [_letter_value(char) for char in letters.chars if letter_key(char) in letters.rejected]


def _letter_value(char: WrittenChar) -> str:
    return f"{char.instance_number} {char.char}"


@router.post(f"{STYLE_PATH}/signature")
def save_sheet_signature(context: UserContext, style_id: PathId, _form: PostedForm) -> Response:
    """The one that stands on the sheet."""
    hand, letters = _read_style(context, style_id)
    if letters.signature is not None:
        with context.transaction() as tx:
            service.create_signature(
                tx,
                context.user.caller,
                hand.name,
                letters.signature,
                sub_account_id=hand.sub_account_id,
                now=context.now(),
            )
    return redirect(HANDWRITING_PATH, flash="signature_saved")


@router.get(f"{STYLE_PATH}/delete")
def delete_style_page(context: UserContext, style_id: PathId) -> Response:
    return _confirm_style_deletion(context, style_id)


@router.post(f"{STYLE_PATH}/delete")
def delete_style(context: UserContext, style_id: PathId, _form: PostedForm) -> Response:
    try:
        with context.transaction() as tx:
            service.delete_hand(tx, style_id, now=context.now())
    except (Refused, Conflict) as error:
        return _confirm_style_deletion(context, style_id, error.message)
    return redirect(HANDWRITING_PATH, flash="style_deleted")


def _confirm_style_deletion(context: RequestContext, style_id: int, error_message: str | None = None) -> Response:
    with context.transaction() as tx:
        hand = queries.read_hand(tx, style_id)
    return context.confirm(
        title=f"Delete the style “{hand.name}”?",
        consequences=STYLE_CONSEQUENCES,
        button_label="Delete style",
        back_url=HANDWRITING_PATH,
        error_message=error_message,
    )


@router.get(f"{SIGNATURE_PATH}/delete")
def delete_signature_page(context: UserContext, signature_id: PathId) -> Response:
    return _confirm_signature_deletion(context, signature_id)


@router.post(f"{SIGNATURE_PATH}/delete")
def delete_signature(context: UserContext, signature_id: PathId, _form: PostedForm) -> Response:
    try:
        with context.transaction() as tx:
            service.delete_signature(tx, signature_id, now=context.now())
    except (Refused, Conflict) as error:
        return _confirm_signature_deletion(context, signature_id, error.message)
    return redirect(HANDWRITING_PATH, flash="signature_deleted")


def _confirm_signature_deletion(
    context: RequestContext, signature_id: int, error_message: str | None = None
) -> Response:
    with context.transaction() as tx:
        signature = queries.read_signature(tx, signature_id)
    return context.confirm(
        title=f"Delete the signature “{signature.name}”?",
        consequences=SIGNATURE_CONSEQUENCES,
        button_label="Delete signature",
        back_url=HANDWRITING_PATH,
        error_message=error_message,
    )
