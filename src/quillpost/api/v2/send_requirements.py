"""What each send requires, as its JSON Schema says it: the requirement matrix, and what stands only together.

It is necessary, not sufficient: whether ids exist, pictures can be fetched and words fit is seen later.
Fields go by their first names here, as everywhere in the description; their other names are taken alike.
"""

from collections.abc import Callable, Sequence

from quillpost.api.requirements import (
    ID,
    NONE,
    NULL,
    SAYS_NOTHING,
    SAYS_SOMETHING,
    SOME,
    URL,
    Json,
    any_of,
    both,
    has,
    is_without,
)

WORDS = has(message=SAYS_SOMETHING)
SAVED_WORDS = has(message_template=ID)
FRONTS = (has(front_image_url=URL), has(image_template=ID))
BLANK: Json = {"type": "string"}
BESIDE_A_BACKGROUND = (
    has(message=BLANK, custom_background_image=URL),
    has(message=BLANK, sub_account_id=ID),
)
"""Where a message may be blank: the sub account may have a background of its own."""


def _audience() -> Json:
    """People, lists or both; or else a radius search."""
    no_search = is_without({"radius_search": NULL})
    return any_of(
        [
            both(has(recipients=SOME), no_search),
            both(has(mailing_list_ids=SOME), no_search),
            both(
                has(radius_search={"type": "object"}),
                is_without({"recipients": NONE, "mailing_list_ids": NONE}),
            ),
        ]
    )


def _return_address() -> Json:
    """None of it; all of it in parts; or the whole on one line."""
    parts = ("return_address", "return_city", "return_postal_code")
    rest = ("return_city", "return_state", "return_postal_code")
    one_line = has(return_address={"type": "string", "pattern": r"\S.*,.*\S"})
    return any_of(
        [
            is_without(dict.fromkeys((*parts, "return_address2", "return_state"), SAYS_NOTHING)),
            has(**dict.fromkeys(parts, SAYS_SOMETHING)),
            both(one_line, is_without(dict.fromkeys(rest, SAYS_NOTHING))),
        ]
    )


def _requirements(words: Sequence[Json], *more: Json) -> Callable[[Json], None]:
    def add(schema: Json) -> None:
        schema["allOf"] = [_audience(), any_of(words), _return_address(), *more]

    return add


SAVED_WORDS_WITH_FRONT = [both(SAVED_WORDS, front) for front in FRONTS]
CARD = _requirements([WORDS, *BESIDE_A_BACKGROUND, *SAVED_WORDS_WITH_FRONT])
LETTER = _requirements([WORDS, has(pdf_only_url=URL), SAVED_WORDS])
GIFTCARD = _requirements(
    [WORDS, *SAVED_WORDS_WITH_FRONT],
    any_of([has(giftcard_brand=SAYS_SOMETHING, giftcard_amount=ID), SAVED_WORDS]),
)
