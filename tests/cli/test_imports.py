"""Commands that read files or make some: `lists`, `leads`, `tracking ingest`, `barcode` and `hands`."""

import csv
import fcntl
import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from PIL import Image

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.cli import handwriting
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.settings import Settings
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.integrations.storage.objects import FaceFolder
from quillpost.recipients.leads.ports import LeadQuery
from quillpost.recipients.leads.rules import RECORD_TYPES
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, STYLES, FaceRecipe, Style
from quillpost.rendering.handwriting.service import FontSources, Hands
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.service import Renderer
from support.cli_results import Quillpost
from support.designs import NO_PACKAGES, file_of, hands_in, stock
from support.orders import open_account
from support.production import mailed_order, scan_journey, tracking_codes
from support.rows import run, scalars

PEOPLE = "Wer,Wo,Zip\nJane,12 Main St,78701\nJohn,14 Main St,78701\nJim,12 main st.,78701\nJoe,=1,1\n"
TO_OWNER = ("--account", "owner@example.com")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text(PEOPLE)
    return file


def test_a_file_fills_a_list_or_says_why(beside: Quillpost, file: Path, container: Container, account: int) -> None:
    maps = ("--map", "Wo=address", "--map", "Wer=name")
    outcome = beside("lists", "import", file, *TO_OWNER, "--name", "Visitors", *maps)
    assert outcome.code == 0, outcome.err
    [list_id] = scalars(container, sa.select(mailing_lists.c.id).where(mailing_lists.c.account_id == account))
    assert "Columns: Wer as name, Wo as address, Zip as postal_code" in outcome.out
    assert f"List {list_id}: 4 rows read, 2 imported, 2 rejected (1 of them duplicates)" in outcome.out
    report = file.with_name("people-rejected.csv")
    assert f"with the reasons: {report}" in outcome.err
    rows = list(csv.reader(report.read_text().splitlines()))
    assert rows[0] == ["line", "reason", "Wer", "Wo", "Zip"]
    assert [row[0] for row in rows[1:]] == ["4", "5"]
    assert rows[2][3] == "'=1"

    exported = beside("lists", "export", list_id, file.with_name("out.csv"))
    assert (exported.code, exported.out) == (0, f"2 recipients: {file.with_name('out.csv')}\n")
    assert [entry.act for entry in run(container, list_audit_entries, account)] == ["list.exported"]
    again = beside("lists", "import", file.with_name("out.csv"), *TO_OWNER, "--list", list_id)
    assert "2 rows read, 0 imported, 2 rejected (2 of them duplicates)" in again.out

    file.write_text("Name,Street,Zip,Likes\nJane,12 Main St,78701,tea\n")
    whole = ("lists", "import", file, *TO_OWNER, "--name", "Whole")
    assert "1 column is left out: Likes. Map it if you need it." in beside(*whole).err
    assert "2 rows read" in beside(*whole, "--no-header", "--map", "1=address").out


REFUSED = (
    (("people.csv", "--name", "x"), "map one to address or email. The columns are Wer, Wo, Zip."),
    (("people.csv", "--name", "x", "--map", "Rue=address"), "mapping.Rue: There is no such column."),
    (("people.csv", "--name", "x", "--map", "Rue"), "--map needs COLUMN=FIELD"),
    (("people.csv", "--list", str(2**40), "--map", "Wo=address"), f"owner@example.com has no list {2**40}."),
    (("people.csv",), "Say which list"),
    (("poem.pdf", "--name", "x"), "This file is a PDF."),
    (("none.csv", "--name", "x"), "cannot be read: No such file or directory."),
)


@pytest.mark.usefixtures("clean_database", "account")
def test_a_bad_file_is_refused(beside: Quillpost, file: Path, container: Container, subtests: pytest.Subtests) -> None:
    folder = file.parent
    (folder / "poem.pdf").write_bytes(b"%PDF-1.4")
    for (name, *options), error in REFUSED:
        with subtests.test(error):
            outcome = beside("lists", "import", folder / name, *TO_OWNER, *options)
            assert (outcome.code, error in outcome.err) == (1, True)
    assert list(container.storage.store.keys("imports/")) == []
    assert beside("lists", "export", 2**40, folder / "out.csv").is_one_sentence(f"There is no list {2**40}.")
    assert not (folder / "out.csv").exists()
    (folder / "poem.txt").write_text("Roses are red")
    for words in (
        ("poem.txt",), ("missing.csv",), ("poem.txt", "--country", "Texas"), ("poem.txt", "--source", "sample"),
    ):  # fmt: skip
        with subtests.test(str(words)):
            outcome = beside("leads", "import", folder / words[0], *words[1:])
            assert (outcome.code, outcome.err.startswith("quillpost: ")) == (1, True)
            assert len(outcome.err.strip().splitlines()) == 1
    assert beside("tracking", "ingest", folder / "nowhere.json").is_one_sentence()
    assert beside("barcode", folder / "missing").is_one_sentence()


LEADS = "LON,LAT,NUMBER,STREET,POSTCODE\n-97.74,30.27,1,Oak St,78701\n-97.74,30.27,1,OAK ST,78701\n,,2,=Oak St,78701\n"


@pytest.mark.usefixtures("clean_database")
def test_leads_come_are_listed_and_go(beside: Quillpost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "county.csv"
    file.write_text(LEADS)
    done = beside("leads", "import", file, "--source", "county")
    assert done.code == 0, done.err
    assert "county.csv: 3 rows, 1 records, 1 doubles, 1 refused" in done.out
    with (tmp_path / "leads-rejected.csv").open() as rejected:
        [row] = csv.DictReader(rejected)
    assert (row["file"], row["row"], row["street"]) == ("county.csv", "3", "'=Oak St")
    assert "latitude" in row["reason"]
    assert "imported before, nothing changed" in beside("leads", "import", file, "--source", "county").out
    assert "county" in beside("leads", "list").out
    assert beside("leads", "forget", "county").out == "1 records of county were removed.\n"
    gone = beside("leads", "forget", "county")
    assert (gone.code, "quillpost leads list" in gone.err) == (1, True)
    assert "no addresses yet" in beside("leads", "list").out


@pytest.mark.usefixtures("clean_database")
def test_the_sample_comes_with_the_first_test_search_or_by_hand(beside: Quillpost, container: Container) -> None:
    query = LeadQuery(30.27, -97.74, 5)
    assert len(container.lead_providers["test"].search(query)) == 5
    assert container.lead_providers["live"].search(query) == []
    assert "made-up addresses are there" in beside("leads", "sample").out
    found = TableLeadProvider(container.db, use_samples=True, clock=container.clock)
    for kind in RECORD_TYPES:
        leads = found.search(LeadQuery(30.27, -97.74, 20, [kind]))
        assert len(leads) == 20, kind
        assert all("Sample" in (lead.resident.name or lead.resident.company or "") for lead in leads)
    assert TableLeadProvider(container.db, use_samples=False, clock=container.clock).search(query) == []


@pytest.mark.usefixtures("clean_database")
def test_scans_of_a_carrier_are_read_once_and_counted(beside: Quillpost, tmp_path: Path, container: Container) -> None:
    order = mailed_order(container, open_account(container))
    scans = [json.loads(scan.raw) for scan in scan_journey(container, *tracking_codes(container, order))]
    others = {"imb": "00310555555000000001", "scanDatetime": "2026-05-05T12:00:00Z", "mailPhase": "1"}
    file, packed, poem = tmp_path / "scans.json", tmp_path / "scans.json.gz", tmp_path / "poem.txt"
    file.write_text(json.dumps({"events": [*scans, others, {"imb": "12"}]}))
    packed.write_bytes(gzip.compress(file.read_bytes()))
    poem.write_text("Roses are red")
    outcome = beside("tracking", "ingest", poem, file)
    assert outcome.code == 1
    assert f"{poem}: This is no file of scans" in outcome.err
    assert outcome.out.strip() == f"{file}: 6 rows read, 5 new, 4 of our pieces, 1 refused; moved: 1 Delivered"
    assert "  row 6: its barcode is not 20 or 31 digits\n" in outcome.err
    again = beside("tracking", "ingest", packed)
    assert (again.code, again.err) == (0, "  row 6: its barcode is not 20 or 31 digits\n")
    assert "6 rows read, 0 new, 0 of our pieces, 1 refused; moved: none" in again.out
    from_input = beside("tracking", "ingest", "-", stdin=packed.read_bytes())
    assert (from_input.code, from_input.out.startswith("-: 6 rows read, 0 new")) == (0, True)


LINES = "01234567094987654321\n01234567094987654321 01234567891\n0123456709498765432\n"
ANSWERS = """ATTFATTDTTADTAATTDTDTATTDAFDDFADFDFTFFFFFTATFAAAATDFFTDAADFTFDTDT
AADTFFDFTDADTAADAATFDTDDAAADDTDTTDAFADADDDTFFFDDTTTADFAAADFTDAADA
error 09
"""


def test_barcodes_of_lines_become_letters_or_codes(tmp_path: Path, quillpost: Quillpost) -> None:
    command = [sys.executable, "-m", "quillpost", "barcode"]
    ended = subprocess.run(command, input=LINES, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == (ANSWERS, "")
    file = tmp_path / "pieces"
    file.write_text(LINES)
    outcome = quillpost("barcode", file, file)
    assert (outcome.code, outcome.out) == (0, ANSWERS * 2)


GRACE = next(style for style in STYLES if style.name == "Grace")
assert GRACE.lettering
SATISFY: FaceRecipe = GRACE.lettering


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder in which one typeface is not ready."""
    folder = tmp_path / "faces"
    stock(folder, without=[SATISFY])
    return folder


def test_the_hands_are_listed_with_whether_they_are_ready(faces: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("hands", faces_folder=faces, font_packages=NO_PACKAGES)
    assert outcome.code == 0
    rows = {row.split("│")[2].strip(): row for row in outcome.out.splitlines() if row.startswith("│")}
    assert list(rows) == [style.name for style in hands_in(faces).styles.values()]
    cells = {name: [cell.strip() for cell in row.strip("│").split("│")] for name, row in rows.items()}
    assert cells["Zeyada"] == ["1", "Zeyada", "AI: handwriting", "yes"]
    assert cells["Grace"] == ["13", "Grace", "Realistic: lettering, from Satisfy", "no"]
    assert [name for name, cell in cells.items() if cell[-1] == "no"] == ["Grace"]


def test_preparing_makes_what_is_missing_and_nothing_else(faces: Path, quillpost: Quillpost) -> None:
    ages = {file.name: file.stat().st_mtime_ns for file in faces.iterdir()}
    command = [sys.executable, "-m", "quillpost", "hands", "--prepare"]
    chosen = {"QUILLPOST_FACES_FOLDER": str(faces), "QUILLPOST_FONT_PACKAGES": str(NO_PACKAGES)}
    # A process of its own: whoever prepares typefaces lowers its own priority for good.
    ended = subprocess.run(command, env=os.environ | chosen, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("Preparing typefaces: 1 of 1, Satisfy\n", "")
    made = file_of(SATISFY, faces)
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    assert made.read_bytes() == bootstrap.build_hands(Settings()).prepare_face(SATISFY).to_bytes()
    assert {name: (faces / name).stat().st_mtime_ns for name in ages} == ages

    again = quillpost("hands", "--prepare", faces_folder=faces, font_packages=NO_PACKAGES)
    assert (again.code, again.out) == (0, "All typefaces are ready.\n")


def test_hands_wait_for_another_process_and_need_a_folder(faces: Path, tmp_path: Path, quillpost: Quillpost) -> None:
    with (faces / ".preparing").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outcome = quillpost("hands", "--prepare", faces_folder=faces)
    assert (outcome.code, "Another process" in outcome.out) == (0, True)
    assert not file_of(SATISFY, faces).exists()
    file = tmp_path / "a file"
    file.touch()
    assert quillpost("hands", "--prepare", faces_folder=file / "faces").is_one_sentence(str(file))
    assert quillpost("hands", file / "gallery").is_one_sentence()


def test_a_helper_whose_service_is_gone_ends_at_once() -> None:
    command = [sys.executable, "-m", "quillpost", "hands", "--prepare", "--beside", "1"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9


class FewFonts(FontSources):
    """Two styles: handwriting, and lettering."""

    def installed(self) -> tuple[Style, ...]:
        return (DEFAULT_STYLE, GRACE)


def test_the_gallery_shows_every_hand_and_every_side_of_every_piece(
    tmp_path: Path, faces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handwriting, "PRODUCT_DPI", 36)
    kept = bootstrap.build_hands(Settings())
    file_of(SATISFY, faces).write_bytes(kept.prepare_face(SATISFY).to_bytes())
    few = Hands(FewFonts(NO_PACKAGES), FaceFolder(faces))
    handwriting.draw_gallery(Renderer(few, load_shipped_products(), sandbox=DecoderSandbox()), tmp_path / "gallery")
    assert_complete(tmp_path / "gallery", [DEFAULT_STYLE, GRACE])
    assert (tmp_path / "gallery" / "index.html").as_uri() in capsys.readouterr().out


@pytest.mark.long
def test_the_gallery_of_an_installation_is_complete(tmp_path: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("hands", tmp_path / "gallery")
    assert outcome.code == 0, outcome.err
    assert_complete(tmp_path / "gallery", [*bootstrap.build_hands(Settings()).styles.values()])


def assert_complete(gallery: Path, hands: list[Style]) -> None:
    page = (gallery / "index.html").read_text()
    pictures = sorted(file.name for file in gallery.glob("*.png"))
    assert [name for name in pictures if f'"{name}"' not in page] == []
    assert len([name for name in pictures if name.startswith("hand-")]) == 3 * len(hands)
    assert [style.name for style in hands if style.name not in page] == []
    for name, piece in load_shipped_products().items():
        drawn = " ".join(file for file in pictures if file.startswith(f"piece-{name}-"))
        sides = [*piece.previews, "envelope"] if piece.envelope else [*piece.previews]
        assert [side for side in sides if f"-{side}.png" not in drawn] == []
    for name in pictures:
        with Image.open(gallery / name) as picture:
            shades = picture.convert("L").tobytes()
        assert max(shades) - min(shades) > 100, f"{name} is empty"
    assert "://" not in page, "it needs nothing from elsewhere"
