"""Pages choose their own sentence by the code of the API's: no text is matched, and no field of the API is shown."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import quillpost
from quillpost.core.errors import Message, add_note
from quillpost.orders.audience.service import RECENTLY_MAILED_ALL
from quillpost.orders.models import ContentSource, name_part
from quillpost.orders.templates.rules import GIFT_REQUIRED, unknown_variables_error
from quillpost.recipients.leads.search import UNKNOWN_ADDRESS
from quillpost.web.messages import PAGE_SENTENCES, page_text

SOURCE = Path(quillpost.__file__).parent
DOMAIN = ("accounts", "core", "fulfillment", "orders", "recipients", "rendering")
OPENAPI = Path(__file__).parents[2] / "interface" / "pinned" / "openapi.json"
FRONT, PDF = ContentSource("image_template").label, ContentSource("message_template", part=name_part("pdf_only_url"))
SENTENCE = re.compile(r"[A-Z]\S* \S+ \S")
TRANSLATED: list[tuple[str, str]] = [
    (Message("picture_soft", "", file=FRONT, note="is 9 x 8 pixels."), "The picture on the front is 9 x 8 pixels."),
    (Message("file_note", "", file=PDF.label, note="Files."), "The saved message (its PDF): Files."),
    (unknown_variables_error(["FISRT_NAME", "qqq"]),
     "%FISRT_NAME% is not known. Did you mean %FIRST_NAME%? %qqq% is not known."),
    (add_note("It is too large.", PDF.part), "It is too large. (its PDF)"),
    (add_note("It is too large.", name_part("message_background_url")), "It is too large. (its background)"),
    (Message("on_picture", "", picture=add_note(FRONT, "for recipient 1")),
     "on the picture on the front (for recipient 1): choose another color or another picture."),
    (UNKNOWN_ADDRESS, f"{UNKNOWN_ADDRESS.partition(', or give')[0]}."),
    (Message("search_no_match", "", miles="5"),
     "No address within 5 miles matches this search: allow more kinds of people, or search around another address."),
    (RECENTLY_MAILED_ALL, f"{RECENTLY_MAILED_ALL.partition('set ')[0]}choose to mail to them all the same."),
    (GIFT_REQUIRED["giftcard_brand_code"], "Choose the gift card that it brings."),
    (Message("letters_missing", "No face has it."), "No face has it."),
    ("Nothing to see in my_font_size here.", "Nothing to see in my_font_size here."),
]  # fmt: skip
PROGRAMS_ONLY = {
    "Name the piece once: by its item_id, tracking or position.",  # a print partner's webhook
    "Name the spoiled pieces, by position or item_id.",  # the form reads numbers of one kind, and some
    "Give either the position of the piece or its item_id.",
    "Say which pieces: by positions, or from one to another, or by item_ids.",
}
"""Sentences that no form leads to."""


def test_a_page_has_its_own_sentence_and_a_message_is_the_same_after_storage() -> None:
    assert [page_text(message) for message, _ in TRANSLATED] == [sentence for _, sentence in TRANSLATED]
    message = add_note(Message("file_note", "x: y", file=FRONT, note="y"), name_part("logo"))
    stored = Message.from_json(json.loads(json.dumps(message.to_json())))
    assert (stored, stored.code, page_text(stored)) == (message, message.code, page_text(message))


def api_fields(node: object) -> Iterator[str]:
    """Every name with an underscore that a body or an answer of the API has."""
    for name, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if name == "properties":
            yield from (each for each in value if "_" in each)
        yield from api_fields(value)


FIELDS = frozenset(api_fields(json.loads(OPENAPI.read_text())))


def names_a_field(text: str) -> bool:
    return bool(SENTENCE.match(text)) and not FIELDS.isdisjoint(re.findall(r"[a-z]\w*_\w+", text))


def literal_texts(scope: ast.AST) -> Iterator[str]:
    """The strings of a function or statement, those with values in them as one; neither docstrings nor logs."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not isinstance(node, ast.FunctionDef):
            yield from literal_texts(node)


def page_codes(scope: ast.AST, constants: dict[str, str]) -> list[str]:
    """Codes of the messages that are made here, those that pages have a sentence for."""
    calls = [
        each for each in ast.walk(scope) if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "Message"
    ]
    codes = [constants.get(ast.unparse(call.args[0]), ast.unparse(call.args[0]).strip("'")) for call in calls]
    return [code for code in codes if code in PAGE_SENTENCES]


def unpaged_sentences(source: str) -> list[str]:
    """Sentences that name a field of the API, where no page has another one by their code."""
    tree = ast.parse(source)
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = getattr(node.targets[0], "elts", node.targets)
            for target, value in zip(targets, getattr(node.value, "elts", [node.value]), strict=False):
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                    constants[target.id] = str(value.value)
    found = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for scope in [*functions, *(node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign))]:
        naming = [text for text in literal_texts(scope) if names_a_field(text)]
        if len(naming) > len(page_codes(scope, constants)):
            found += naming
    return found


def test_every_sentence_that_names_a_field_has_another_on_pages() -> None:
    paths = [path for name in DOMAIN for path in (SOURCE / name).rglob("*.py")]
    found = {text for path in paths for text in unpaged_sentences(path.read_text())}
    assert found - PROGRAMS_ONLY == set()
    # Such a sentence without a code is found.
    sentence = "Give a front_image_url, please."
    for source in (
        f'def check():\n    raise Invalid({{"front": ["{sentence}"]}})',
        f'MISSING = Message("nobody_knows_this", "{sentence}")',
        'def check(a):\n    return f"Give a front_image_url, please{a}"',
    ):
        assert len(unpaged_sentences(source)) == 1, source
    assert unpaged_sentences(f'MISSING = Message("front_missing", "{sentence}")') == []


def sentence_matches(source: str) -> list[str]:
    """Where a page looks into a sentence: dicts keyed by some, replaced words, comparisons."""
    found = []
    for node in ast.walk(ast.parse(source)):
        texts: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            texts = list(node.keys)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("replace", "startswith", "removeprefix"):
            texts = [*node.args, node.func.value if isinstance(node.func, ast.Attribute) else None]
        elif isinstance(node, ast.Compare):
            texts = [node.left, *node.comparators]
        if any(_is_sentence(text) for text in texts):
            found.append(ast.unparse(node))
    return found


def _is_sentence(node: ast.expr | None) -> bool:
    """A literal of several words, or the message of an error."""
    if isinstance(node, ast.Attribute):
        return node.attr == "message" and getattr(node.value, "id", "") in ("error", "invalid", "refused", "conflict")
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(SENTENCE.match(node.value))


def test_no_page_looks_into_a_sentence() -> None:
    paths = [*(SOURCE / "web" / "dashboard").rglob("*.py"), *(SOURCE / "web").glob("*.py")]
    assert [match for path in paths for match in sentence_matches(path.read_text())] == []
    for found in (
        'TEXTS = {"Give a message, or a template.": "Write a message."}',
        'text.replace("Set allow_duplicates to mail", "")', "error.message == STALE_FORM",
        'field = "x" if error.message in TEXTS else "y"', "error.message.replace(ADVICE, HINT)",
        'warning.startswith("The ink is hard")',
    ):  # fmt: skip
        assert sentence_matches(found), found
