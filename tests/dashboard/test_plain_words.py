"""What the services say to programs is said to people without the names of fields."""

import pytest

from quillpost.orders.audience import RECENTLY_MAILED_ALL
from quillpost.orders.templates.rules import variables_error
from quillpost.recipients.leads.search import NO_MATCH, UNKNOWN_ADDRESS
from quillpost.rendering.images.models import resolution_note
from quillpost.rendering.models import Box
from quillpost.web.rendering import to_plain_language

SOFT = resolution_note(100, 80, Box(0, 0, 432, 288), picture_name="image_template", product_name="a 4x6 postcard")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (SOFT, "The picture on the front is 100 x 80 pixels"),
        (variables_error("%FISRT_NAME% %qqq%"), "Did you mean %FIRST_NAME%? %qqq% is not known."),
        (UNKNOWN_ADDRESS, "as 12 Main St, Austin, TX 78701."),
        (NO_MATCH, "allow more kinds of people"),
        (RECENTLY_MAILED_ALL, "or choose to mail to them all the same."),
        ("message_template (its pdf_only_url): Files were left out.", "The saved message (its PDF)"),
        ("Nothing to see in %FONT_SIZE% or my_font_size here.", "%FONT_SIZE% or my_font_size"),
    ],
)
def test_a_sentence_for_programs_is_one_for_people(theirs: str | None, ours: str) -> None:
    assert theirs is not None
    assert ours in to_plain_language(theirs)
    assert not any(name in to_plain_language(theirs) for name in ("image_template", "postal_code", "record_types"))
