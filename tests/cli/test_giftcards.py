"""`quillpost giftcards`: the catalogue, an operator's own cards, and what became of those that were sent."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.cli.doctor.installation import DoctorFinding
from quillpost.cli.doctor.operations import check_giftcards
from quillpost.core.database import archive
from quillpost.core.database.tables.orders import giftcard_brands, giftcard_stock, giftcards
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards import stock as stocking
from quillpost.orders.rules import ItemStatus
from support.cli_results import Quillpost
from support.factories import Account, Clock, make_account, people
from support.giftcard_orders import VALUE, issue_order_cards, move_items, read_claim, send_giftcards
from support.rows import execute
from support.test_client import TestClient

BRAND, OTHER = "brindlewick", "inkwell-otter"
CARDS = f"""Brand,Amount,Code,PIN,URL,Expires_on
{BRAND},25.00,HUSH-1,0001,,2099-12-31
{BRAND},$25,HUSH-2,,,

{BRAND},5,,,https://cards.example/HUSH-3,
{BRAND},25.00,hush 1,0001,,2099-12-31
{OTHER},25.00,HUSH1,0001,,2099-12-31
"""

RETURN = {"return_address": "1 Elm St, Austin, TX 78702"}

pytestmark = pytest.mark.usefixtures("conninfo")  # brands and cards are everybody's


@pytest.fixture
def run(beside: Quillpost) -> Quillpost:
    return lambda *words, **settings: beside("giftcards", *words, **settings)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cards.csv"
    path.write_text(CARDS, encoding="utf-8-sig")
    return path


def open_operator(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return service.create_account(tx, email="op@example.com", name="Op", is_operator=True, now=container.clock())


def list_log(container: Container, operator: int) -> list[tuple[str, object]]:
    with container.db.system_transaction() as tx:
        return [(line.act, line.about) for line in list_audit_entries(tx, operator)]


def test_a_file_of_cards_is_loaded_once(run: Quillpost, container: Container, file: Path, conninfo: str) -> None:
    operator = open_operator(container)
    first, second = run("load", file), run("load", file)
    assert first.out == "cards.csv: 3 cards loaded, 2 cards passed over as known.\n", first.err
    assert second.out == "cards.csv: 0 cards loaded, 5 cards passed over as known.\n"
    rows = execute(container, sa.select(giftcard_stock).order_by(giftcard_stock.c.id))
    assert [(row.brand, row.cents) for row in rows] == [(BRAND, 2_500), (BRAND, 2_500), (BRAND, 500)]
    assert {(row.mode, row.source) for row in rows} == {("live", "cards.csv")}
    cards = [
        issuance.decrypt_card(container.encryptor, issuance.stock_context(row.id), bytes(row.card_sealed))
        for row in rows
    ]
    assert [(card.code, card.pin, card.url) for card in cards] == [
        ("HUSH-1", "0001", None), ("HUSH-2", None, None), (None, None, "https://cards.example/HUSH-3"),
    ]  # fmt: skip
    assert [card.expires_on for card in cards] == [row.expires_on for row in rows]
    noted = list_log(container, operator)
    assert noted == [("stock.loaded", {"name": "cards.csv", "count": 3})], "the second has changed nothing"
    assert "HUSH" not in repr(rows) + repr(noted) + first.out + first.err
    none = {"brand": BRAND, "expiring": 0, "taken": 0, "set_aside": 0}
    assert json.loads(run("stock", "--json").out) == [
        none | {"cents": 500, "free": 1, "first_expires_on": None},
        none | {"cents": 2_500, "free": 2, "first_expires_on": "2099-12-31"},
    ]
    assert "$25.00" in run("stock").out

    def count() -> list[tuple[int, int]]:
        return [(storage["free"], storage["set_aside"]) for storage in json.loads(run("stock", "--json").out)]

    archive.skip_issued_numbers(conninfo)
    assert count() == [(0, 1), (0, 2)]
    assert run("release-stock", "--brand", "nobody").is_one_sentence()
    assert run("release-stock", "--brand", OTHER).out == "0 cards released.\n"
    assert run("release-stock").out == "3 cards released.\n"
    assert count() == [(1, 0), (2, 0)]
    assert list_log(container, operator) == [("stock.released", {"name": "all brands", "count": 3}), *noted]


def test_one_wrong_row_and_nothing_is_loaded_all_are_named(run: Quillpost, container: Container, file: Path) -> None:
    soon = datetime.now(UTC).date() + timedelta(days=5)
    of_brand = (
        "HUSH-11,HUSH-12,,,", "26.00,HUSH-13,,,", "25.00,,,,", "25.00,HUSH\x0014,,,", "25.00,,,http://HUSH-15,",
        "25.00,HUSH-16,,,HUSH-17", f"25.00,HUSH-18,,,{soon}", "25.00,HUSH-19",
        *["HUSH-20,HUSH-21,,,"] * stocking.MAX_LISTED_ROWS,
    )  # fmt: skip
    file.write_text(CARDS + "\n".join(["HUSH-9,25.00,HUSH-10,,,", *(f"{BRAND},{row}" for row in of_brand)]))
    done = run("load", file)
    errors = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert [line.partition(":")[0] for line in errors[:9]] == [f"line {n}" for n in range(8, 17)]
    whys = ("no such brand", "dollars", "$5.00", "neither", "one line", "https://", "a day", "soon", "columns")
    assert [why for why, line in zip(whys, errors[:9], strict=True) if why not in line] == []
    assert (len(errors), errors[-2]) == (stocking.MAX_LISTED_ROWS + 2, "and 9 more")
    summary, _, brands = errors[-1].partition(" The brands are ")
    assert summary.endswith("cards.csv was not loaded: 59 of its rows are wrong.")
    assert {BRAND, OTHER} < set(brands.rstrip(".").split(", "))
    assert done.err.count(OTHER) == 1
    assert "HUSH" not in done.err
    assert execute(container, sa.select(giftcard_stock)) == []
    assert "There are no cards" in run("stock").out


NO_CARDS = (
    (b"", "The file is empty."), (b"\n ,\n", "The file is empty."), (b"brand;amount;code\n", "separated by commas"),
    (b"brand\tamount\tcode\n", "separated by commas"),
    (b"brand,amount,HUSH\n", "a column that we do not know (from the left: 3): name them brand,"),
    (b"Brand,Value,Code,HUSH\n", "2 columns that we do not know (from the left: 2, 4)"),
    (b"brand,amount,amount_cents,code\n", "needs one of the columns"), (b"brand,amount,pin\n", "code or url"),
    (b"amount,code\n", "needs the columns brand"), (b"brand,amount,code,code\n", "twice"),
    (b'brand,amount,code\nx,1,"HUSH"HUSH\n', "no CSV in UTF-8"),
    (b"brand,amount,code\nx,1,HUSH\xff\n", "no CSV in UTF-8"),
)  # fmt: skip


def test_what_is_no_file_of_cards_is_one_sentence(run: Quillpost, file: Path, subtests: pytest.Subtests) -> None:
    for text, why in NO_CARDS:
        with subtests.test(why, text=text):
            file.write_bytes(text)
            done = run("load", file)
            assert done.is_one_sentence(why)
            assert "HUSH" not in done.err
    assert run("load", file.with_name("missing.csv")).is_one_sentence()
    file.write_text(f"code,brand,amount_cents\nHUSH-1,{BRAND},2500\nHUSH-2,{BRAND},25.00\n")
    wrong = run("load", file).err
    assert "line 3: amount_cents must be whole cents" in wrong
    assert wrong.endswith("cards.csv was not loaded: 1 of its rows is wrong.\n")
    file.write_text(f"code,brand,amount_cents\nHUSH-1,{BRAND},2500\n")
    assert run("load", file).out == "cards.csv: 1 card loaded.\n"


def test_many_cards_are_loaded_in_pieces(container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stocking, "ROWS_PER_CHUNK", 10)
    rows = [f"{BRAND},25.00,HUSH-{n % 45}" for n in range(50)]
    file = tmp_path / "many.csv"
    file.write_text("\n".join(["brand,amount,code", *rows]))
    done = stocking.load_stock(container.db, container.encryptor, file, now=container.clock())
    assert (done.added, done.already_loaded) == (45, 5)
    again = stocking.load_stock(container.db, container.encryptor, file, now=container.clock())
    assert (again.added, again.already_loaded) == (0, 50)
    stranger = Encryptor({"1": b"x" * 32}, "1")
    with pytest.raises(NotReady, match="cannot be opened"):
        stocking.load_stock(container.db, stranger, file, now=container.clock())


def test_brands_are_added_changed_and_retired(run: Quillpost, container: Container) -> None:
    operator = open_operator(container)
    for missing in ("--title", "--group", "--amounts"):
        given = {"--title": "River", "--group": "food", "--amounts": "1000"}
        del given[missing]
        assert run("brand", "river-cafe", *(word for pair in given.items() for word in pair)).is_one_sentence(missing)
    words = ("--title", "River [Cafe]", "--group", "food", "--amounts", "2500,1000", "--color", "#AABBCC")
    assert run("brand", "river-cafe", *words).out == "river-cafe is new: $10.00, $25.00.\n"
    assert run("brand", "river-cafe", "--issuer-code", "OKMH").out.startswith("river-cafe is changed")
    assert run("brand", "river-cafe", "--issuer-code", "OKMH").out.startswith("river-cafe is as it was")
    [brand] = [each for each in json.loads(run("brands", "--json").out) if each["code"] == "river-cafe"]
    assert brand == {
        "code": "river-cafe", "title": "River [Cafe]", "section": "food", "amounts": [1_000, 2_500],
        "accent": "#aabbcc", "issuer_code": "OKMH", "is_offered": True,
    }  # fmt: skip
    assert "River [Cafe]" in run("brands").out
    for wrong in (("--amounts", "ten"), ("--group", "HUSH"), ("--color", "red"), ("--amounts", "0")):
        assert run("brand", "river-cafe", *wrong).is_one_sentence(wrong[0])
    assert "BRAND: Up to 64 small letters" in run("brand", "River", *words).err
    assert run("retire", "river-cafe").out == "river-cafe is offered no more.\n"
    assert "river-cafe" in run("retire", "river-cafe").out
    assert run("retire", "nobody").is_one_sentence()
    assert [act for act, _ in list_log(container, operator)] == ["brand.retired", "brand.changed", "brand.changed"]
    [brand] = [each for each in json.loads(run("brands", "--json").out) if each["code"] == "river-cafe"]
    assert brand["is_offered"] is False


def test_cards_are_listed_without_their_codes(run: Quillpost, container: Container, owner: Account, file: Path) -> None:
    assert run("list", "--mode", "test").out == "There are no such cards.\n"
    run("brand", "anywhere-and-back", "--issuer-code", "OKMHM2X2OHYV")
    run("load", file)
    brands = json.loads(run("brands", "--json").out)
    shown, stock = run("brands", columns=80).out, run("stock", columns=80).out
    assert {"OKMHM2X2OHYV", *(brand["code"] for brand in brands)} <= set(shown.split())
    amounts = [f"${cents / 100:,.2f}" for brand in brands for cents in brand["amounts"]]
    assert sorted(word.rstrip(",") for word in shown.split() if word.startswith("$")) == sorted(amounts)
    assert {BRAND, "$25.00", "$5.00", "2099-12-31"} <= set(stock.split())

    good, void, reported = issue_order_cards(container, send_giftcards(owner, recipients=people(3)))
    move_items(container, [void], ItemStatus.FAILED)
    with container.db.system_transaction() as tx:
        complaint = {"reported_at": container.clock(), "report": "It was [lost] or stolen, says whoever has it"}
        tx.execute(sa.update(giftcards).where(giftcards.c.item_id == reported).values(complaint))

    def listed(*words: str) -> list[int]:
        return [card["item_id"] for card in json.loads(run("list", "--mode", "test", "--json", *words).out)]

    assert listed() == [reported, void, good]
    assert listed("--void") == [void]
    assert listed("--reported") == listed("--reported", "--unclaimed") == [reported]
    assert listed("--unclaimed") == [reported, good]
    assert listed("--most", "1") == [reported]
    assert listed("--mode", "live") == []
    wide, narrow = (run("list", "--mode", "test", columns=columns).out for columns in (300, 80))
    assert all(note in wide for note in ("It was [lost] or", "The piece failed", "$25.00", "sandbox"))
    assert {BRAND, "$25.00", "issued", "void", "sandbox", str(void), "stolen,"} <= set(narrow.split())
    everything = wide + run("list", "--mode", "test", "--json").out
    for row in execute(container, sa.select(giftcards.c.item_id, giftcards.c.card_sealed)):
        card = issuance.decrypt_card(container.encryptor, issuance.card_context(row.item_id), bytes(row.card_sealed))
        assert card.code is not None
        assert card.code not in everything
        assert read_claim(container, row.item_id) not in everything

    long = "a-brand-with-the-longest-code-that-any-brand-may-ever-have-as-it"
    assert len(long) == 64
    run("brand", long, "--title", "x" * 60, "--group", "food", "--amounts", "1000000")
    cut = shown + stock + narrow + run("brands", columns=80).out
    assert "…" not in cut
    assert max(map(len, cut.splitlines())) <= 80


def findings(container: Container, **settings: object) -> dict[str, DoctorFinding]:
    chosen = Settings.model_validate(settings)
    with container.db.system_transaction() as tx:
        return {found.subject: found for found in check_giftcards(tx, chosen, now=container.clock())}


def test_the_doctor_tells_of_missing_cards_and_brands(container: Container, http: TestClient, tmp_path: Path) -> None:
    def finding(**settings: object) -> DoctorFinding:
        return findings(container, **settings)["gift card stock"]

    def brands(**settings: object) -> str:
        return findings(container, **settings)["gift card brands"].message

    issuer = {"giftcards": "tremendous:https://host"}
    assert finding().status == "ok"
    assert brands().startswith("of 20 of the 20 that are offered no card is free. First anywhere-and-back, ")
    send_giftcards(make_account(container, http, "live@example.com", mode="live"), recipients=people(2), **RETURN)
    short = finding()
    assert (short.status, "brindlewick over $25.00: 2" in short.message) == ("warning", True)
    assert "quillpost giftcards load" in short.advice
    assert finding(**issuer).status == "ok"
    file = tmp_path / "cards.csv"
    file.write_text(f"brand,amount_cents,code\n{BRAND},{VALUE},HUSH-1\n{BRAND},{VALUE},HUSH-2\n")
    stocking.load_stock(container.db, container.encryptor, file, now=container.clock())
    assert finding().status == "ok"
    offered = giftcard_brands.c.code.in_([BRAND, "pomberry"])
    execute(container, sa.update(giftcard_brands).values(is_offered=offered))
    assert brands() == "of 1 of the 2 that are offered no card is free. First pomberry"
    assert brands(**issuer).startswith("of 2 of the 2 that are offered no issuer code is known.")
    execute(container, sa.update(giftcard_brands).values(issuer_code="OKMHM2X2OHYV"))
    assert brands(**issuer) == "2 offered, and live mail can bring each"


def test_the_doctor_tells_of_void_cards_not_given_back(container: Container, owner: Account, clock: Clock) -> None:
    [piece] = issue_order_cards(container, send_giftcards(owner))
    move_items(container, [piece], ItemStatus.FAILED)
    assert "void gift cards" not in findings(container)
    clock.advance(hours=2)
    found = findings(container)["void gift cards"]
    assert (found.status, found.message) == ("warning", "not given back yet: 1 of sandbox")
