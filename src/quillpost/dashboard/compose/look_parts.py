"""What the part of the composer's page about the look has to choose from."""

from typing import Any, Final

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.composition.samples import sample_version
from quillpost.creative.templates import ImageTemplate, newest_image_templates, newest_message_templates
from quillpost.dashboard.compose.look import CHOICES
from quillpost.dashboard.handwriting import INKS, OWN, SIZES
from quillpost.dashboard.piece_names import TYPE_NAMES
from quillpost.giftcards import catalogue
from quillpost.parts import Parts

MOST_IMAGES: Final = 120
MOST_TEMPLATES: Final = 200

VARIABLES: Final = (
    ("FIRST_NAME", "First name"),
    ("LAST_NAME", "Last name"),
    ("FULL_NAME", "Full name"),
    ("COMPANY", "Their company"),
    ("ADDRESS", "Street address"),
    ("CITY", "City"),
    ("STATE", "State"),
    ("ZIP", "ZIP code"),
    ("YOUR_NAME", "Your name"),
    ("YOUR_COMPANY", "Your company"),
    *((f"CUSTOM{n}", f"Custom field {n}") for n in range(1, 11)),
)
"""What a message may say of whoever reads it, in the order of a menu."""


def page_values(who: Caller, parts: Parts) -> dict[str, Any]:
    with parts.db.transaction(tenant(who)) as tx:
        images = newest_image_templates(tx, most=MOST_IMAGES)
        messages = newest_message_templates(tx, most=MOST_TEMPLATES)
        brands = catalogue.offered(tx)
    styles = parts.studio.hands.styles.values()
    return {
        "choices": CHOICES,
        "own": OWN,
        "hands": [
            (style.number, style.name, f"/hands/{style.number}.png?v={sample_version(style)}")
            for style in styles
        ],
        "inks": INKS,
        "sizes": SIZES,
        "variables": VARIABLES,
        "images": [(each, _link(each, parts)) for each in images],
        "messages": [(each.id, f"{each.name} ({TYPE_NAMES.get(each.type, each.type)})") for each in messages],
        "brands": brands,
        "amounts": sorted({cents for brand in brands for cents in brand.amounts}),
        "most_characters": parts.limits.message_characters,
    }


def _link(image: ImageTemplate, parts: Parts) -> str:
    return parts.shelf.lasting_path(image.image_file_id)
