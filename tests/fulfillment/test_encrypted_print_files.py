"""The print file of gift cards: sealed in the store, in clear for its printer, and for operators, noted."""

import re
import stat
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batch_files, batches
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import (
    CHUNK_BYTES,
    BatchFileStorage,
    batch_file_key,
    find_secret_names,
    list_all_secret_files,
)
from quillpost.fulfillment.ports import PartnerDown, PrintJob
from quillpost.integrations.printing.http import HttpPartner
from quillpost.integrations.storage.objects import build_folder_store
from quillpost.orders.rules import ItemStatus
from quillpost.privacy import tasks as privacy_tasks
from quillpost.privacy.erasure import service as erasure_service
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.web.application import create_app
from support.factories import GIFT, Account, Build, Clock, make_account, make_operator, people, run_jobs_for
from support.giftcard_orders import issue_order_cards, load_stock, move_items
from support.orders import HOME
from support.print_partners import SECRET, job, now, printer_of
from support.production import LIVE_SETTINGS, files_of, only_batch
from support.rows import execute, run, scalar, scalars
from support.test_client import TestClient

SENT = GIFT | HOME
KEYS = {"1": b"1" * 32, "2": b"2" * 32}


@pytest.fixture
def container(build: Build) -> Container:
    return build(test_review_seconds=1, test_journey_seconds=100_000)


@pytest.fixture
def operator(container: Container, http: TestClient) -> Account:
    return make_operator(container, http)


@pytest.fixture
def batch(owner: Account, container: Container, clock: Clock) -> int:
    """Two gift cards in testing mode, with the printer."""
    sent = owner.send("giftcard", recipients=people(2), **SENT)
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=4)
    found = only_batch(container)
    assert found.status == "handed", found
    return int(found.id)


def kept(container: Container) -> BatchFileStorage:
    return BatchFileStorage(container.storage.store, container.encryptor)


def claims_left(container: Container) -> list[bool]:
    return scalars(container, "select claim_sealed is not null from giftcards order by item_id")


def mail(container: Container, batch_id: int) -> None:
    mailed = sa.update(batches).where(batches.c.id == batch_id).values(status="mailed", mailed_at=container.clock())
    execute(container, mailed)


def test_the_sheets_of_a_gift_card_are_secret_and_nothing_else() -> None:
    names = ["print.pdf", "envelopes.pdf", "manifest.csv", "manifest.json", "statement.json"]
    pieces = load_shipped_products(None)
    secret = {name: find_secret_names(names, piece) for name, piece in pieces.items()}
    assert {name: found for name, found in secret.items() if found} == {"giftcard": {"print.pdf"}}


def test_a_sealed_file_opens_whole_and_in_its_place_alone_and_with_the_current_key(tmp_path: Path) -> None:
    """Without a service: keys and a folder."""
    files = BatchFileStorage(build_folder_store(tmp_path), Encryptor(KEYS, "1"))
    place = batch_file_key(7, "print.pdf")
    for size in (0, 1, CHUNK_BYTES, CHUNK_BYTES + 1):
        files.put_files(7, {"print.pdf": b"x" * size}, secret_names={"print.pdf"})
        assert files.read_file(7, "print.pdf", is_secret=True) == b"x" * size
        assert b"xxxx" not in files.store.get(place)
    files.store.put(batch_file_key(8, "print.pdf"), files.store.get(place))
    with pytest.raises(DecryptionFailed):
        files.read_file(8, "print.pdf", is_secret=True)
    # No piece can be left out or moved.
    files.put_files(7, {"print.pdf": b"a" * CHUNK_BYTES + b"b" * CHUNK_BYTES}, secret_names={"print.pdf"})
    whole = files.store.get(place)
    length = 4 + int.from_bytes(whole[:4])
    first, second, end = whole[:length], whole[length : 2 * length], whole[2 * length :]
    damages = (b"", first, first + second, first + end, second + first + end, end, b"%PDF-1.7 in clear")
    for damaged in (*damages, whole[:-1], whole[: length + 2]):
        files.store.put(place, damaged)
        with pytest.raises(DecryptionFailed):
            files.read_file(7, "print.pdf", is_secret=True)
    files.put_files(7, {"print.pdf": b"secret"}, secret_names={"print.pdf"})
    before = files.read_header(7, "print.pdf")
    both, new = Encryptor(KEYS, "2"), Encryptor({"2": KEYS["2"]}, "2")
    BatchFileStorage(files.store, both).reencrypt(7, "print.pdf")
    assert BatchFileStorage(files.store, new).read_file(7, "print.pdf", is_secret=True) == b"secret"
    assert files.read_header(7, "print.pdf") != before
    with pytest.raises(FileMissing):
        files.reencrypt(9, "print.pdf")


def test_a_gift_card_s_print_file_lies_sealed_in_the_store(container: Container, batch: int) -> None:
    """One that is lost or damaged is made again."""
    key = batch_file_key(batch, "print.pdf")
    starts = {key.rpartition("/")[2]: data[:5] for key, data in files_of(container, batch).items()}
    assert starts.pop("print.pdf") != b"%PDF-"
    assert starts["envelopes.pdf"] == b"%PDF-"
    with container.db.system_transaction() as tx:
        assert list_all_secret_files(tx) == [(batch, "print.pdf")]
        known = fulfillment_queries.read_file_digests(tx, batch)
    plain = {name: kept(container).read_file(batch, name, is_secret=name == "print.pdf") for name in known}
    fulfillment_queries.require_same_files(plain, known)
    assert plain["print.pdf"].startswith(b"%PDF-")
    for damage in (None, b"", b"%PDF-1.7"):
        container.storage.store.delete(key)
        if damage is not None:
            container.storage.store.put(key, damage)
        batch_tasks.remake_files(container.production, batch)
        assert kept(container).read_file(batch, "print.pdf", is_secret=True) == plain["print.pdf"]


def test_a_printer_in_our_own_store_has_a_note_in_its_place(container: Container, batch: int) -> None:
    folder, store = f"print-jobs/test/batch-{batch:06d}/", container.storage.store
    job_files = {key.removeprefix(folder) for key in store.keys(folder)}
    assert "print.pdf" not in job_files
    assert job_files >= {"envelopes.pdf", "manifest.json", "ticket.json", "secret-files.txt"}
    note = store.get(f"{folder}secret-files.txt").decode()
    assert f"quillpost print download batch-{batch:06d} --to FOLDER" in note
    assert "print.pdf" in store.get(f"{folder}ticket.json").decode()


def secret_job() -> PrintJob:
    whole = job()
    return PrintJob(whole.reference, whole.files, whole.ticket, {"print.pdf"})


@pytest.mark.parametrize("kind", ["local", "http"])
def test_a_print_partner_has_it_in_clear(kind: str, tmp_path: Path) -> None:
    with printer_of(kind, tmp_path) as printer:
        printer.partner.submit(secret_job(), now=now())
        assert printer.files(job().reference)["print.pdf"] == job().files["print.pdf"]


def test_it_does_not_cross_a_network_in_clear() -> None:
    with pytest.raises(PartnerDown, match="over https alone"):
        HttpPartner("http://printer.example", secrets=[SECRET]).submit(secret_job(), now=now())


def test_in_a_folder_it_is_for_its_printer_alone(tmp_path: Path) -> None:
    """Also before it has its name: an attempt that dies leaves it there."""
    with printer_of("local", tmp_path) as printer:
        printer.partner.submit(secret_job(), now=now())
        printer.partner.submit(job("batch-000008"), now=now())
    found = {file.name: file for file in tmp_path.rglob("batch-00000?")}
    modes = [stat.S_IMODE(found[name].stat().st_mode) for name in ("batch-000007", "batch-000008")]
    files = [stat.S_IMODE((folder / "print.pdf").stat().st_mode) for _, folder in sorted(found.items())]
    assert (modes[0], files[0], modes[1] & 0o005, files[1] & 0o004) == (0o750, 0o640, 0o005, 0o004)


def test_live_gift_cards_reach_their_partner_in_clear(build: Build, clock: Clock, tmp_path: Path) -> None:
    """Whoever prints them needs the claims; our own store has them sealed all the same."""
    (tmp_path / "hot").mkdir()
    container = build(**LIVE_SETTINGS | {"print_partner": f"file://{tmp_path}/hot"}, review_seconds=1)
    load_stock(container, 1, mode="live")
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        sent = make_account(container, http, "sender@example.com", mode="live").send("giftcard", **SENT)
        assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=4)
    printed = (tmp_path / "hot/batch-000001/print.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert printed == kept(container).read_file(1, "print.pdf", is_secret=True)
    assert printed != files_of(container, 1)[batch_file_key(1, "print.pdf")]


# Downloads


def acts_of(container: Container, operator: Account) -> list[str]:
    return [line.act for line in run(container, list_audit_entries, operator.id)]


def test_a_call_leads_to_it_and_no_link_does(operator: Account, container: Container, batch: int) -> None:
    files = {file["name"]: file for file in operator.get(f"/print/batches/{batch}").json()["files"]}
    secret, other = files["print.pdf"], files["manifest.csv"]
    assert (secret["secret"], other["secret"]) == (True, False)
    assert secret["url"].endswith(f"/api/v2/print/batches/{batch}/files/print.pdf")
    assert re.search(r"/files/[^/]+$", other["url"])
    assert operator.http.get(secret["url"]).status_code == 401
    of_live = make_operator(container, operator.http, "live@example.com", mode="live")
    assert of_live.get(f"/print/batches/{batch}/files/print.pdf").status_code == 404
    found = operator.call("HEAD", f"/print/batches/{batch}/files/print.pdf")
    assert (found.status_code, found.content, acts_of(container, operator)) == (200, b"", [])
    answer = operator.http.get(secret["url"], headers={"Authorization": f"Bearer {operator.token}"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/pdf")
    assert answer.content == kept(container).read_file(batch, "print.pdf", is_secret=True)
    assert int(found.headers["Content-Length"]) == len(answer.content)
    assert answer.headers["Cache-Control"] == "no-store"
    assert f"batch-{batch:06d}-print.pdf" in answer.headers["Content-Disposition"]
    assert acts_of(container, operator) == ["print_file.downloaded"]
    expires = container.clock() + timedelta(days=1)
    for name, status in {"print.pdf": 404, "manifest.csv": 200}.items():
        path = container.storage.signed_path(f"batch-{batch}/{name}", expires_at=expires)
        assert operator.http.get(path).status_code == operator.http.head(path).status_code == status
    container.storage.store.delete(batch_file_key(batch, "manifest.csv"))
    assert operator.http.get(path).status_code == 404, "the file went, and its row is there still"


def test_what_cannot_be_noted_or_is_damaged_is_not_handed_out(
    operator: Account, container: Container, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_what: object, **_how: object) -> None:
        raise Unavailable("The disk is full.")

    path = f"/print/batches/{batch}/files/print.pdf"
    with monkeypatch.context() as patch:
        patch.setattr(audit_service, "record_audit_entries", is_full)
        answer = operator.get(path)
    assert (answer.status_code, answer.json()["message"]) == (503, "The disk is full.")
    container.storage.store.put(batch_file_key(batch, "print.pdf"), b"%PDF-")
    answer = operator.get(path)
    assert answer.status_code == 503
    assert f"quillpost print remake batch-{batch:06d}" in answer.json()["message"]
    assert acts_of(container, operator) == []


# Retention


def delete_expired(container: Container) -> None:
    privacy_tasks.delete_overdue(container.db, container.retention_days, now=container.clock())
    store = container.storage.store
    erasure_service.finish_erasures(container.db, container.encryptor, store, now=container.clock())


def test_it_goes_with_the_claim_and_mail(container: Container, clock: Clock, operator: Account, batch: int) -> None:
    mail(container, batch)
    clock.advance(days=13)
    delete_expired(container)
    assert batch_file_key(batch, "print.pdf") in files_of(container, batch)
    clock.advance(days=1, seconds=1)
    shown = privacy_tasks.list_retention(container.db, container.retention_days, now=container.clock())
    late = {(rule.rule.table, rule.rule.setting): rule.overdue_count for rule in shown}
    assert late["batch_files", "keep_giftcard_prints_days"] == 1
    assert late["giftcards", "keep_giftcard_prints_days"] == 2
    delete_expired(container)
    names = ("envelopes.pdf", "manifest.csv", "manifest.json", "statement.json")
    assert sorted(files_of(container, batch)) == [batch_file_key(batch, name) for name in names]
    assert claims_left(container) == [False, False]
    assert scalar(container, "select count(claim_digest) from giftcards") == 2
    left = {key.rpartition("/")[2] for key in container.storage.store.keys("print-jobs/")}
    assert ("secret-files.txt" in left, "manifest.json" in left) == (False, True)
    assert operator.get(f"/print/batches/{batch}/files/print.pdf").status_code == 404
    assert operator.get(f"/print/batches/{batch}").status_code == 200


def test_a_claim_that_never_reached_paper_goes_as_late(container: Container, clock: Clock, owner: Account) -> None:
    """Its piece ended once the card was issued, and was taken out of its batch."""
    pieces = issue_order_cards(container, owner.send("giftcard", recipients=people(2), **SENT).json()["id"])
    move_items(container, pieces[:1], ItemStatus.FAILED)
    for days, left in ((13, [True, True]), (2, [False, True])):
        clock.advance(days=days)
        delete_expired(container)
        assert claims_left(container) == left


def test_a_claim_stays_while_it_is_reprinted(container: Container, clock: Clock, operator: Account, batch: int) -> None:
    again = operator.post(f"/print/batches/{batch}/reprint", {"positions": [1], "reason": "Torn"})
    assert again.status_code == 201, again.text
    mail(container, batch)
    clock.advance(days=15)
    delete_expired(container)
    assert sorted(claims_left(container)) == [False, True]
    run_jobs_for(container, clock, seconds=2)
    reprint = again.json()["id"]
    assert kept(container).read_file(reprint, "print.pdf", is_secret=True).startswith(b"%PDF-")


def test_other_print_files_are_kept_as_before(container: Container, clock: Clock, batch: int) -> None:
    execute(container, sa.update(batch_files).values(is_secret=False))
    mail(container, batch)
    clock.advance(days=400)
    delete_expired(container)
    assert batch_file_key(batch, "print.pdf") in files_of(container, batch)
