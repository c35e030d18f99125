"""Handwriting styles, an account's own among them, and signatures."""

from typing import Annotated

from fastapi import Path, Request, Response

from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.client import handwriting as wire
from quillpost.client.types import MessageResponse
from quillpost.core.text import format_iso
from quillpost.orders.handwriting import queries, service
from quillpost.orders.handwriting.models import SavedHand, SavedSignature, SheetLetters
from quillpost.orders.handwriting.rules import sample_subject
from quillpost.orders.templates.service import choose_sub_account
from quillpost.rendering.previews import sample_version
from quillpost.web.api.dependencies import ApiCaller, PathId, RequestTransaction, RequestUnitOfWork
from quillpost.web.api.handwriting.schemas import DEFAULT_PEN_WIDTH, AcceptedLetters, NewHandwritingStyle, NewSignature
from quillpost.web.api.responses import json_response, list_of
from quillpost.web.api.routes import ApiRouter, UploadRoute
from quillpost.web.api.schemas import MULTIPART
from quillpost.web.dependencies import Services, base_url

style_router = ApiRouter("Handwriting", resource="templates", route_class=UploadRoute)
signature_router = ApiRouter("Signatures", resource="templates", route_class=UploadRoute)

StyleId = Annotated[PathId, Path(description="The style's id.")]
SignatureId = Annotated[PathId, Path(description="The signature's id.")]


def _describe_upload(example: dict[str, str]) -> dict[str, object]:
    properties = {name: {"type": "string", "format": "binary"} for name in example if name != "name"}
    form = {"type": "object", "required": list(example)[:2], "properties": {"name": {"type": "string"}, **properties}}
    return {"requestBody": {"content": {MULTIPART: {"schema": form, "example": example}}}}


@style_router.get("/handwriting-styles", list_of(wire.HandwritingStyle), summary="List the handwriting styles")
def list_handwriting_styles(request: Request, tx: RequestTransaction, container: Services) -> Response:
    """Those of this installation, then your own. Give a send one of these ids as `handwriting_style`. The samples need
    no token."""
    base = base_url(request)
    shipped: list[wire.HandwritingStyle] = [
        {
            "handwriting_style_id": style.number,
            "name": style.name,
            "sample": f"{base}/hands/{style.number}.png?v={sample_version(style)}",
            "type": style.kind,
        }
        for style in container.renderer.hands.styles.values()
    ]
    own: list[wire.HandwritingStyle] = [
        {
            "handwriting_style_id": hand.id,
            "name": hand.name,
            "sample": base + container.storage.permanent_path(sample_subject(hand.id)),
            "type": "AI",
        }
        for hand in queries.list_hands(tx, only_ready=True)
    ]
    return json_response({"data": shipped + own})


def _serialize_hand(
    request: Request, container: Container, hand: SavedHand, letters: SheetLetters
) -> wire.OwnHandwritingStyle:
    sample = base_url(request) + container.storage.permanent_path(sample_subject(hand.id))
    return {
        "id": hand.id,
        "name": hand.name,
        "is_ready": hand.is_ready,
        "sample": sample if hand.is_ready else None,
        "doubtful": [
            {"character": char.char, "instance": char.instance_number} for char in letters.chars if char.is_doubtful
        ],
        "missing": [{"character": box.char, "instance": box.instance_number} for box in letters.missing],
        "problems": [problem.message for problem in letters.problems],
        "created_at": format_iso(hand.created_at),
    }


@style_router.post(
    "/handwriting-styles",
    wire.OwnHandwritingStyle,
    status_code=201,
    openapi_extra=_describe_upload(
        {"name": "Dana", "page_1": "(the bytes of page-1.jpg)", "page_2": "(the bytes of page-2.jpg)"}
    ),
    summary="Read a handwriting sheet",
)
def create_handwriting_style(
    request: Request, body: NewHandwritingStyle, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """Print the sheet (`/handwriting-sheet.pdf`), write it, and upload photographs or scans of its pages. The style can
    be used once its letters are accepted."""
    letters = service.read_sheet(body.files)
    tx, now = unit_of_work.tx, container.clock()
    sub_account_id = choose_sub_account(tx, caller, body.sub_account_id)
    hand = service.create_hand(tx, caller, body.name, letters, sub_account_id=sub_account_id, now=now)
    return json_response(_serialize_hand(request, container, hand, letters), status=201)


@style_router.get("/handwriting-styles/{style_id}", wire.OwnHandwritingStyle, summary="Read a style of your own")
def read_handwriting_style(
    request: Request, style_id: StyleId, tx: RequestTransaction, container: Services
) -> Response:
    """Those of this installation are in the list alone."""
    hand = queries.read_hand(tx, style_id)
    return json_response(_serialize_hand(request, container, hand, service.read_letters(tx, style_id)))


@style_router.post(
    "/handwriting-styles/{style_id}/accept",
    wire.OwnHandwritingStyle,
    errors=[409],
    summary="Accept the letters of a style",
)
def accept_handwriting_style(
    request: Request, style_id: StyleId, body: AcceptedLetters, caller: ApiCaller, container: Services
) -> Response:
    """Makes the style. What it is made of can't be changed afterwards."""
    hand = service.accept_letters(
        container.orders, caller, style_id, rejected=body.rejected_keys, now=container.clock()
    )
    with container.db.transaction(build_tenant(caller)) as tx:
        letters = service.read_letters(tx, style_id)
    return json_response(_serialize_hand(request, container, hand, letters))


@style_router.delete(
    "/handwriting-styles/{style_id}", MessageResponse, errors=[400, 409], summary="Delete a style of your own"
)
def delete_handwriting_style(style_id: StyleId, tx: RequestTransaction, container: Services) -> Response:
    """Not while a message template names it. Orders that were sent are still written in it."""
    service.delete_hand(tx, style_id, now=container.clock())
    return json_response({"message": "success"})


def _serialize_signature(signature: SavedSignature) -> wire.MessageSignature:
    return {"id": signature.id, "name": signature.name, "created_at": format_iso(signature.created_at)}


@signature_router.get("/signatures", list_of(wire.MessageSignature), summary="List signatures, newest first")
def list_signatures(tx: RequestTransaction) -> Response:
    """Give a send one of these ids as `signature`."""
    return json_response({"data": list(map(_serialize_signature, queries.list_signatures(tx)))})


@signature_router.post(
    "/signatures",
    wire.MessageSignature,
    status_code=201,
    openapi_extra=_describe_upload({"name": "Dana", "picture": "(the bytes of signature.jpg)"}),
    summary="Save a signature",
)
def create_signature(
    body: NewSignature, caller: ApiCaller, container: Services, unit_of_work: RequestUnitOfWork
) -> Response:
    """From a picture of it on white paper, as a file of a form; or as JSON, from strokes drawn on a screen."""
    signature = service.make_signature(
        None if body.picture is None else body.picture.body, body.strokes, pen_width=body.pen_width or DEFAULT_PEN_WIDTH
    )
    tx = unit_of_work.tx
    sub_account_id = choose_sub_account(tx, caller, body.sub_account_id)
    saved = service.create_signature(
        tx, caller, body.name, signature, sub_account_id=sub_account_id, now=container.clock()
    )
    return json_response(_serialize_signature(saved), status=201)


@signature_router.delete("/signatures/{signature_id}", MessageResponse, errors=[400, 409], summary="Delete a signature")
def delete_signature(signature_id: SignatureId, tx: RequestTransaction, container: Services) -> Response:
    """Not while a message template names it. Orders that were sent still have it."""
    service.delete_signature(tx, signature_id, now=container.clock())
    return json_response({"message": "success"})
