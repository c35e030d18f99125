"""Handwriting styles and signatures as choices of a form."""

from collections.abc import Sequence
from typing import NamedTuple

from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.orders.handwriting import queries
from quillpost.orders.handwriting.rules import sample_subject
from quillpost.rendering.previews import sample_version
from quillpost.web.dashboard.labels import group_styles

OWN_TITLE = "Your handwriting"


class StyleChoice(NamedTuple):
    number: int
    name: str
    sample_url: str


StyleGroup = tuple[str, Sequence[StyleChoice]]


def list_style_groups(container: Container, tx: Tx | None) -> list[StyleGroup]:
    """With the account's own styles first, where a transaction of the account is given."""
    shipped: list[StyleGroup] = [
        (
            title,
            [
                StyleChoice(style.number, style.name, f"/hands/{style.number}.png?v={sample_version(style)}")
                for style in group
            ],
        )
        for title, group in group_styles(container.renderer.hands.styles.values())
    ]
    hands = queries.list_hands(tx, only_ready=True) if tx is not None else []
    own = [StyleChoice(hand.id, hand.name, sample_url(container, hand.id)) for hand in hands]
    return [(OWN_TITLE, own), *shipped] if own else shipped


def sample_url(container: Container, hand_id: int) -> str:
    return container.storage.permanent_path(sample_subject(hand_id))


def list_signature_choices(tx: Tx) -> list[tuple[int, str]]:
    return [(signature.id, signature.name) for signature in queries.list_signatures(tx)]
