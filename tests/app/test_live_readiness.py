"""Which settings let live mail reach paper, and what becomes of orders while one of them does not."""

from pathlib import Path

from quillpost.app import bootstrap
from quillpost.app.environments import TEST_INDICIA, Readiness, check_live_readiness
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from support.factories import Build, Clock
from support.orders import create_order, item_rows, open_account, order_row
from support.production import LIVE_SETTINGS, batch_rows, sweep_due_orders

NOT_PUBLIC = "QUILLPOST_BASE_URL is not a public https address, which QR codes need."

# One line more than a postcard has room for; letters and folded cards take it.
EIGHT_LINES = "|".join("ABCDEFGH")
TOO_LONG = (
    "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard, 6x9 postcard, 6x11 postcard,"
    " magnacard: shorten its lines."
)


def ready(**chosen: object) -> Readiness:
    settings = Settings.model_validate(LIVE_SETTINGS | chosen)
    return check_live_readiness(settings, bootstrap.build_renderer(settings))


def test_what_is_missing_is_reported_as_a_gap() -> None:
    assert ready() == Readiness(
        gaps=(), indicia={"first": ("FIRST-CLASS", "PERMIT 1"), "standard": ("PRSRT STD", "PERMIT 1")}
    )
    assert ready(print_partner=None).gaps == ("QUILLPOST_PRINT_PARTNER is not set: nobody prints.",)
    assert ready(mailer_id=None).gaps == ("QUILLPOST_MAILER_ID is not set: no barcode can be printed.",)


# The postage mark


def test_a_postage_mark_of_nothing_is_none() -> None:
    no_mark = "is not set: no postage mark for"
    for nothing in (None, "", " ", "|", " | ", "\t", "\n|\n"):
        assert ready(permit_first=nothing).gaps == (f"QUILLPOST_PERMIT_FIRST {no_mark} first class.",)
        assert ready(permit_standard=nothing).gaps == (f"QUILLPOST_PERMIT_STANDARD {no_mark} standard mail.",)


def test_a_postage_mark_that_does_not_fit_where_the_templates_have_it_is_a_gap_and_is_not_used(tmp_path: Path) -> None:
    found = ready(permit_first=EIGHT_LINES)
    assert found.gaps == (TOO_LONG,)
    assert found.indicia == {"first": ("",), "standard": ("PRSRT STD", "PERMIT 1")}
    assert ready(permit_first="|".join("ABCDEFG")).gaps == ()
    [gap] = ready(permit_standard="PRSRT STD U.S. POSTAGE PAID " * 40).gaps
    assert gap.startswith("QUILLPOST_PERMIT_STANDARD is too long")
    assert all(piece in gap for piece in ("4x6 postcard", "windowed letter", "notecard", "gift card"))
    file = tmp_path / "press.toml"
    file.write_text("[postcard-4x6.back]\nindicia = [5.0, 3.2, 0.6, 0.35]\n")
    [gap] = ready(templates=file, permit_first="A|B|C|D").gaps
    assert gap == "QUILLPOST_PERMIT_FIRST is too long for its place on 4x6 postcard: shorten its lines."


def test_a_mark_that_does_not_fit_pauses_orders_and_fails_no_piece_and_testing_has_its_own_mark(
    build: Build, clock: Clock
) -> None:
    container = build(**LIVE_SETTINGS | {"permit_first": EIGHT_LINES})
    order = create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.hold_reasons) == ("paused", [TOO_LONG])
        assert [item.status for item in item_rows(tx, order)] == ["Processing"]
    environment = container.environments["test"]
    assert (environment.gaps, set(environment.indicia.values())) == ((), {TEST_INDICIA})


def test_a_batch_that_was_made_before_waits_for_a_mark_that_fits(build: Build, clock: Clock) -> None:
    before = build(**LIVE_SETTINGS)
    order = create_order(before, open_account(before, mode="live"))
    sweep_due_orders(before, clock)
    after = build(**LIVE_SETTINGS | {"permit_first": EIGHT_LINES})
    with after.db.system_transaction() as tx:
        [made] = batch_rows(tx)
    batch_tasks.compose_batch(after.production, made.id, now=clock.now())
    with after.db.system_transaction() as tx:
        [waiting] = batch_rows(tx)
        assert (waiting.status, waiting.trouble) == ("new", TOO_LONG)
        assert [item.status for item in item_rows(tx, order)] == ["Processing"]
    mended = build(**LIVE_SETTINGS)
    batch_tasks.compose_batch(mended.production, made.id, now=clock.now())
    with mended.db.system_transaction() as tx:
        [composed] = batch_rows(tx)
        assert (composed.status, composed.indicia) == ("composed", ["FIRST-CLASS", "PERMIT 1"])


# The address that QR codes point to


REACHED_BY_ALL = [
    "https://mail.example.com", "https://mail.example.com/", "https://mail.example.com:8443",
    "https://example.com/mail", "https://93.184.216.34", "https://[2606:4700::1111]",
]  # fmt: skip
REACHED_BY_FEW = [
    None, "", "http://mail.example.com", "https://", "https:///mail", "https://localhost", "https://localhost.",
    "https://mail.localhost:8025", "https://mail", "https://127.0.0.1", "https://10.0.0.1",
    "https://192.168.1.20:8025", "https://[::1]", "https://[fd00::1]", "https://mail.example.com:port",
    "https://someone:hush@mail.example.com", "https://mail.example .com",
    # What follows the address would be no path any more.
    "https://mail.example.com?from=paper", "https://mail.example.com/#",
]  # fmt: skip


def test_codes_may_point_only_to_what_everyone_can_reach() -> None:
    assert {address: ready(base_url=address).gaps for address in REACHED_BY_ALL} == dict.fromkeys(REACHED_BY_ALL, ())
    gap = (NOT_PUBLIC,)
    assert {address: ready(base_url=address).gaps for address in REACHED_BY_FEW} == dict.fromkeys(REACHED_BY_FEW, gap)
