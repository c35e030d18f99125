"""Somebody is erased wherever the service keeps people, in every column and file; and the line on each piece that says
where its reader can ask for no more mail."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pypdfium2 as pdfium
import pytest
import sqlalchemy as sa

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.environments import check_live_readiness
from quillpost.core.database.tables.accounts import erasures
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import PRINT_FILE
from quillpost.fulfillment.service import draw_proof
from quillpost.orders import designs
from quillpost.orders.items.models import Item
from quillpost.orders.queries import read_order
from quillpost.orders.tasks import materialize_order
from quillpost.privacy.erasure.service import SECOND_PASS_DELAY
from quillpost.privacy.service import STATUS_FILES
from quillpost.rendering.models import Copy
from support.factories import Account, Build, Clock, people, person, postcard, run_due_jobs
from support.production import LIVE_SETTINGS, batch_rows, files_of, sweep_due_orders
from support.qr_scans import codes_of
from support.rows import execute, run, scalar, scalars
from support.tenant_rows import insert_least, metadata

pytestmark = pytest.mark.usefixtures("clean_database")

NAME, STREET, EMAIL = "Perpetua Quillfeather", "77 Marrowbone Ln", "perpetua@quillfeather.test"
JANE = person(
    name=NAME, address=STREET, city="Austin", province="TX", postal_code="78701", email=EMAIL,
    phone="+1 512 555 0177", company="Quillfeather Pens", custom1="Perpetua's custom words",
)  # fmt: skip
TELLING = ("perpetua", "quillfeather", "marrowbone", "5550177")
"""In small letters, without blanks: whatever of this is found tells of her."""

TEXTUAL = ("text", "jsonb", "json", "bytea", "ARRAY", "character varying", "USER-DEFINED")

WRITTEN = {
    "recipients", "items", "facts", "deliveries", "visits", "visit_inbox", "carrier_scans", "notices",
    "automation_sent", "stored_sends", "idempotency_keys", "imports", "received_events", "address_verdicts",
    "giftcards",
}  # fmt: skip
"""Where this test writes her, in every column that could hold her."""

NOBODY = {
    "the senders themselves, and those who work for them": (
        "accounts", "sub_accounts", "people", "memberships", "sessions", "invitations", "news_threads",
        "notice_refusals",
    ),
    "the senders' own words, and what they did": (
        "tokens", "oauth_clients", "oauth_grants", "audit_log", "mailing_lists", "image_templates",
        "message_templates", "own_hands", "signatures", "orders", "webhooks", "automations",
    ),
    "digests, ids and keys; what is in files is looked for in the store": (
        "recovery_codes", "search_backlog", "password_resets", "oauth_codes", "refresh_tokens", "files", "batch_files",
        "barred_digests", "do_not_mail_inbox",
    ),
    "sealed until it is done, then nothing": ("erasures", "erasing_files"),
    "counters, times, money and prices": (
        "order_counts", "prices", "ledger_moves", "account_credit", "account_spending", "hourly_counts", "rate_windows",
        "webhook_replays", "lead_purchases", "address_passes",
    ),
    "the printer's barcodes, marks and decisions": ("batches", "prints", "mailers", "order_verdicts", "import_rejects"),
    "the operator's addresses and cards": ("lead_sources", "lead_files", "leads", "giftcard_brands", "giftcard_stock"),
}  # fmt: skip
"""Every other table with words in it, and whose they are."""


def tables_with_words(container: Container) -> set[str]:
    """Of ours."""
    query = """
        select distinct c.table_name from information_schema.columns c
          join pg_class t on t.relname = c.table_name and t.relkind in ('r', 'p') and not t.relispartition
         where c.table_schema = 'public' and c.data_type = any(:textual)
           and c.table_name !~ '^(procrastinate|alembic)_' and c.is_generated = 'NEVER'
    """
    return set(scalars(container, query, textual=list(TEXTUAL)))


def is_telling(text: str) -> bool:
    return any(word in text.lower().replace(" ", "") for word in TELLING)


def places(container: Container) -> set[str]:
    """Tables and files that tell of her."""
    found = set()
    with psycopg.connect(container.db.conninfo) as admin:
        tables = admin.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            for (row,) in admin.execute(f'select t::text from "{table}" t'):
                # Bytes are written as hexadecimal digits.
                if is_telling(row + " ".join(_bytes_in(row))):
                    found.add("deliveries" if table.startswith("deliveries") else table)
    store = container.storage.store
    return found | {key.split("/")[0] for key in store.keys("") if is_telling(store.get(key).decode("latin-1"))}


def _bytes_in(row: str) -> list[str]:
    found = []
    for piece in row.split("\\x")[1:]:
        digits = piece[: len(piece) - len(piece.lstrip("0123456789abcdef"))]
        found.append(bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace"))
    return found


def write_everywhere(container: Container, clock: Clock, owner: Account) -> int:
    """She gets a piece, which is mailed, and is written wherever else people are kept; the order's id."""
    made = owner.post("/mailing-lists", {"description": "Visitors"}).json()["id"]
    assert owner.post("/recipients", {"mailing_list_id": made, **JANE}).status_code == 201
    suppression_list = owner.post("/mailing-lists", {"description": "No", "is_suppression_list": True}).json()["id"]
    sent = owner.send(recipients=[JANE], qrcode_url="https://shop.example.com/", headers={}, message="Hi %FIRST_NAME%!")
    assert sent.status_code == 200, sent.text
    # From here on nobody mails her: the order above is under way already.
    for seconds in (11, 1, 2, 2):
        clock.advance(seconds=seconds)
        run_due_jobs(container)
    assert owner.post("/recipients", {"mailing_list_id": suppression_list, **JANE}).status_code == 201
    assert owner.post("/recipients/lookup", {"email": EMAIL}, headers={"Idempotency-Key": "one"}).status_code == 200
    kept = owner.post("/stored_send/postcard", {"recipients": [JANE, person(name="Jo")], "message": "Hi"})
    assert kept.status_code == 200, kept.text
    order_id = int(sent.json()["id"])
    _write_beside(container, owner, order_id, made)
    return order_id


def _write_beside(container: Container, owner: Account, order_id: int, list_id: int) -> None:
    """What takes receivers, scans, carriers or files to come about."""
    words = f"{NAME} of {STREET} <{EMAIL}>"
    picture = uuid4()
    with container.db.system_transaction() as tx:
        [item] = tx.execute(sa.select(items).where(items.c.order_id == order_id))
        whose = {"account_id": owner.id, "sub_account_id": None, "mode": "test", "mailing_list_id": list_id}
        known: dict[str, Any] = {**whose, "order_id": order_id, "item_id": item.id}
        fact = tx.execute(sa.text("select min(id) from facts where item_id = :i"), {"i": item.id}).scalar_one()
        event = tx.execute(sa.text("select event_id from facts where id = :f"), {"f": fact}).scalar_one()

        def write(table: str, **values: Any) -> None:
            insert_least(tx, metadata.tables[table], {**known, **values})

        for status in ("pending", "delivered"):
            row = {"fact_id": fact, "event_id": event, "webhook_id": 0, "status": status, "body": words}
            texts = {"response_body": words, "error": words, "created_at": container.clock()}
            tx.execute(sa.insert(metadata.tables["deliveries"]).values(
                account_id=owner.id, mode="test", event_type="x", stream="item", attempts=1, **row, **texts
            ))  # fmt: skip
        tx.execute(sa.text("update facts set place = :w, reason = :w where id = :f"), {"w": words, "f": fact})
        write("visits", agent=words)
        write("visit_inbox", kind="person", agent=words)
        tx.execute(sa.update(items).where(items.c.id == item.id).values(scans=1, front_file_id=None))
        write("carrier_scans", raw={"who": words}, place=words)
        for status in ("pending", "sent"):
            key = f"scans:{order_id}:{status}:a@example.com"
            write("notices", kind="scans", channel="mail", key=key, status=status, subject=words, words=words)
        automation = insert_least(tx, metadata.tables["automations"], known)
        for key in (item.address_key, f"email {EMAIL}"):
            write("automation_sent", automation_id=automation, person_key=key, recipient_id=None)
        write("received_events", event_id=str(event), event_type="x", body=words)
        write("giftcards", void_reason=words)
        write("address_verdicts", address_key=item.address_key, standard=[STREET], reasons=[])
        answered = {"answer_status": 200, "answer_body": words.encode(), "answer_type": "x"}
        write("idempotency_keys", path="* * /api/v2/orders", **answered)
        for purpose, key in (("preview", "preview/2026-05-04/p"), ("creative", "creative/2026-05-04/c")):
            number = uuid4() if purpose == "preview" else picture
            write("files", id=number, purpose=purpose, key=key, content_type="x")
            container.storage.store.put(key, words.encode())
        tx.execute(sa.update(items).where(items.c.id == item.id).values(front_file_id=picture))
        sample = [{"column": "Name", "sample": NAME, "field": "name"}]
        write("imports", file_name="people.csv", file_key="imports/1/people.csv", columns=sample)
        tx.execute(sa.update(metadata.tables["imports"]).values(status="done"))
        container.storage.store.put("imports/1/people.csv", words.encode())


def books(container: Container, owner: Account, order_id: int) -> dict[str, Any]:
    """What must stay as it was."""
    with container.db.system_transaction() as tx:
        money = tx.execute(sa.text("select count(*), sum(cents) from ledger_moves")).one()
        item = tx.execute(sa.text("select status, scans, price_cents from items")).all()
    shown = owner.get(f"/orders/{order_id}").json()
    kept = {name: shown[name] for name in shown if "total" in name or name in ("metadata", "status", "items_count")}
    return {
        "money": tuple(money), "items": [tuple(row) for row in item], "order": kept,
        "stats": owner.get(f"/orders/{order_id}/stats").json(),
        "account": owner.get("/account").json(),
    }  # fmt: skip


def test_nothing_of_the_erased_is_left(container: Container, clock: Clock, owner: Account, stranger: Account) -> None:
    order_id = write_everywhere(container, clock, owner)
    before = books(container, owner, order_id)
    assert places(container) >= WRITTEN | {"batches", "print-jobs", "preview", "creative", "imports"}

    response = stranger.post("/recipients/erase", {"address": f"{STREET}, Austin, TX 78701", "email": EMAIL})
    assert set(response.json()["erased"].values()) == {0}
    done = owner.post("/recipients/erase", {"address": f"{STREET}, Austin, TX 78701"})
    assert (done.status_code, done.json()["waiting"]) == (200, 0), done.text
    assert {name for name, count in done.json()["erased"].items() if count == 0} <= {"automation_due"}
    clock.advance(seconds=2)
    run_due_jobs(container)

    assert places(container) == set()
    # What is drawn cannot be looked through: no such file may be left. The simulated mail knows barcodes.
    left = [key for key in container.storage.store.keys("") if not key.startswith("sandbox/mailbox/")]
    assert {key.split("/")[-1] for key in left} <= STATUS_FILES | {"statement.json"}
    assert books(container, owner, order_id) == before
    [shown] = owner.get(f"/orders/{order_id}/items").json()["data"]
    assert {name: value for name, value in shown["recipient"].items() if value} == {"country": "US"}
    sent = owner.send(recipients=[JANE], allow_duplicates=True)
    assert "suppression" in str(sent.headers.get("X-Warnings", "")) + sent.text, "who was suppressed stays so"

    clock.advance(seconds=SECOND_PASS_DELAY.seconds + 5)
    run_due_jobs(container)
    done_rows = execute(container, sa.select(erasures).where(erasures.c.account_id == owner.id))
    assert [(row.whom_sealed, row.done_at is not None) for row in done_rows] == [(None, True)]


def test_every_table_with_words_is_known_to_hold_people_or_not(container: Container) -> None:
    """Whoever adds a table writes her into it above, or says here whose words it holds."""
    known = [*WRITTEN, *(table for tables in NOBODY.values() for table in tables)]
    assert (len(known), set(known)) == (len(set(known)), tables_with_words(container))


def test_warnings_about_a_doubtful_address_are_erased_too(container: Container, owner: Account, clock: Clock) -> None:
    whom = person(email="j@example.com", city="Smallville")
    once = {"Idempotency-Key": "once"}
    sent = owner.post("/send/postcard", postcard(recipients=[whom]), headers=once)
    assert "not to Smallville" in sent.headers["X-Warnings"]
    owner.post("/recipients/erase", {"email": "j@example.com"})
    shown = owner.get(f"/orders/{sent.json()['id']}").json()
    assert "1 address is doubtful." in shown["warnings"]
    again = owner.post("/send/postcard", postcard(recipients=[whom]), headers=once)
    assert "Smallville" not in str(shown) + again.text + str(again.headers)


WORDS = "Prefer no mail? 127.0.0.1:8025/stop/"
PAGE = "https://shop.example.com/hi"


def backs(pdf: bytes) -> list[str]:
    return [" ".join(page.get_textpage().get_text_range().split()) for page in pdfium.PdfDocument(pdf)][1::2]


def composed(container: Container, clock: Clock) -> int:
    sweep_due_orders(container, clock)
    batch = run(container, batch_rows)[-1]
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    return int(batch.id)


def printed(container: Container, batch_id: int) -> bytes:
    [pdf] = [data for name, data in files_of(container, batch_id).items() if name.endswith(PRINT_FILE)]
    return pdf


def test_each_piece_has_its_own_code_and_says_where_it_goes(owner: Account, container: Container, clock: Clock) -> None:
    inline = owner.send(recipients=people(2)).json()["id"]
    visitors = owner.post("/mailing-lists", {"description": "Visitors"}).json()["id"]
    owner.post("/recipients_multi", [person(mailing_list_id=visitors, address=f"{n} Oak Ave") for n in range(2)])
    listed = owner.send(recipients=None, mailing_list_ids=[visitors]).json()["id"]
    materialize_order(container.db, listed, now=container.clock())
    codes = codes_of(container, inline) + codes_of(container, listed)
    assert (len(set(codes)), None in codes) == (4, False)
    refused = owner.send(recipients=[person(), person()], schedule_for="2026-06-01").json()["id"]
    assert codes_of(container, refused)[1] is None, "who gets no paper needs no code"
    pages = backs(printed(container, composed(container, clock)))
    assert sorted(page.partition(WORDS)[2][:8] for page in pages) == sorted(codes)


def test_a_code_is_drawn_as_a_qr_code_only_where_it_leads_somewhere(owner: Account, container: Container) -> None:
    for url, drawn in ((None, False), (PAGE, True)):
        order_id = owner.send(qrcode_url=url, allow_duplicates=True).json()["id"]
        with container.db.system_transaction() as tx:
            order = read_order(tx, order_id)
            item = tx.execute(sa.select(items).where(items.c.order_id == order_id)).one()
        copy = designs.build_copy(Item.of(item), order, qr_base="https://mail.example.com", opt_out="Stop: ")
        assert copy.opt_out == f"Stop: {item.code}"
        assert copy.qr_url == (f"https://mail.example.com/q/{item.code}" if drawn else None)


def test_files_are_made_again_as_they_were_by_any_setting(owner: Account, container: Container, clock: Clock) -> None:
    owner.send()
    batch_id = composed(container, clock)
    before = files_of(container, batch_id)
    assert WORDS in backs(printed(container, batch_id))[0]
    for changed in (None, "Other words: example.com/"):
        batch_tasks.remake_files(replace(container.production, opt_out=changed), batch_id)
        assert files_of(container, batch_id) == before

    # A batch of the release before: only pieces with a QR code had codes, and it wrote down no line.
    owner.send(qrcode_url=PAGE)
    batch_id = composed(replace(container, production=replace(container.production, opt_out=None)), clock)
    before = files_of(container, batch_id)
    assert scalar(container, sa.select(batches.c.opt_out).where(batches.c.id == batch_id)) is None
    batch_tasks.remake_files(container.production, batch_id)
    assert files_of(container, batch_id) == before
    assert "Prefer" not in backs(printed(container, batch_id))[0]

    owner.send()
    execute(container, sa.update(items).values(code=None))
    assert "Prefer" not in backs(printed(container, composed(container, clock)))[0], "a piece without a code"


def test_proofs_and_previews_have_it(owner: Account, container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    order_id = owner.send().json()["id"]
    assert f"{WORDS}{codes_of(container, order_id)[0]}" in backs(draw_proof(container.production, order_id))[0]
    shown: list[Copy] = []
    true_specimen = designs.build_specimen

    def seen(*whom: Any, **how: Any) -> Copy:
        shown.append(true_specimen(*whom, **how))
        return shown[-1]

    monkeypatch.setattr(designs, "build_specimen", seen)
    assert owner.send(preview=True).status_code == 200
    assert [copy.opt_out for copy in shown] == [f"{WORDS}PREVIEW0"]


def test_an_address_too_long_for_the_line_is_a_gap_unless_there_is_none(build: Build) -> None:
    assert build(opt_out_line=False).production.opt_out is None
    base = f"https://{'mail.' * 16}example.com"
    for chosen, gaps in (({}, 1), ({"opt_out_line": False}, 0), ({"base_url": LIVE_SETTINGS["base_url"]}, 0)):
        settings = Settings.model_validate(LIVE_SETTINGS | {"base_url": base} | chosen)
        assert len(check_live_readiness(settings, bootstrap.build_renderer(settings)).gaps) == gaps
    settings = Settings.model_validate(LIVE_SETTINGS | {"base_url": base})
    [gap] = check_live_readiness(settings, bootstrap.build_renderer(settings)).gaps
    assert gap.startswith("QUILLPOST_BASE_URL is too long for the opt-out line on 4x6 postcard,")
    assert gap.endswith("use a shorter one, or set QUILLPOST_OPT_OUT_LINE to false.")
