"""All pages: what is another's is as if unknown on each, what is in the other mode says so; and each chooses its own
sentence by the code of the API's, never by matching text."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import quillpost
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import invitations, memberships, oauth_clients, sessions
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.core.database.tables.notifications import deliveries
from quillpost.core.errors import Message, add_note
from quillpost.orders.audience.service import RECENTLY_MAILED_ALL
from quillpost.orders.models import ContentSource, name_part
from quillpost.orders.templates.rules import GIFT_REQUIRED, unknown_variables_error
from quillpost.recipients.leads.search import UNKNOWN_ADDRESS
from quillpost.web import messages
from support.factories import make_live, make_teammate, person
from support.orders import HOME, item_ids
from support.own_handwriting import sign, store_letters
from support.pages import MEMBER, OWNER, AccountPages, assert_hides, assert_shows, page_text
from support.route_access import PAGE_NEEDS
from support.sign_in import Browser
from support.uploads import upload

PARAMETER = re.compile(r"\{(\w+)\}")
MARK = "Zanzibar"
URL = f"https://{MARK.lower()}.example.com/hook"
FILLED: dict[str, dict[str, Any]] = {
    "": {"when": "soon", "into": "1", "role": "owner", "by": "email", "name": "Mine"},
    "/lists": {"description": "Mine", "address": "9 Oak Ave, Dallas, TX 75201"},
    "/webhooks": {"url": "https://mine.example.com", "type": "*", "verb": "post", "event_type": "scans.scan_update",
                  "from": "2026-05-04T06:00"},
    "/automations": {"trigger": "list_entry", "piece": "postcard-4x6", "message": "Mine", "style": "1",
                     "daily_limit": "5"},
    "/templates": {"type": "postcard", "content": "Mine"},
    "/settings/clients": {"redirect_uris": "https://mine.example.com", "limits": "all"},
    "/sub-accounts": {"title": "Mine"},
}  # fmt: skip
"""With which a form would do something, were its thing one's own."""


def made(house: AccountPages, path: str, body: Any, **how: Any) -> int:
    answer = house.account.post(path, body, **how)
    assert answer.status_code in (200, 201, 202), answer.text
    found = answer.json()
    return int(found.get("data", found)["id"])


def fill(house: AccountPages) -> dict[str, int]:
    """One of each thing that a page can be about; their ids by the names that paths have for them."""
    order = made(house, "/send/postcard", {"recipients": [person()], "message": MARK, "qrcode_url": URL})
    mailing_list = made(house, "/mailing-lists", {"description": f"{MARK} customers"})
    hook = made(house, "/webhooks", {"url": URL, "type": "*"})
    house.owner.post(f"/webhooks/{hook}/test", event_type="scans.scan_update")
    app: dict[str, Any] = {"redirect_uris": URL, "kind": "confidential", "limits": "all"}
    house.owner.post("/settings/clients/new", name=f"{MARK} client", **app)
    house.owner.post("/settings/people/invite", email=f"{MARK}@example.com", role="member")
    grant, _ = house.connect_app(house.account, OWNER, "An app")
    recipient = made(house, "/recipients", person(name=MARK, mailing_list_id=mailing_list))
    send = {"piece": "postcard", "message": "Hi!"}
    automation = {"name": f"{MARK} mail", "trigger": "list_entry", "mailing_list_id": mailing_list, "send": send}
    automation_id = made(house, "/automations", automation)
    csv = {"headers": {"Content-Type": "text/csv"}, "content": b"Name,Email\nA,a@example.com\n"}
    begun = house.account.call("POST", f"/mailing-lists/{mailing_list}/import", **csv).json()["id"]
    teammate = memberships.c.person_id == house.person(MEMBER)
    own_session = sessions.c.person_id == house.person(OWNER)
    template = {"type": "postcard", "name": f"{MARK} words", "content": "Hi"}
    newest = {"delivery_id": deliveries.c.id, "client": oauth_clients.c.id, "invitation_id": invitations.c.id}
    own_token = (tokens.c.account_id == house.account.id) & tokens.c.grant_id.is_(None)
    return {
        "order_id": order, "item_id": item_ids(house.parts, order)[0], "place": 1, "list_id": mailing_list,
        "recipient_id": recipient, "import_id": begun, "webhook_id": hook, "automation_id": automation_id,
        "messages": made(house, "/message-templates", template), "grant_id": grant,
        "style_id": store_letters(house.parts, house.account, f"{MARK} hand"),
        "signature_id": sign(house.account, f"{MARK} signature"),
        "images": int(upload(house.account, type="postcard", name=f"{MARK} sea").json()["id"]),
        "membership_id": int(house.value(sa.select(memberships.c.id).where(teammate))),
        "token_id": int(house.value(sa.select(sa.func.min(tokens.c.id)).where(own_token))),
        "session": int(house.value(sa.select(sa.func.min(sessions.c.id)).where(own_session))),
        "sub_account_id": house.branch, "account_id": house.account.id,
    } | {name: int(house.value(sa.select(sa.func.max(column)).where(column.table.c.account_id == house.account.id)))
         for name, column in newest.items()}  # fmt: skip


def pages(ids: Mapping[str, int]) -> list[tuple[str, str, str, str]]:
    """Of each page about a thing: the method, its path with the ids, with those of nothing, and its needs."""
    found = []
    for (method, path), needs in PAGE_NEEDS.items():
        if "{" in path and not path.startswith("/print-room"):
            known = {**ids, "template_id": ids.get(path.split("/")[2], 0)} if path.startswith("/templates") else ids
            unknown = dict.fromkeys(known, 999_999) | {"place": 1}
            found.append((method, put(path, known), put(path, unknown), needs))
    return found


def put(path: str, ids: Mapping[str, int]) -> str:
    return PARAMETER.sub(lambda name: str(ids[name[1]]), path)


def visit(browser: Browser, method: str, path: str) -> tuple[int, str]:
    """The answer, without the address that it was given to."""
    fields = {name: value for area, typed in FILLED.items() if path.startswith(area) for name, value in typed.items()}
    answer = browser.get(path, follow=False) if method == "GET" else browser.post(path, follow=False, **fields)
    return answer.status_code, answer.text.replace(path, "PATH")


def test_what_is_another_s_is_as_if_unknown(house: AccountPages, subtests: pytest.Subtests) -> None:
    house.member, house.limited, house.stranger  # noqa: B018 (are there by now)
    about = pages(fill(house))
    assert len(about) > 80
    with house.unchanged():
        for method, path, unknown, needs in about:
            with subtests.test(f"{method} {path}"):
                answer = visit(house.stranger, method, path)
                assert (answer[0], answer) == (404, visit(house.stranger, method, unknown))
                if "owner" in needs:
                    for teammate in (house.member, house.limited):
                        status, text = visit(teammate, method, path)
                        assert (status, "Only an owner of this account may do this." in text) == (403, True)
                elif "sub-accounts" not in path and "/home" not in path:  # of which one is their own
                    answer = visit(house.limited, method, path)
                    assert (answer[0], answer) == (404, visit(house.limited, method, unknown))
    for method, path in PAGE_NEEDS:  # the lists of things, and what is chosen from them
        if method == "GET" and "{" not in path and not path.startswith("/print-room"):
            for reader in (house.stranger, house.limited):
                assert_hides(reader.get(path), MARK, MARK.lower())


def test_what_is_ones_own_is_found_and_odd_numbers_are_not(house: AccountPages, subtests: pytest.Subtests) -> None:
    house.member  # noqa: B018
    ids = fill(house)
    for method, path, _, _ in pages(ids):
        if method == "GET" and not path.endswith("rejected.csv"):
            with subtests.test(path):
                assert house.owner.get(path).status_code == (422 if path.endswith("/again") else 200)
    for (method, path), odd in product(PAGE_NEEDS, ("0", "x", "-1", "1.5", "9" * 40)):
        if "{" in path and (path.startswith("/settings") or len(odd) > 9) and "/print-room" not in path:
            with subtests.test(f"{method} {path} {odd[:5]}"):
                assert visit(house.owner, method, PARAMETER.sub(odd, path))[0] == 404
    # A thing of one is not found below another.
    order, mailing_list = made(house, "/send/postcard", {"recipients": [person()], "message": "Hi"}), ids["list_id"]
    other_list = made(house, "/mailing-lists", {"description": "Empty"})
    for path, number in (
        (f"/orders/{order}/items/{ids['item_id']}", ids["item_id"]),
        (f"/orders/{order}/items/{ids['item_id']}/live", ids["item_id"]),
        (f"/orders/{order}/looks/{ids['item_id']}/1.png", ids["item_id"]),
        (f"/orders/{ids['order_id']}/looks/{ids['item_id']}/99.png", ids["item_id"]),
        (f"/lists/{other_list}/people/{ids['recipient_id']}", ids["recipient_id"]),
    ):
        assert house.is_as_if_unknown(house.owner, path, number), path
    for page in ("import", "paste", "radius"):
        for browser, status in ((house.owner, 200), (house.stranger, 404), (house.limited, 404)):
            assert browser.get(f"/lists/{page}?list={mailing_list}").status_code == status, page


def test_a_teammate_of_one_sub_account_finds_what_is_its_own(house: AccountPages, container: Container) -> None:
    teammate = make_teammate(container, house.account, house.branch)
    mailing_list = teammate.post("/mailing-lists", {"description": "Dallas customers"}).json()["id"]
    hook = teammate.post("/webhooks", {"url": "https://dallas.example.com", "type": "*"}).json()["id"]
    body = {"trigger": "list_entry", "send": {"piece": "postcard", "message": "Hi!"}}
    automation = teammate.post("/automations", body | {"name": "Dallas mail", "mailing_list_id": mailing_list}).json()
    order = teammate.send(message="Dallas only").json()["id"]
    for path, words, one in (
        ("/lists", "Dallas customers", mailing_list), ("/webhooks", "dallas.example.com", hook),
        ("/automations", "Dallas mail", automation["id"]), ("/orders", f"/orders/{order}", order),
        ("/sub-accounts", "Dallas", house.branch),
    ):  # fmt: skip
        assert_shows(house.limited.get(path), words)
        assert_shows(house.owner.get(path), words)
        assert house.limited.get(f"{path}/{one}").status_code == 200, path


def test_what_is_in_the_other_mode_says_so_and_offers_the_switch(house: AccountPages) -> None:
    live = make_live(house.parts, house.account)
    order = int(live.send(**HOME).json()["id"])
    item = item_ids(house.parts, order)[0]
    for page in ("", "/items", f"/items/{item}", "/change", "/cancel"):
        shown = house.owner.get(f"/orders/{order}{page}")
        words = f"This order is in live mode You're in test mode. Switch to live mode to see order {order}."
        assert (shown.status_code, words in page_text(shown)) == (200, True), page
    mailing_list = live.post("/mailing-lists", {"description": "People"}).json()["id"]
    hook = live.post("/webhooks", {"url": "https://live.example.com", "type": "*"}).json()["id"]
    send = {"piece": "postcard", "message": "Hi!", "return_address": "12 Main St, Austin, TX 78701"}
    automation = {"name": "In live", "trigger": "list_entry", "mailing_list_id": mailing_list, "send": send}
    number = live.post("/automations", automation).json()["id"]
    for path, parts, words in (
        (f"/webhooks/{hook}", ("", "/change", "/delete", "/secret"), "This webhook is in live mode"),
        (f"/automations/{number}", ("", "/change", "/on", "/delete"), "This automation is in live mode"),
    ):
        for part in parts:
            assert_shows(house.owner.get(path + part), words)
    assert_hides(
        house.owner.get("/webhooks").text + house.owner.get("/automations").text, "live.example.com", "In live"
    )
    for reader in (house.stranger, house.limited):  # to everybody else it is not there
        for path in (f"/orders/{order}", f"/orders/{order}/items"):
            answer = reader.get(path)
            assert (answer.status_code, "live mode" in page_text(answer)) == (404, False)
    assert house.nobody().get(f"/orders/{order}", follow=False).status_code == 303
    fragment = house.owner.get(f"/orders/{order}/items", headers={"HX-Request": "true"})
    assert (fragment.status_code, "<html" in fragment.text) == (404, False)
    for nothing in ("/orders/987654321", "/orders/99999999999999999999", "/orders/0", "/odd/1", "/webhooks/999999"):
        assert house.owner.get(nothing).status_code == 404, nothing
    with house.unchanged():
        assert house.owner.post(f"/orders/{order}/cancel").status_code == 404
    path = f"/orders/{order}/items/{item}"
    there = house.owner.post("/session/switch", mode="live", next=path)
    assert (there.status_code, there.url.path) == (200, path)
    assert_hides(there, "This order is in live mode")
    test = int(house.account.send().json()["id"])
    switch = 'name="mode" value="test">Switch to test mode'
    assert_shows(house.owner.get(f"/orders/{test}"), "This order is in test mode", switch)
    # A test account reads why its live orders are hidden.
    house.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(test_mode=True))
    shown = house.owner.get(f"/orders/{order}")
    assert "This order is in live mode Your account is a test account now" in page_text(shown)
    assert_hides(shown, "Switch to live mode")


BEYOND, SQUARED = "9" * 20, "²"
LATER = {"when": "later", "audience": "person", "to_address": "12 Main St, Austin, TX 78701", "message": "Hi"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *[(f"/lists/{page}", {"list": odd}) for page in ("radius", "paste") for odd in (BEYOND, SQUARED)],
    *[(f"/{page}/new", {"mailing_list_id": odd, "url": "https://example.com/"})
      for page in ("webhooks", "automations") for odd in (BEYOND, SQUARED)],
    *[(f"/compose{part}", LATER | {"send_on": odd})
      for part in ("", "/preview", "/price", "/send") for odd in ("0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00")],
    ("/print-room/accounts/{account}/credit", {"amount": "9" + ",999" * 70, "way": "give", "note": "Invoice 12"}),
]  # fmt: skip


def test_no_number_or_day_is_too_large_or_too_odd_for_a_page(house: AccountPages) -> None:
    """What no page of ours sends and somebody sends all the same is refused, or means nothing, and breaks nothing."""
    house.execute(sa.update(accounts).values(is_operator=True))
    house.owner.post("/session/switch", mode="live")
    house.owner.client.cookies.set("quillpost_zone", "Pacific/Kiritimati")
    days = [f"{name}={day}" for name in ("since", "until") for day in ("9999-12-31", "0001-01-01")]
    pages = ("/money/ledger", "/money/ledger.csv", "/orders", "/print-room/batches")
    for address in (f"{page}?{query}" for page in pages for query in days):
        assert house.owner.get(address).status_code == 200, address
    before = house.everything()
    for path, fields in CALLS:
        response = house.owner.post(path.format(account=house.account.id), follow=False, **fields)
        assert 200 <= response.status_code < 500, (path, fields)
    assert house.everything() == before


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
    (Message("ink_hard_to_read", "", contrast="It is low.",
             surface=Message("on_picture", "", picture=FRONT, advice="choose a darker ink.")),
     "The ink is hard to read on the picture on the front: choose a darker ink. It is low."),
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
    assert [messages.page_text(message) for message, _ in TRANSLATED] == [sentence for _, sentence in TRANSLATED]
    message = add_note(Message("file_note", "x: y", file=FRONT, note="y"), name_part("logo"))
    stored = Message.from_json(json.loads(json.dumps(message.to_json())))
    assert (stored, stored.code, messages.page_text(stored)) == (message, message.code, messages.page_text(message))


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
    return [code for code in codes if code in messages.PAGE_SENTENCES]


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
    assert {text for path in paths for text in unpaged_sentences(path.read_text())} - PROGRAMS_ONLY == set()
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
